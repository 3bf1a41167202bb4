//! Bringing a tenant cluster to its plan: read, compare, send what differs.
//!
//! A look costs one list for each kind and namespace, with our label, and no write when everything stands. Objects are
//! written under one field manager and only with the fields of the plan, so what others keep beside them stays.

use std::{collections::BTreeSet, time::Duration};

use butler_runtime::error::{Category, Classify as _, is_not_found};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kube::{
    Api, Client,
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, Preconditions, TypeMeta},
};
use serde_json::Value;

use super::{
    compare::{self, Action, Live, Seen, Step},
    error::{TenantError, within},
    objects::{Kind, ObjectKey, PROJECT, PROJECT_LABEL, TenantObject, TenantPlan},
};

/// Who owns our fields in tenant clusters.
pub const FIELD_MANAGER: &str = "steward";

/// How patient a look is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How long one call may take.
    pub call: Duration,
    /// How many calls are under way at once; each needs a connection, which is most of what a tenant costs.
    pub at_once: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            call: Duration::from_secs(5),
            at_once: 2,
        }
    }
}

/// What a look found and did.
#[derive(Debug, Default)]
pub struct Synced {
    /// What was sent.
    pub applied: Vec<ObjectKey>,
    /// How many objects stood already.
    pub unchanged: usize,
    /// What was removed because its addon is off.
    pub removed: Vec<ObjectKey>,
    /// What was sent and still did not stand in the answer: something in the tenant, such as a webhook, changes it back.
    pub contested: Vec<ObjectKey>,
    /// What could not be done, each with its reason; the rest was done nevertheless.
    pub failed: Vec<(ObjectKey, TenantError)>,
}

impl Synced {
    /// Whether anything was written.
    pub fn has_changed(&self) -> bool {
        !self.applied.is_empty() || !self.removed.is_empty()
    }
}

/// Brings the tenant to its plan.
///
/// One object that is refused, by a policy of the tenant for instance, does not stop the others. A tenant that goes out of
/// reach does: what follows would only wait.
///
/// # Errors
/// When the tenant could not be read.
pub async fn sync(
    client: &Client,
    plan: &TenantPlan,
    limits: Limits,
) -> Result<Synced, TenantError> {
    let tenant = Tenant { client, limits };
    let live = tenant.read(plan).await?;
    let steps = compare::steps(plan, &live);
    let touched: BTreeSet<&ObjectKey> = steps.iter().map(|step| step.key).collect();
    let unchanged = plan
        .objects
        .iter()
        .filter(|object| !touched.contains(&object.key))
        .count();
    let mut synced = Synced {
        unchanged,
        ..Synced::default()
    };
    // Collected first: a stream that keeps the closure is not `Send` for every lifetime.
    let calls: Vec<_> = steps
        .into_iter()
        .map(|step| async move {
            let Step { key, action } = step;
            (key, tenant.act(plan, key, action).await)
        })
        .collect();
    let mut outcomes = stream::iter(calls).buffered(limits.at_once);
    while let Some((key, outcome)) = outcomes.next().await {
        match outcome {
            Ok(Done::Removed) => synced.removed.push(key.clone()),
            Ok(Done::Applied) => synced.applied.push(key.clone()),
            Ok(Done::Contested) => {
                synced.applied.push(key.clone());
                synced.contested.push(key.clone());
            }
            Err(error) => {
                let outage = error.is_outage();
                synced.failed.push((key.clone(), error));
                if outage {
                    break;
                }
            }
        }
    }
    drop(outcomes);
    Ok(synced)
}

/// What became of a step.
enum Done {
    Applied,
    Contested,
    Removed,
}

#[derive(Clone, Copy)]
struct Tenant<'a> {
    client: &'a Client,
    limits: Limits,
}

