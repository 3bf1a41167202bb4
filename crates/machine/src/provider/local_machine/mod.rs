//! `LocalMachine`: one machine, from the moment its Machine has bootstrap data until it is deleted.

mod address;
mod identity;
mod plan;
mod report;

use std::{sync::Arc, time::Duration};

use butler_api::infrastructure::LocalMachine;
use butler_runtime::{
    apply::Applier,
    clock::SharedClock,
    controller::{Reconciler, Wake},
    error::{ApiError, Classify, chain},
    events::{Events, Note},
    finalizers,
    own_writes::OwnWrites,
    status,
};
use futures::{Stream, StreamExt, future, stream, stream::BoxStream};
use identity::{id, instance, provider_id};
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams},
    runtime::reflector::ObjectRef,
};
use plan::{Next, Start, World};
use report::Findings;
use serde_json::json;

use super::{
    Attachment, Error, FIELD_MANAGER, FINALIZER, Feeds, Host, Network, Settings, Trouble,
    capi::{self, Cluster, Machine},
};
use crate::{
    bootstrap::{self, Metadata, Plan},
    runtime::{MachineId, MachineSpec, Programs},
};

/// Bootstrap data that cannot be used may be written anew, and Secrets are not watched.
const AGAIN: Duration = Duration::from_secs(15);

/// Machines to look at because something they depend on changed.
pub(super) fn triggers(
    feeds: &Feeds,
    changes: BoxStream<'static, MachineId>,
) -> impl Stream<Item = ObjectRef<LocalMachine>> + Send + use<> {
    let of_machines = feeds.machines.subscribe().filter_map(|change| {
        let machine = change.object();
        let reference = machine.spec.infrastructure_ref.as_ref();
        let ours = reference.filter(|reference| reference.kind == "LocalMachine");
        let namespace = machine.namespace().unwrap_or_default();
        future::ready(ours.map(|ours| ObjectRef::new(&ours.name).within(&namespace)))
    });
    let store = feeds.local_machines.store();
    let of_clusters = feeds.clusters.subscribe().flat_map(move |change| {
        let cluster = change.object();
        let (namespace, name) = (cluster.namespace(), cluster.name_any());
        let ours = store.state_filter(|machine: &LocalMachine| {
            machine.namespace() == namespace
                && machine.labels().get(capi::CLUSTER_NAME) == Some(&name)
        });
        stream::iter(
            ours.into_iter()
                .map(|machine| ObjectRef::from_obj(&*machine)),
        )
    });
    let store = feeds.local_machines.store();
    let of_host = changes.filter_map(move |id| {
        let found = store.find(|machine| machine.uid().as_deref() == Some(id.as_str()));
        future::ready(found.map(|machine| ObjectRef::from_obj(&*machine)))
    });
    let of_addresses = address::triggers(feeds);
    stream::select(
        stream::select(of_host, of_addresses),
        stream::select(of_machines, of_clusters),
    )
}

/// Reconciles machines.
pub(super) struct Controller {
    applier: Applier,
    clock: SharedClock,
    events: Events,
    feeds: Arc<Feeds>,
    settings: Settings,
    host: Arc<dyn Host>,
    network: Arc<dyn Network>,
}

impl Controller {
    pub(super) fn new(
        client: &Client,
        clock: SharedClock,
        feeds: Arc<Feeds>,
        settings: Settings,
        host: Arc<dyn Host>,
        network: Arc<dyn Network>,
    ) -> Self {
        Self {
            applier: Applier::new(client.clone(), FIELD_MANAGER),
            events: Events::new(client.clone(), FIELD_MANAGER, Arc::clone(&clock)),
            clock,
            feeds,
            settings,
            host,
            network,
        }
    }

