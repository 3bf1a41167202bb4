//! `plan`: what an addon would change in its cluster, asked of the cluster itself by the real Helm.

use std::path::{Path, PathBuf};

use butler_addons::values::lay_over;
use butler_api::butler::{AddonDefinition, TenantAddon};
use butler_controller::{
    addon_engine::mirror,
    tenant_addon::preview::{Preview, PreviewError, Tools, preview},
};
use butler_runtime::error::chain;
use butler_toolchain::Toolchain;
use kube::Api;
use serde_json::json;

use super::super::{
    cluster::kubeconfig,
    connection::{Access, Connection, within_if_any},
    documents,
    failure::{Code, Failure},
    output::{self, Format},
    table::{or_dash, table},
};

/// Which addon, and what would be different about it.
#[derive(clap::Args)]
pub(crate) struct Plan {
    /// Name of a `TenantAddon` that is there; left out with --filename
    #[arg(required_unless_present = "filename", conflicts_with = "filename")]
    name: Option<String>,
    /// File with the `TenantAddon` as it shall be; - is standard input
    #[arg(short, long, value_name = "FILE")]
    filename: Option<PathBuf>,
    /// Version of the chart that it would have
    #[arg(long, value_name = "VERSION")]
    version: Option<String>,
    /// File with Helm values that would be laid over those of the addon; may be repeated
    #[arg(long, value_name = "FILE")]
    values: Vec<PathBuf>,
    /// Show each change line by line. What Secrets hold is not shown
    #[arg(long)]
    diff: bool,
    /// End with 7 when there are changes
    #[arg(long)]
    exit_code: bool,
    /// The program helm, version 4 [default: that of Butler's toolchain, then the one in $PATH]
    #[arg(long, env = "BUTLER_HELM", value_name = "FILE")]
    helm: Option<PathBuf>,
    /// Where charts are asked for instead, such as `https://charts.example.com=oci://mirror.local/charts`, as the
    /// controller has it; `oci+http://` is a registry without TLS
    #[arg(
        long,
        env = "BUTLER_CHART_MIRRORS",
        value_name = "FROM=TO",
        value_delimiter = ',',
        value_parser = mirror
    )]
    chart_mirror: Vec<(String, String)>,
    /// How the answer is written
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

pub(crate) async fn run(args: &Plan, access: &Access) -> Result<(), Failure> {
    let mut connection = access.connect().await?;
    let addon = addon(args, &mut connection).await?;
    let definition = definition(&addon, &connection).await?;
    let cluster = &addon.spec.cluster_ref.name;
    let kubeconfig = kubeconfig::fetch(&connection, cluster).await?;
    let folder = tempfile::tempdir()
        .map_err(|error| Failure::new(Code::Failed, format!("could not make a folder: {error}")))?;
    let tools = Tools {
        helm: &helm(args)?,
        folder: folder.path(),
        mirrors: &args.chart_mirror,
    };
    let asked = preview(
        &connection.client,
        &tools,
        &addon,
        definition.as_ref(),
        &kubeconfig,
    );
    let name = addon.metadata.name.as_deref().unwrap_or_default();
    let title = format!("TenantAddon {}/{name}", connection.namespace);
    let found = Box::pin(asked).await;
    let found = found.map_err(|error| failure(&title, &error))?;
    match args.output.syntax() {
        Some(syntax) => output::data(&found, syntax)?,
        None => output::bytes(text(&found, args.diff).as_bytes())?,
    }
    if args.exit_code && !found.changes.is_empty() {
        let count = found.changes.len();
        return Err(Failure::new(
            Code::Differs,
            format!("{title} would change {count} objects"),
        ));
    }
    Ok(())
}

