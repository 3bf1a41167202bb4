//! The end of a cluster. It is planned from who the cluster is and what stands of it, never from its spec or its provider,
//! which may be gone or wrong by now; and from what is there at this moment, never from a watch: a watch can be behind,
//! and what was deleted too early is not seen again.

use butler_api::{butler::TenantCluster, names};
use butler_capi::{
    Observed, Plan,
    plan::{LEFT_BEHIND, Leaving, Step, asks_inside, end},
};
use butler_runtime::{
    controller::Wake,
    error::{ApiError, Category, Classify as _},
    events::Note,
    finalizers, status,
};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, ResourceExt as _, api::ListParams};
use serde_json::{Value, json};

use super::{
    Controller, Error, FINALIZER, addons, carry_out,
    carry_out::{Place, Standing, WAITED_FOR, index},
    explained, observe, report,
    seen::{Seen, observed},
    wake,
};

/// The API server refuses notes of more than 1024 bytes, and nearly all of this is ASCII.
const NOTE: usize = 1000;

impl Controller {
    /// One pass over a cluster that goes.
    pub(super) async fn end(&self, raw: &TenantCluster) -> Result<Wake, Error> {
        let Some(leaving) = Leaving::of(raw) else {
            return self.let_go_of_nothing(raw).await;
        };
        let identity = &leaving.identity;
        let namespace = identity.tenant_namespace();
        let place = Place {
            applier: &self.applier,
            namespace: &namespace,
            home: &identity.namespace,
        };
        let now = self.clock.now();
        let (mut observed, standing) = self.observe_end(raw, &leaving, &place).await?;
        if asks_inside(&leaving, &observed, now) {
            observed.inside = self.look_inside(identity).await;
        }
        let plan = end(&leaving, &observed, now);
        self.ask_inside(identity, &plan.inside).await;
        if let Err(error) = carry_out(&place, &plan, &standing).await {
            // What passes by itself is not worth a word.
            if !matches!(error.category(), Category::Conflict | Category::Unavailable) {
                let reason = error.category().as_str();
                self.refuse(raw, reason, explained(&error)).await?;
            }
            return Err(error);
        }
        if plan.deletion == Some(Step::Done) {
            self.tell_left(raw, &plan, observed.forced).await;
            self.looks.forget(&identity.uid);
            self.dns.forget(&identity.uid);
            return self.let_go(raw).await;
        }
        let next = report::status(raw, identity, None, &observed, &plan, now);
        status::report_in_turn(&self.applier, raw, raw.status.as_ref(), &next).await?;
        Ok(wake(&plan, now))
    }

    async fn let_go(&self, raw: &TenantCluster) -> Result<Wake, Error> {
        finalizers::remove(&self.applier.beside(raw), raw, FINALIZER).await?;
        Ok(Wake::OnChange)
    }

    /// A name that no cluster can have was refused before anything was made.
    async fn let_go_of_nothing(&self, raw: &TenantCluster) -> Result<Wake, Error> {
        let api: Api<Namespace> = Api::all(self.applier.client().clone());
        let uid = raw.uid().unwrap_or_default();
        let ours = ListParams::default().labels(&format!("{}={uid}", names::OWNER_UID));
        let found = api.list_metadata(&ours).await;
        let found = found.map_err(ApiError::of("list", "Namespaces of", &raw.name_any()))?;
        let is_forced = raw.annotations().contains_key(names::FORCE_DELETE);
        let left = found.items.first().filter(|_| !is_forced);
        let Some(left) = left else {
            return self.let_go(raw).await;
        };
        let message = format!(
            "no cluster can have this name, and namespace {} was made for it: remove it",
            left.name_any()
        );
        self.refuse(raw, "Invalid", message).await?;
        Ok(Wake::OnChange)
    }

    /// Names what is left: nobody will look for it.
    async fn tell_left(&self, raw: &TenantCluster, plan: &Plan, is_forced: bool) {
        if plan.waits.is_empty() {
            return;
        }
        let message = format!("left behind: {}", plan.waits.join(", "));
        let note = Note {
            warning: true,
            reason: if is_forced {
                "DeletionForced"
            } else {
                LEFT_BEHIND
            },
            action: "Delete",
            message: message.chars().take(NOTE).collect(),
        };
        self.events.tell(raw, &note).await;
    }

    /// What is there now. A kind that nobody installed, or not any more, has no objects.
    async fn observe_end(
        &self,
        raw: &TenantCluster,
        leaving: &Leaving,
        place: &Place<'_>,
    ) -> Result<(Observed, Standing), Error> {
        let uid = &leaving.identity.uid;
        let mut objects = Vec::new();
        for (version, kind) in WAITED_FOR {
            objects.extend(place.list(version, kind).await?);
        }
        let (machines, mut objects) = objects
            .into_iter()
            .partition::<Vec<Value>, _>(|object| observe::is_a(object, "Machine"));
        let api: Api<Namespace> = Api::all(self.applier.client().clone());
        let namespace = api.get_opt(place.namespace).await;
        let namespace = namespace.map_err(ApiError::of("get", "Namespace", place.namespace))?;
        let addons = addons::live(&self.applier, &leaving.identity).await?;
        objects.extend(addons.iter().map(|addon| addons::described(addon)));
        objects.retain(|object| observe::is_of(object, uid));
        let seen = Seen {
            objects: &objects,
            machines: &machines,
            namespace: namespace.as_ref(),
            addons: &addons,
        };
        let mut observed = observed(raw, uid, &seen);
        // Cluster API takes them away with what refers to them, whichever provider they are of.
        let referred = objects.iter().filter_map(observe::infrastructure);
        observed.objects.extend(referred.map(|id| (id, None)));
        observed.left = observe::left(raw);
        observed.remains = namespace.as_ref().and_then(observe::remains);
        let mut standing = index(objects);
        if let Some(namespace) = namespace {
            let value = observe::described(json!(namespace), "v1", "Namespace");
            standing.insert(observe::id(&value), value);
        }
        Ok((observed, standing))
    }
}
