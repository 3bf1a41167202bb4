//! `addon plan` of both programs: what an addon would change in its cluster, asked of the cluster itself by the real Helm.

use std::{
    fmt::Debug,
    path::{Path, PathBuf},
};

use butler_addons::{diff::Difference, values::lay_over};
use butler_api::butler::{AddonDefinition, ManagementAddon, TenantAddon};
use butler_controller::{
    addon_engine::mirror,
    tenant_addon::preview::{Preview, PreviewError, Tools},
};
use butler_runtime::error::chain;
use butler_toolchain::Toolchain;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    connection::within_if_any,
    documents,
    failure::{Code, Failure},
    output::{self, Format},
    table::{or_dash, table},
};

/// Which addon, and what would be different about it.
#[derive(clap::Args)]
pub(crate) struct Plan {
    /// Name of an addon that is there; left out with --filename
    #[arg(required_unless_present = "filename", conflicts_with = "filename")]
    name: Option<String>,
    /// File with the addon as it shall be; - is standard input
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

/// An addon of whichever cluster.
pub(crate) trait Addon:
    Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned
{
    /// The version and the values that it asks for.
    fn wishes(&mut self) -> (&mut Option<String>, &mut Option<Value>);
    /// The entry of the catalogue that it names.
    fn entry(&self) -> Option<&str>;
}

impl Addon for TenantAddon {
    fn wishes(&mut self) -> (&mut Option<String>, &mut Option<Value>) {
        (&mut self.spec.version, &mut self.spec.values)
    }

    fn entry(&self) -> Option<&str> {
        self.spec.addon.as_deref()
    }
}

impl Addon for ManagementAddon {
    fn wishes(&mut self) -> (&mut Option<String>, &mut Option<Value>) {
        (&mut self.spec.version, &mut self.spec.values)
    }

    fn entry(&self) -> Option<&str> {
        self.spec.addon.as_deref()
    }
}

/// Where Helm is, and a folder that goes with this.
pub(crate) struct Bench {
    helm: PathBuf,
    folder: TempDir,
}

impl Bench {
    pub(crate) fn tools<'a>(&'a self, plan: &'a Plan) -> Tools<'a> {
        Tools {
            helm: &self.helm,
            folder: self.folder.path(),
            mirrors: &plan.chart_mirror,
        }
    }
}

impl Plan {
    /// The addon as it shall be: the one of the file or else the one that is there, with what the command line says of it.
    pub(crate) async fn addon<K: Addon>(&self, api: &Api<K>) -> Result<K, Failure> {
        let mut addon = match (&self.name, &self.filename) {
            (_, Some(file)) => from_file(file)?,
            (name, None) => there(api, name.as_deref().unwrap_or_default()).await?,
        };
        let (version, values) = addon.wishes();
        if self.version.is_some() {
            version.clone_from(&self.version);
        }
        for file in &self.values {
            for document in documents::read(std::slice::from_ref(file))? {
                if !document.value.is_object() {
                    return Err(Failure::usage(format!(
                        "values in {} are not a map of keys to values",
                        file.display()
                    )));
                }
                lay_over(values.get_or_insert_with(|| json!({})), &document.value);
            }
        }
        Ok(addon)
    }

    /// What Helm needs on this machine.
    pub(crate) fn bench(&self) -> Result<Bench, Failure> {
        let folder = tempfile::tempdir().map_err(|error| {
            Failure::new(Code::Failed, format!("could not make a folder: {error}"))
        })?;
        let helm = self.helm()?;
        Ok(Bench { helm, folder })
    }

    fn helm(&self) -> Result<PathBuf, Failure> {
        if let Some(helm) = &self.helm {
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

    /// Writes the answer; `title` is how people know the addon.
    pub(crate) fn tell(
        &self,
        title: &str,
        found: Result<Preview, PreviewError>,
    ) -> Result<(), Failure> {
        let found = found.map_err(|error| failure(title, &error))?;
        match self.output.syntax() {
            Some(syntax) => output::data(&found, syntax)?,
            None => output::bytes(text(&found, self.diff).as_bytes())?,
        }
        let count = found.changes.len();
        if self.exit_code && count > 0 {
            let text = format!("{title} would change {count} objects");
            return Err(Failure::new(Code::Differs, text));
        }
        Ok(())
    }
}

async fn there<K: Addon>(api: &Api<K>, name: &str) -> Result<K, Failure> {
    let (kind, plural) = (K::kind(&()), K::plural(&()));
    let title = match api.namespace() {
        Some(namespace) => format!("{kind} {namespace}/{name}"),
        None => format!("{kind} {name}"),
    };
    let found = within_if_any(&format!("get {title}"), api.get(name)).await?;
    found.ok_or_else(|| {
        let text =
            format!("there is no {title}; `kubectl get {plural} -A` shows those that you may see");
        Failure::new(Code::NotFound, text)
    })
}

fn from_file<K: Addon>(file: &Path) -> Result<K, Failure> {
    let (kind, version) = (K::kind(&()), K::api_version(&()));
    let documents = documents::read(&[file.to_owned()])?;
    let mut found = documents.iter().filter(|it| it.kind() == kind);
    match (found.next(), found.next()) {
        (Some(one), None) => one.read(),
        (None, _) => Err(Failure::usage(format!(
            "{} has no {kind}; its apiVersion is {version}",
            file.display()
        ))),
        (Some(_), Some(_)) => Err(Failure::usage(format!(
            "{} has several {kind}s: hand in one at a time",
            file.display()
        ))),
    }
}

/// The entry of the catalogue that an addon names, if it is there.
pub(crate) async fn definition(
    addon: &impl Addon,
    client: &Client,
) -> Result<Option<AddonDefinition>, Failure> {
    let Some(name) = addon.entry() else {
        return Ok(None);
    };
    let api: Api<AddonDefinition> = Api::all(client.clone());
    within_if_any(&format!("get AddonDefinition {name}"), api.get(name)).await
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
                note(change),
            ]
        })
        .collect();
    let headings = ["ACTION", "KIND", "NAMESPACE", "NAME", "NOTE"];
    text.push_str(&table(&headings, &rows));
    if diff {
        for change in &found.changes {
            let id = &change.id;
            text.extend(["\n", &id.kind, " ", &id.name, "\n", &change.diff]);
        }
    }
    text
}

/// Where an object comes from, and why it is refused.
fn note(change: &Difference) -> String {
    let said = [change.part.as_deref(), change.reason.as_deref()];
    let said: Vec<&str> = said.into_iter().flatten().collect();
    said.join("; ")
}