    /// One pass over a machine that is wanted.
    async fn advance(
        &self,
        raw: &LocalMachine,
        machine: Option<Arc<Machine>>,
        cluster: Option<Arc<Cluster>>,
        findings: &mut Findings,
    ) -> Result<Wake, Error> {
        let id = id(raw);
        let observed = self
            .host
            .observe(&id)
            .await
            .map_err(on_host("look at", raw))?;
        let next = plan::next(World {
            raw,
            machine: machine.as_deref(),
            network: cluster
                .as_ref()
                .and_then(|cluster| self.local_cluster(raw, cluster)),
            cluster: cluster.as_deref(),
            settings: &self.settings,
            observed: &observed,
        });
        findings.observed = Some(observed);
        // Asked for while the rest is still being waited for.
        let address = self.address(raw).await?;
        match next {
            Next::Wait(reason, message) => findings.waits = Some((reason, message)),
            // The change brings us back with what was written.
            Next::Adopt => {
                finalizers::add(&self.applier.beside(raw), raw, FINALIZER).await?;
            }
            Next::Stand { .. } | Next::Start(_) if address.is_none() => {
                let message = "waits for an address of its pool; its IPAddressClaim says why";
                findings.waits = Some(("WaitingForAddress", message.to_owned()));
            }
            Next::Stand { network } => {
                let attached = self.attach(raw, &network, address).await?;
                findings.address = Some(attached.address);
                self.write_provider_id(raw).await?;
            }
            Next::Start(start) => {
                let attached = self.attach(raw, &start.network, address).await?;
                return self.start(raw, start, attached, findings).await;
            }
        }
        Ok(Wake::OnChange)
    }

    async fn start(
        &self,
        raw: &LocalMachine,
        start: Start,
        attached: Attachment,
        findings: &mut Findings,
    ) -> Result<Wake, Error> {
        let id = id(raw);
        findings.address = Some(attached.address);
        let started_before = findings
            .observed
            .as_ref()
            .is_some_and(|seen| seen.outcome.is_some());
        let plan = match &start.data {
            Some(secret) if !started_before => {
                match self.bootstrap(raw, secret, &attached).await? {
                    Ok(plan) => plan,
                    Err(message) => {
                        findings.waits = Some(("InvalidBootstrapData", message.clone()));
                        self.tell(raw, true, "InvalidBootstrapData", message).await;
                        return Ok(Wake::After(AGAIN));
                    }
                }
            }
            _ => Plan::default(),
        };
        if !plan.ignored.is_empty() {
            let message = format!(
                "bootstrap data that means nothing here: {}",
                plan.ignored.join("; ")
            );
            self.tell(raw, false, "Ignored", message).await;
        }
        let spec = self.spec(raw, start, attached);
        self.host
            .start(spec, plan)
            .await
            .map_err(on_host("start", raw))?;
        let observed = self
            .host
            .observe(&id)
            .await
            .map_err(on_host("look at", raw))?;
        findings.observed = Some(observed);
        self.tell(raw, false, "Started", "the machine runs".to_owned())
            .await;
        self.write_provider_id(raw).await?;
        Ok(Wake::OnChange)
    }

    /// The bootstrap data as a plan, or what is wrong with it.
    async fn bootstrap(
        &self,
        raw: &LocalMachine,
        secret: &str,
        attached: &Attachment,
    ) -> Result<Result<Plan, String>, Error> {
        let namespace = raw.namespace().unwrap_or_default();
        let api: Api<Secret> = Api::namespaced(self.applier.client().clone(), &namespace);
        let found = api.get_opt(secret).await;
        let found = found.map_err(ApiError::of("get", "Secret", secret))?;
        let data = found.and_then(|secret| secret.data).unwrap_or_default();
        let Some(ByteString(value)) = data.get("value") else {
            let message = format!("there is no Secret {secret} with a key `value`");
            return Ok(Err(message));
        };
        let format = data
            .get("format")
            .map(|format| String::from_utf8_lossy(&format.0).into_owned());
        let metadata = Metadata {
            instance_id: instance(raw),
            hostname: raw.name_any(),
            address: attached.address,
        };
        let plan = bootstrap::plan(value, format.as_deref(), &metadata);
        Ok(plan.map_err(|error| chain(&error)))
    }

    fn spec(&self, raw: &LocalMachine, start: Start, attached: Attachment) -> MachineSpec {
        let Start {
            network: _,
            kubernetes,
            data: _,
            cpu_milli,
            memory_bytes,
        } = start;
        let settings = self.settings.clone();
        MachineSpec {
            id: id(raw),
            hostname: raw.name_any(),
            provider_id: provider_id(raw),
            network_namespace: attached.namespace,
            address: attached.address,
            nameservers: attached.nameservers,
            cpu_milli: Some(cpu_milli),
            memory_bytes: Some(memory_bytes),
            programs: Programs {
                kubernetes,
                containerd: settings.containerd,
                cni: settings.cni,
                extra: settings.extra,
            },
            sandbox_image: settings.sandbox_image,
            mirrors: settings.mirrors,
            image_store: settings.image_store,
        }
    }

