//! `create`: a cluster from flags or from a file. Only what was said is sent; the rest is the platform's choice.

use std::path::PathBuf;

use butler_api::{butler::TenantCluster, names, types::KubeVersion};
use kube::{api::PostParams, core::Request};
use serde_json::{Map, Value, json};

use super::{
    super::{
        NAME,
        connection::{Access, Connection, within},
        documents,
        failure::Failure,
        output::{self, Syntax},
    },
    wait::Answer,
};

/// What the cluster shall be like.
#[derive(clap::Args)]
pub(crate) struct Create {
    /// Name of the cluster; left out with --filename
    #[arg(required_unless_present = "filename", conflicts_with = "filename")]
    name: Option<String>,
    /// File with one `TenantCluster`; - is standard input
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["spec"])]
    filename: Option<PathBuf>,
    #[command(flatten)]
    spec: Spec,
    /// Write the cluster as YAML and make nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    answer: Answer,
}

/// The flags that describe a cluster.
#[derive(clap::Args, Default)]
#[group(id = "spec", multiple = true)]
pub(crate) struct Spec {
    /// Kubernetes release, such as v1.35.4
    #[arg(long = "kubernetes-version", visible_aliases = ["version", "k8s-version"], value_name = "VERSION", required_unless_present = "filename")]
    version: Option<KubeVersion>,
    /// How many workers [default: 1]
    #[arg(short, long, value_name = "NUMBER")]
    workers: Option<u16>,
    /// CPUs of a worker
    #[arg(long, value_name = "AMOUNT")]
    cpu: Option<String>,
    /// Memory of a worker, such as 8Gi
    #[arg(long, value_name = "AMOUNT")]
    memory: Option<String>,
    /// System disk of a worker, such as 100Gi
    #[arg(long, value_name = "AMOUNT")]
    disk: Option<String>,
    /// Operating system of the workers: rocky, flatcar, talos, kairos or bottlerocket
    #[arg(long, value_name = "NAME")]
    os: Option<String>,
    /// Image of the provider for the workers
    #[arg(long, value_name = "NAME")]
    image: Option<String>,
    /// One more pool of the same machines, such as gpu=2; may be repeated
    #[arg(long = "pool", value_name = "NAME=NUMBER", value_parser = pool)]
    pools: Vec<(String, u16)>,
    /// `ProviderConfig` that machines come from [default: the platform's]
    #[arg(short, long, value_name = "NAME")]
    provider: Option<String>,
    /// Team that the cluster belongs to
    #[arg(long, value_name = "NAME")]
    team: Option<String>,
    /// Environment of the team
    #[arg(long, value_name = "NAME")]
    environment: Option<String>,
    /// Pods of the control plane
    #[arg(long, value_name = "NUMBER")]
    control_plane_replicas: Option<u16>,
    /// Addresses of pods
    #[arg(long, value_name = "RANGE")]
    pod_cidr: Option<String>,
    /// Addresses of Services
    #[arg(long, value_name = "RANGE")]
    service_cidr: Option<String>,
    /// Your own addresses for load balancers: one, or START-END
    #[arg(long, value_name = "ADDRESSES")]
    lb_pool: Option<String>,
    /// Remove nothing of it until the protection is lifted
    #[arg(long)]
    deletion_protection: bool,
}

fn pool(text: &str) -> Result<(String, u16), String> {
    let parts = text.split_once('=');
    let parsed = parts.and_then(|(name, number)| Some((name.to_owned(), number.parse().ok()?)));
    parsed
        .filter(|(name, _)| !name.is_empty())
        .ok_or_else(|| "write a name and a number of workers, such as gpu=2".to_owned())
}

pub(crate) async fn run(args: &Create, access: &Access) -> Result<(), Failure> {
    let object = match &args.filename {
        Some(file) => {
            let read = documents::read(std::slice::from_ref(file))?;
            documents::only_cluster(&read)?.value.clone()
        }
        None => object(args.name.as_deref().unwrap_or_default(), &args.spec),
    };
    let placed = placed(object, access.namespace())?;
    if args.dry_run {
        return output::data(&placed, Syntax::Yaml);
    }
    let mut connection = access.connect().await?;
    let made = send(&mut connection, placed).await?;
    let name = made.metadata.name.clone().unwrap_or_default();
    let said = format!("{} was made", connection.title(&name));
    args.answer.give(&connection, &name, &made, &said).await
}