/// The addon as it shall be.
async fn addon(args: &Plan, connection: &mut Connection) -> Result<TenantAddon, Failure> {
    let mut addon = match (&args.name, &args.filename) {
        (_, Some(file)) => from_file(file)?,
        (name, None) => {
            let name = name.as_deref().unwrap_or_default();
            let api: Api<TenantAddon> =
                Api::namespaced(connection.client.clone(), &connection.namespace);
            let title = format!("TenantAddon {}/{name}", connection.namespace);
            let found = within_if_any(&format!("get {title}"), api.get(name)).await?;
            found.ok_or_else(|| {
                let text = format!("there is no {title}; `kubectl get tenantaddons -A` shows those that you may see");
                Failure::new(Code::NotFound, text)
            })?
        }
    };
    match &addon.metadata.namespace {
        Some(namespace) => connection.namespace.clone_from(namespace),
        None => addon.metadata.namespace = Some(connection.namespace.clone()),
    }
    if let Some(version) = &args.version {
        addon.spec.version = Some(version.clone());
    }
    for file in &args.values {
        let documents = documents::read(std::slice::from_ref(file))?;
        for document in documents {
            if !document.value.is_object() {
                return Err(Failure::usage(format!(
                    "values in {} are not a map of keys to values",
                    file.display()
                )));
            }
            let held = addon.spec.values.get_or_insert_with(|| json!({}));
            lay_over(held, &document.value);
        }
    }
    Ok(addon)
}

fn from_file(file: &Path) -> Result<TenantAddon, Failure> {
    let documents = documents::read(&[file.to_owned()])?;
    let mut found = documents.iter().filter(|it| it.kind() == "TenantAddon");
    match (found.next(), found.next()) {
        (Some(one), None) => one.read(),
        (None, _) => Err(Failure::usage(format!(
            "{} has no TenantAddon; its apiVersion is butler.butlerlabs.dev/v1alpha1",
            file.display()
        ))),
        (Some(_), Some(_)) => Err(Failure::usage(format!(
            "{} has several TenantAddons: hand in one at a time",
            file.display()
        ))),
    }
}

async fn definition(
    addon: &TenantAddon,
    connection: &Connection,
) -> Result<Option<AddonDefinition>, Failure> {
    let Some(name) = &addon.spec.addon else {
        return Ok(None);
    };
    let api: Api<AddonDefinition> = Api::all(connection.client.clone());
    within_if_any(&format!("get AddonDefinition {name}"), api.get(name)).await
}

fn helm(args: &Plan) -> Result<PathBuf, Failure> {
    if let Some(helm) = &args.helm {
        return Ok(helm.clone());
    }
    let pinned = Toolchain::locate().and_then(|tools| tools.binary("helm", None));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut others = std::env::split_paths(&path).map(|folder| folder.join("helm"));
    pinned
        .ok()
        .or_else(|| others.find(|file| file.is_file()))
        .ok_or_else(|| {
            Failure::usage(
                "there is no helm on this machine: install version 4, or name it with --helm",
            )
        })
}

fn failure(title: &str, error: &PreviewError) -> Failure {
    match error {
        PreviewError::Api(error) => {
            let what = format!("{} {} {}", error.verb, error.kind, error.name);
            Failure::answer(&what, &error.source)
        }
        PreviewError::Request(why) => {
            Failure::refused(format!("{title} cannot be carried out: {why}"))
        }
        other => Failure::new(
            Code::Failed,
            format!("could not plan {title}: {}", chain(other)),
        ),
    }
}

fn text(found: &Preview, diff: bool) -> String {
    let from = found.installed.as_deref().unwrap_or("none");
    let mut text = format!(
        "Release {}: {} {from} -> {}\n",
        found.release, found.chart, found.version
    );
    if found.changes.is_empty() {
        text.push_str("Nothing to do.\n");
        return text;
    }
    let rows: Vec<Vec<String>> = found
        .changes
        .iter()
        .map(|change| {
            vec![
                change.action.as_str().to_owned(),
                change.id.kind.clone(),
                or_dash(change.id.namespace.as_deref()),
                change.id.name.clone(),
                change.reason.clone().unwrap_or_default(),
            ]
        })
        .collect();
    let headings = ["ACTION", "KIND", "NAMESPACE", "NAME", "REASON"];
    text.push_str(&table(&headings, &rows));
    if diff {
        for change in &found.changes {
            let id = &change.id;
            text.extend(["\n", &id.kind, " ", &id.name, "\n", &change.diff]);
        }
    }
    text
}