    /// Cluster API finds the Node by it.
    async fn write_provider_id(&self, raw: &LocalMachine) -> Result<(), Error> {
        let planned = provider_id(raw);
        if raw.spec.provider_id.as_ref() == Some(&planned) {
            return Ok(());
        }
        let patch = json!({
            "metadata": {"uid": raw.metadata.uid},
            "spec": {"providerID": planned},
        });
        let params = PatchParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let name = raw.name_any();
        let patched = self
            .applier
            .beside(raw)
            .patch(&name, &params, &Patch::Merge(&patch))
            .await;
        patched.map_err(ApiError::of("write the id of", "LocalMachine", &name))?;
        Ok(())
    }

    /// The end: the machine first, then its place in the network.
    async fn end(&self, raw: &LocalMachine) -> Result<Wake, Error> {
        if !finalizers::has(raw, FINALIZER) {
            return Ok(Wake::OnChange);
        }
        let id = id(raw);
        let ended = async {
            self.host
                .remove(&id)
                .await
                .map_err(on_host("remove", raw))?;
            self.network
                .detach(&id)
                .await
                .map_err(on_network("detach", raw))
        };
        if let Err(error) = ended.await {
            let findings = Findings {
                waits: Some(("Deleting", chain(&error))),
                ..Findings::default()
            };
            self.report(raw, &findings).await?;
            return Err(error);
        }
        finalizers::remove(&self.applier.beside(raw), raw, FINALIZER).await?;
        Ok(Wake::OnChange)
    }

    /// UID of the `LocalCluster` of a Cluster.
    fn local_cluster(&self, raw: &LocalMachine, cluster: &Cluster) -> Option<String> {
        let reference = cluster.spec.infrastructure_ref.as_ref()?;
        let ours = Some(reference).filter(|reference| reference.kind == "LocalCluster")?;
        let namespace = raw.namespace();
        self.feeds
            .local_clusters
            .get(namespace.as_deref(), &ours.name)?
            .uid()
    }

    async fn report(&self, raw: &LocalMachine, findings: &Findings) -> Result<(), ApiError> {
        let next = report::status(raw, findings, self.clock.now());
        status::report(&self.applier, raw, raw.status.as_ref(), &next).await?;
        Ok(())
    }

    async fn tell(&self, raw: &LocalMachine, warning: bool, reason: &'static str, message: String) {
        let note = Note {
            warning,
            reason,
            action: "Start",
            message,
        };
        self.events.tell(raw, &note).await;
    }
}

impl Reconciler for Controller {
    type Object = LocalMachine;
    type Error = Error;
    const NAME: &'static str = "localmachine";

    fn own_writes(&self) -> &OwnWrites {
        self.applier.own_writes()
    }

    async fn reconcile(&self, raw: Arc<LocalMachine>) -> Result<Wake, Error> {
        let namespace = raw.namespace();
        let machine = capi::owner(&*raw, "Machine")
            .and_then(|name| self.feeds.machines.get(namespace.as_deref(), name));
        let cluster = machine.as_ref().and_then(|machine| {
            self.feeds
                .clusters
                .get(namespace.as_deref(), &machine.spec.cluster_name)
        });
        if let Some(reason) = capi::pause(&*raw, cluster.as_deref()) {
            let next = report::paused(&raw, reason, self.clock.now());
            status::report(&self.applier, &*raw, raw.status.as_ref(), &next).await?;
            return Ok(Wake::OnChange);
        }
        if raw.metadata.deletion_timestamp.is_some() {
            return self.end(&raw).await;
        }
        let mut findings = Findings::default();
        let result = self.advance(&raw, machine, cluster, &mut findings).await;
        if let Err(error) = &result {
            findings.waits = Some((error.category().as_str(), chain(error)));
        }
        self.report(&raw, &findings).await?;
        result
    }
}

fn on_host(action: &'static str, raw: &LocalMachine) -> impl FnOnce(Trouble) -> Error {
    let name = instance(raw);
    move |source| Error::Host {
        action,
        name,
        source,
    }
}

fn on_network(action: &'static str, raw: &LocalMachine) -> impl FnOnce(Trouble) -> Error {
    let name = instance(raw);
    move |source| Error::Network {
        action,
        name,
        source,
    }
}