/// The object with the namespace that was asked for, where one was.
fn placed(mut object: Value, asked: Option<&str>) -> Result<Value, Failure> {
    let own = object
        .pointer("/metadata/namespace")
        .and_then(Value::as_str);
    match (own, asked) {
        (Some(own), Some(asked)) if own != asked => {
            return Err(Failure::usage(format!(
                "the file says namespace {own} and --namespace says {asked}: say one"
            )));
        }
        (None, Some(asked)) => {
            let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
            if let Some(metadata) = metadata {
                metadata.insert("namespace".to_owned(), json!(asked));
            }
        }
        (_, _) => {}
    }
    Ok(object)
}

/// Makes the cluster. A field that nobody knows is refused instead of dropped without a word.
async fn send(connection: &mut Connection, mut object: Value) -> Result<TenantCluster, Failure> {
    let text = |object: &Value, path: &str| {
        let text = object.pointer(path).and_then(Value::as_str);
        text.unwrap_or_default().to_owned()
    };
    let own = text(&object, "/metadata/namespace");
    if own.is_empty() {
        object = placed(object, Some(&connection.namespace))?;
    } else {
        connection.namespace = own;
    }
    let title = connection.title(&text(&object, "/metadata/name"));
    let what = format!("make {title}");
    let parameters = PostParams {
        dry_run: false,
        field_manager: Some(NAME.to_owned()),
    };
    let api = connection.clusters();
    let request =
        Request::new(api.resource_url()).create(&parameters, object.to_string().into_bytes());
    let mut request =
        request.map_err(|error| Failure::usage(format!("could not {what}: {error}")))?;
    let strict = format!("{}&fieldValidation=Strict", request.uri());
    *request.uri_mut() = strict
        .parse()
        .map_err(|error| Failure::usage(format!("could not {what}: {error}")))?;
    within(&what, connection.client.request(request)).await
}

/// The cluster that the flags describe.
fn object(name: &str, flags: &Spec) -> Value {
    let mut spec = Map::new();
    let reference = |name: &String| json!({ "name": name });
    spec.insert("kubernetesVersion".to_owned(), json!(flags.version));
    let machine = said([
        ("cpu", flags.cpu.as_deref().map(amount)),
        ("memory", flags.memory.as_ref().map(|it| json!(it))),
        ("diskSize", flags.disk.as_ref().map(|it| json!(it))),
        (
            "os",
            some(said([
                ("type", flags.os.as_ref().map(|it| json!(it))),
                ("imageRef", flags.image.as_ref().map(|it| json!(it))),
            ])),
        ),
    ]);
    let machine = some(machine);
    let mut workers = said([("machineTemplate", machine.clone())]);
    workers.insert("replicas".to_owned(), json!(flags.workers.unwrap_or(1)));
    spec.insert("workers".to_owned(), Value::Object(workers));
    let pools: Vec<Value> = flags
        .pools
        .iter()
        .map(|(name, replicas)| {
            let mut pool = said([("machineTemplate", machine.clone())]);
            pool.insert("name".to_owned(), json!(name));
            pool.insert("replicas".to_owned(), json!(replicas));
            Value::Object(pool)
        })
        .collect();
    spec.extend(said([
        (
            "workerPools",
            (!pools.is_empty()).then_some(Value::Array(pools)),
        ),
        ("providerConfigRef", flags.provider.as_ref().map(reference)),
        ("teamRef", flags.team.as_ref().map(reference)),
        (
            "controlPlane",
            flags
                .control_plane_replicas
                .map(|it| json!({ "replicas": it })),
        ),
        (
            "networking",
            some(said([
                ("podCIDR", flags.pod_cidr.as_ref().map(|it| json!(it))),
                (
                    "serviceCIDR",
                    flags.service_cidr.as_ref().map(|it| json!(it)),
                ),
                ("loadBalancerPool", flags.lb_pool.as_deref().map(addresses)),
            ])),
        ),
        (
            "deletionProtection",
            flags.deletion_protection.then_some(json!(true)),
        ),
    ]));
    let environment = flags.environment.as_ref();
    let labels = environment.map(|it| json!({ names::ENVIRONMENT: it }));
    let mut metadata = said([("labels", labels)]);
    metadata.insert("name".to_owned(), json!(name));
    json!({
        "apiVersion": "butler.butlerlabs.dev/v1alpha1", "kind": "TenantCluster",
        "metadata": metadata, "spec": spec,
    })
}

