//! `kubeconfig`: the administrator's access to a cluster, to standard output, into a file that only its owner reads, or
//! beside what kubectl already knows.

use std::{
    fs::{OpenOptions, Permissions},
    io::{self, Write as _},
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use butler_api::butler::TenantCluster;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;

use super::{
    super::{
        connection::{Access, Connection, within_if_any},
        failure::{Code, Failure},
        output,
    },
    merge,
};

/// Keys under which the kubeconfig may lie: Cluster API's first, then those of kubeadm and of people.
const KEYS: [&str; 3] = ["value", "admin.conf", "kubeconfig"];

/// Whose kubeconfig, and where it goes.
#[derive(clap::Args)]
pub(crate) struct Kubeconfig {
    /// Name of the cluster
    name: String,
    /// File to write, readable by its owner only; - is standard output
    #[arg(short, long, default_value = "-", value_name = "FILE")]
    output: PathBuf,
    /// Add it as context NAMESPACE/NAME to the file of --output, or of $KUBECONFIG, or to ~/.kube/config. Everything else
    /// in there stays, and so does the current context
    #[arg(short, long)]
    merge: bool,
}

pub(crate) async fn run(args: &Kubeconfig, access: &Access) -> Result<(), Failure> {
    let connection = access.connect().await?;
    let held = fetch(&connection, &args.name).await?;
    let is_named = args.output != Path::new("-");
    if args.merge {
        let file = if is_named {
            args.output.clone()
        } else {
            merge::usual_file()?
        };
        let context = format!("{}/{}", connection.namespace, args.name);
        merge::into_file(&file, &held, &context)?;
        let file = file.display();
        return output::line(&format!(
            "context {context} is in {file}: kubectl --context {context} get nodes"
        ));
    }
    if !is_named {
        return output::bytes(&held);
    }
    store(&args.output, &held).map_err(|error| {
        Failure::new(
            Code::Failed,
            format!("could not write {}: {error}", args.output.display()),
        )
    })
}

/// The administrator's kubeconfig of a cluster.
pub(crate) async fn fetch(connection: &Connection, cluster: &str) -> Result<Vec<u8>, Failure> {
    let title = connection.title(cluster);
    let cluster = connection.cluster(cluster).await?;
    let (namespace, name) = place(&cluster, &title)?;
    let api: Api<Secret> = Api::namespaced(connection.client.clone(), &namespace);
    let what = format!("get Secret {namespace}/{name}, the kubeconfig of {title}");
    let secret = within_if_any(&what, api.get(&name)).await?;
    let secret = secret.ok_or_else(|| {
        Failure::new(
            Code::NotFound,
            format!("Secret {namespace}/{name}, the kubeconfig of {title}, is not there: its control plane writes it again within moments"),
        )
    })?;
    let data = secret.data.unwrap_or_default();
    let held = KEYS.iter().find_map(|key| data.get(*key));
    let held = held.ok_or_else(|| {
        Failure::new(
            Code::NotFound,
            format!(
                "Secret {namespace}/{name} has none of the keys {}",
                KEYS.join(", ")
            ),
        )
    })?;
    Ok(held.0.clone())
}

/// Namespace and name of the Secret.
fn place(cluster: &TenantCluster, title: &str) -> Result<(String, String), Failure> {
    let status = cluster.status.clone().unwrap_or_default();
    if let (Some(namespace), Some(secret)) = (status.tenant_namespace, status.kubeconfig_secret_ref)
    {
        return Ok((namespace, secret.name));
    }
    let phase = status
        .phase
        .map_or_else(|| "Pending".to_owned(), |phase| format!("{phase:?}"));
    Err(Failure::new(
        Code::NotFound,
        format!(
            "{title} has no kubeconfig yet: its control plane has not come up (phase {phase}); `butlerctl cluster get` shows what it waits for"
        ),
    ))
}

fn store(file: &Path, content: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut out = options
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(file)?;
    // One that was there before keeps its mode otherwise.
    out.set_permissions(Permissions::from_mode(0o600))?;
    out.write_all(content)
}