impl Tenant<'_> {
    /// Everything of ours, in the namespaces that the plan is about: what a tenant labels elsewhere is not even read.
    async fn read(self, plan: &TenantPlan) -> Result<Live, TenantError> {
        let keys = plan
            .objects
            .iter()
            .map(|object| &object.key)
            .chain(&plan.retired);
        let places: BTreeSet<_> = keys
            .map(|key| (key.kind, key.namespace.as_deref()))
            .collect();
        let calls: Vec<_> = places
            .into_iter()
            .map(|(kind, namespace)| self.list(kind, namespace))
            .collect();
        stream::iter(calls)
            .buffer_unordered(self.limits.at_once)
            .try_fold(Live::new(), |mut live, found| async {
                live.extend(found);
                Ok(live)
            })
            .await
    }

    async fn list(
        self,
        kind: Kind,
        namespace: Option<&str>,
    ) -> Result<Vec<(ObjectKey, Value)>, TenantError> {
        let params = ListParams::default().labels(&format!("{PROJECT_LABEL}={PROJECT}"));
        let name = namespace.unwrap_or("all");
        let api = self.api(kind, namespace);
        let found = self.call("list", kind, name, api.list(&params)).await?;
        let described = found.items.into_iter().filter_map(|object| {
            let key = ObjectKey::new(kind, namespace, object.metadata.name.as_deref()?);
            Some((key, to_value(kind, object)))
        });
        Ok(described.collect())
    }

    async fn act(
        self,
        plan: &TenantPlan,
        key: &ObjectKey,
        action: Action,
    ) -> Result<Done, TenantError> {
        match action {
            Action::Apply(body) => match self.apply(key, &body).await {
                // An object without our label was not read: it may be in the way with a field that cannot change.
                Err(error) if error.category() == Category::Invalid => {
                    let object = plan.objects.iter().find(|object| object.key == *key);
                    self.take_over(object, error).await
                }
                outcome => outcome,
            },
            Action::Replace { seen, body } => self.replace(key, seen, &body).await,
            Action::Remove(seen) => self.delete(key, seen).await.map(|()| Done::Removed),
        }
    }

    async fn apply(self, key: &ObjectKey, body: &Value) -> Result<Done, TenantError> {
        let api = self.api(key.kind, key.namespace.as_deref());
        let params = PatchParams::apply(FIELD_MANAGER).force();
        let patch = Patch::Apply(body);
        let name = key.full_name();
        let answer = self
            .call(
                "apply",
                key.kind,
                &name,
                api.patch(&key.name, &params, &patch),
            )
            .await?;
        let stands = compare::stands(body, &to_value(key.kind, answer));
        tracing::info!(kind = ?key.kind, %name, stands, "applied in the tenant cluster");
        Ok(if stands {
            Done::Applied
        } else {
            Done::Contested
        })
    }

    async fn take_over(
        self,
        object: Option<&TenantObject>,
        refused: TenantError,
    ) -> Result<Done, TenantError> {
        let Some(object) = object else {
            return Err(refused);
        };
        let key = &object.key;
        let api = self.api(key.kind, key.namespace.as_deref());
        let held = self
            .call("get", key.kind, &key.full_name(), api.get_opt(&key.name))
            .await?;
        let held = held.map(|held| to_value(key.kind, held));
        match compare::compare(object, held.as_ref()) {
            Some(Action::Replace { seen, body }) => self.replace(key, seen, &body).await,
            _ => Err(refused),
        }
    }

    async fn replace(self, key: &ObjectKey, seen: Seen, body: &Value) -> Result<Done, TenantError> {
        self.delete(key, seen).await?;
        self.apply(key, body).await
    }

    async fn delete(self, key: &ObjectKey, seen: Seen) -> Result<(), TenantError> {
        let api = self.api(key.kind, key.namespace.as_deref());
        let preconditions = Preconditions {
            uid: seen.uid,
            resource_version: None,
        };
        let params = DeleteParams {
            preconditions: Some(preconditions),
            ..DeleteParams::background()
        };
        let deleted = async {
            match api.delete(&key.name, &params).await {
                Err(error) if !is_not_found(&error) => Err(error),
                Ok(_) | Err(_) => Ok(()),
            }
        };
        self.call("delete", key.kind, &key.full_name(), deleted)
            .await?;
        tracing::info!(kind = ?key.kind, name = %key.full_name(), "deleted in the tenant cluster");
        Ok(())
    }

    fn api(self, kind: Kind, namespace: Option<&str>) -> Api<DynamicObject> {
        let resource = kind.resource();
        match namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        }
    }

    async fn call<T>(
        self,
        verb: &'static str,
        kind: Kind,
        name: &str,
        call: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, TenantError> {
        within(self.limits.call, verb, &format!("{kind:?}"), name, call).await
    }
}

/// As JSON, with the kind, which items of a list do not carry, and without the list of who owns which field, which is most
/// of its size.
fn to_value(kind: Kind, mut object: DynamicObject) -> Value {
    let resource = kind.resource();
    object.types = Some(TypeMeta {
        api_version: resource.api_version,
        kind: resource.kind,
    });
    object.metadata.managed_fields = None;
    serde_json::to_value(object).expect("what was read from JSON can be written as JSON")
}