/// Only the fields that have a value.
fn said<const N: usize>(fields: [(&str, Option<Value>); N]) -> Map<String, Value> {
    let fields = fields.into_iter();
    fields
        .filter_map(|(name, value)| Some((name.to_owned(), value?)))
        .collect()
}

fn some(fields: Map<String, Value>) -> Option<Value> {
    (!fields.is_empty()).then_some(Value::Object(fields))
}

/// A whole number as a number, anything else as the API server judges it.
fn amount(text: &str) -> Value {
    text.parse::<u32>()
        .map_or_else(|_| json!(text), |number| json!(number))
}

/// `A-B` is a range, `A` is a range of one.
fn addresses(text: &str) -> Value {
    let (start, end) = text.split_once('-').unwrap_or((text, text));
    json!({"start": start.trim(), "end": end.trim()})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_said_is_sent() {
        let flags = Spec {
            version: Some("v1.35.4".parse().unwrap()),
            ..Spec::default()
        };
        let expected = json!({
            "apiVersion": "butler.butlerlabs.dev/v1alpha1", "kind": "TenantCluster",
            "metadata": {"name": "demo"},
            "spec": {"kubernetesVersion": "v1.35.4", "workers": {"replicas": 1}},
        });
        assert_eq!(object("demo", &flags), expected);
    }

    #[test]
    fn everything_that_was_said_is_where_it_belongs() {
        let text = |text: &str| Some(text.to_owned());
        let flags = Spec {
            version: Some("v1.35.4".parse().unwrap()),
            workers: Some(3),
            cpu: text("8"),
            memory: text("32Gi"),
            disk: text("200Gi"),
            os: text("flatcar"),
            image: text("default/flatcar"),
            pools: vec![("gpu".to_owned(), 2)],
            provider: text("harvester-prod"),
            team: text("team-a"),
            environment: text("production"),
            control_plane_replicas: Some(3),
            pod_cidr: text("10.244.0.0/16"),
            service_cidr: text("10.96.0.0/12"),
            lb_pool: text("10.40.1.0-10.40.1.50"),
            deletion_protection: true,
        };
        let machine = json!({"cpu": 8, "memory": "32Gi", "diskSize": "200Gi",
                             "os": {"type": "flatcar", "imageRef": "default/flatcar"}});
        let object = object("demo", &flags);
        assert_eq!(
            object["metadata"]["labels"],
            json!({names::ENVIRONMENT: "production"})
        );
        assert_eq!(
            object["spec"],
            json!({
                "kubernetesVersion": "v1.35.4",
                "workers": {"replicas": 3, "machineTemplate": machine},
                "workerPools": [{"name": "gpu", "replicas": 2, "machineTemplate": machine}],
                "providerConfigRef": {"name": "harvester-prod"}, "teamRef": {"name": "team-a"},
                "controlPlane": {"replicas": 3}, "deletionProtection": true,
                "networking": {"podCIDR": "10.244.0.0/16", "serviceCIDR": "10.96.0.0/12",
                               "loadBalancerPool": {"start": "10.40.1.0", "end": "10.40.1.50"}},
            })
        );
        let read: TenantCluster = serde_json::from_value(object).unwrap();
        assert_eq!(read.spec.worker_pools.len(), 1);
    }

    #[test]
    fn a_file_and_a_flag_that_contradict_each_other_are_refused() {
        let object = json!({"metadata": {"name": "demo", "namespace": "a"}});
        assert!(placed(object.clone(), Some("b")).is_err());
        assert!(placed(object.clone(), Some("a")).is_ok());
        assert_eq!(placed(object.clone(), None).unwrap(), object);
        let bare = json!({"metadata": {"name": "demo"}});
        let placed = placed(bare, Some("b")).unwrap();
        assert_eq!(placed["metadata"]["namespace"], "b");
    }

    #[test]
    fn a_pool_is_a_name_and_a_number() {
        assert_eq!(pool("gpu=2"), Ok(("gpu".to_owned(), 2)));
        for bad in ["gpu", "gpu=", "=2", "gpu=two"] {
            assert!(pool(bad).is_err(), "{bad}");
        }
    }
}
