//! `plan`: what a new cluster or a change would do, by the same planner as the controller's. Nothing is written.

use std::path::PathBuf;

use butler_api::{
    butler::{
        ButlerConfig, ProviderConfig, TenantCluster, butler_config::ButlerConfigSpec,
        tenant_cluster::DEFAULT_POOL,
    },
    types::KubeVersion,
};
use butler_capi::{Observed, Raw, plan::Uses, quota::Usage, validate};
use butler_controller::tenant_cluster::{limited, preview};
use butler_runtime::{
    clock::{Clock as _, SystemClock},
    error::ApiError,
};
use serde::Serialize;
use serde_json::json;

use super::{
    super::{
        connection::{Access, Connection},
        documents::{self, Document},
        failure::{Code, Failure},
        output::{self, Format},
    },
    change,
};

/// Stands in for the UID that only an API server gives.
const NO_UID: &str = "00000000-0000-0000-0000-000000000000";

/// Which cluster, and what would change.
#[derive(clap::Args)]
pub(crate) struct Plan {
    /// Name of a cluster that is there; left out with --filename
    #[arg(required_unless_present = "filename", conflicts_with = "filename")]
    name: Option<String>,
    /// File with the `TenantCluster` as it shall be, and with a `ProviderConfig` or `ButlerConfig` to use instead of the
    /// management cluster's; may be repeated, - is standard input
    #[arg(short, long, value_name = "FILE")]
    filename: Vec<PathBuf>,
    /// Ask no management cluster: everything that the files do not say is assumed, and the assumptions are shown
    #[arg(long, requires = "filename")]
    offline: bool,
    /// How many workers it would have
    #[arg(short, long, value_name = "NUMBER")]
    workers: Option<u16>,
    /// The pool that --workers is about
    #[arg(long, default_value = DEFAULT_POOL, value_name = "NAME")]
    pool: String,
    /// The Kubernetes release it would run
    #[arg(long, visible_alias = "version", value_name = "VERSION")]
    to: Option<KubeVersion>,
    /// How the answer is written
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// Everything a plan is made from.
struct Given {
    cluster: TenantCluster,
    provider: ProviderConfig,
    platform: ButlerConfigSpec,
    /// Who can be asked.
    connection: Option<Connection>,
    /// Whether anything of the cluster can stand.
    stands: bool,
    assumed: Vec<String>,
}

/// What is shown.
#[derive(Serialize)]
struct Forecast {
    /// What was not known.
    assumed: Vec<String>,
    /// What is done, one after the other, each once the one before has come true.
    steps: Vec<butler_capi::Plan>,
    /// What the cluster takes of limited things afterwards.
    uses: Uses,
    /// What is then used of every limit that it counts against.
    limits: Vec<Usage>,
}

pub(crate) async fn run(args: &Plan, access: &Access) -> Result<(), Failure> {
    let documents = documents::read(&args.filename)?;
    let given = if args.offline {
        offline(&documents, access)?
    } else {
        Box::pin(online(args, &documents, access)).await?
    };
    let forecast = Box::pin(forecast(args, given)).await?;
    match args.output.syntax() {
        Some(syntax) => output::data(&forecast, syntax),
        None => output::bytes(text(&forecast).as_bytes()),
    }
}

/// From the files alone.
fn offline(documents: &[Document], access: &Access) -> Result<Given, Failure> {
    let mut assumed = vec!["the cluster is new: nobody was asked whether it is there".to_owned()];
    let mut cluster: TenantCluster = documents::only_cluster(documents)?.read()?;
    if cluster.metadata.namespace.is_none() {
        cluster.metadata.namespace = Some(access.namespace().unwrap_or("default").to_owned());
    }
    let provider = if let Some(provider) = in_files(documents, "ProviderConfig")? {
        provider
    } else {
        assumed
            .push("machines come from the local provider: no file has a ProviderConfig".to_owned());
        local()
    };
    let platform = if let Some(config) = in_files::<ButlerConfig>(documents, "ButlerConfig")? {
        config.spec
    } else {
        assumed
            .push("the platform has no defaults of its own: no file has a ButlerConfig".to_owned());
        ButlerConfigSpec::default()
    };
    Ok(Given {
        cluster,
        provider,
        platform,
        connection: None,
        stands: false,
        assumed,
    })
}

/// From the files and the management cluster.
async fn online(args: &Plan, documents: &[Document], access: &Access) -> Result<Given, Failure> {
    let mut connection = access.connect().await?;
    let mut assumed = Vec::new();
    let mut cluster = match &args.name {
        Some(name) => connection.cluster(name).await?,
        None => documents::only_cluster(documents)?.read()?,
    };
    let name = cluster.metadata.name.clone().unwrap_or_default();
    match &cluster.metadata.namespace {
        Some(namespace) => connection.namespace.clone_from(namespace),
        None => cluster.metadata.namespace = Some(connection.namespace.clone()),
    }
    let mut stands = true;
    if args.name.is_none() {
        match connection.cluster_if_any(&name).await? {
            Some(live) => {
                cluster.metadata.uid = live.metadata.uid;
                cluster.status = live.status;
            }
            None => stands = false,
        }
    }
    let client = &connection.client;
    let platform = match in_files::<ButlerConfig>(documents, "ButlerConfig")? {
        Some(config) => config.spec,
        None => {
            match preview::platform(client).await {
                // Who uses clusters need not be let in there.
                Err(error) if is_denied(&error) => {
                    assumed.push("the platform has no defaults of its own: you may not read its ButlerConfig".to_owned());
                    ButlerConfigSpec::default()
                }
                read => read.map_err(|error| failure(&error))?,
            }
        }
    };
    let provider = match in_files::<ProviderConfig>(documents, "ProviderConfig")? {
        Some(provider) => provider,
        None => preview::provider(client, &cluster, &platform)
            .await
            .map_err(|error| failure(&error))?,
    };
    Ok(Given {
        cluster,
        provider,
        platform,
        connection: Some(connection),
        stands,
        assumed,
    })
}

async fn forecast(args: &Plan, given: Given) -> Result<Forecast, Failure> {
    let Given {
        mut cluster,
        provider,
        platform,
        connection,
        stands,
        mut assumed,
    } = given;
    let metadata = &cluster.metadata;
    let title = format!(
        "TenantCluster {}/{}",
        metadata.namespace.as_deref().unwrap_or_default(),
        metadata.name.as_deref().unwrap_or_default()
    );
    if let Some(workers) = args.workers {
        cluster = change::resize(&cluster, &title, &args.pool, workers)?.applied_to(&cluster);
    }
    if let Some(to) = args.to {
        cluster = change::move_to(&cluster, &title, to)?.applied_to(&cluster);
    }
    if cluster.metadata.uid.is_none() {
        cluster.metadata.uid = Some(NO_UID.to_owned());
        assumed.push(
            "the UID of the cluster, and with it the end of its namespace's name, is made up"
                .to_owned(),
        );
    }
    let raw = Raw {
        cluster: &cluster,
        provider: &provider,
        platform: &platform,
    };
    let spec = validate(&raw)
        .map_err(|invalid| Failure::refused(format!("{title} cannot be carried out: {invalid}")))?;
    let now = SystemClock.now();
    let client = connection.as_ref().map(|connection| &connection.client);
    let mut observed = match client {
        Some(client) if stands => {
            let looked = preview::look(client, &cluster, &spec).await;
            looked.map_err(|error| failure(&error))?
        }
        Some(_) | None => Observed::default(),
    };
    let mut limits = Vec::new();
    if let Some(client) = client {
        let looked = limited::look(client, &cluster, &spec, &provider, &platform, now).await;
        let limited = looked.map_err(|error| failure(&error))?;
        observed.quota = limited.quota;
        limits = limited.usage;
        assumed.extend(limited.unknown);
    }
    assumed.extend(preview::assume(&spec, &mut observed, now));
    let steps = preview::foresee(&spec, observed, now);
    let uses = steps
        .last()
        .map(|step| step.uses.clone())
        .unwrap_or_default();
    Ok(Forecast {
        assumed,
        steps,
        uses,
        limits,
    })
}

fn text(forecast: &Forecast) -> String {
    let assumed = forecast.assumed.iter();
    let mut parts: Vec<String> = assumed.map(|it| format!("Assumed: {it}.\n")).collect();
    let several = forecast.steps.len() > 1;
    for (index, step) in forecast.steps.iter().enumerate() {
        if several {
            let gap = if parts.is_empty() { "" } else { "\n" };
            let when = if index == 0 { "First" } else { "Then" };
            parts.push(format!("{gap}{when}:\n"));
        }
        parts.push(step.actions().to_string());
    }
    let gap = if several { "\n" } else { "" };
    parts.push(format!("{gap}{}\n", forecast.uses));
    let limits = forecast.limits.iter();
    parts.extend(limits.map(|usage| format!("Limit: {usage}\n")));
    parts.concat()
}

/// An object of a kind that stands in the files.
fn in_files<T: serde::de::DeserializeOwned>(
    documents: &[Document],
    kind: &str,
) -> Result<Option<T>, Failure> {
    let mut found = documents.iter().filter(|document| document.kind() == kind);
    match (found.next(), found.next()) {
        (None, _) => Ok(None),
        (Some(one), None) => one.read().map(Some),
        (Some(_), Some(_)) => Err(Failure::usage(format!(
            "more than one document is a {kind}: hand in one"
        ))),
    }
}

fn local() -> ProviderConfig {
    let spec = serde_json::from_value(json!({"provider": "local"}));
    ProviderConfig::new(
        "local",
        spec.expect("a provider needs nothing but its kind"),
    )
}

fn is_denied(error: &ApiError) -> bool {
    failure(error).code == Code::Denied
}

fn failure(error: &ApiError) -> Failure {
    let what = format!("{} {} {}", error.verb, error.kind, error.name);
    Failure::answer(&what, &error.source)
}
