//! What an addon would change in its cluster, without changing it: the same request, the same Helm, and the word of the
//! API server on every object (ADR 0033). For people, with their own rights.

use std::{io, path::Path};

use butler_addons::{
    diff::{Difference, difference},
    record::Status,
    values,
};
use butler_api::butler::{AddonDefinition, TenantAddon};
use butler_helm::{
    StepError,
    charts::Charts,
    look::{self, Kinds, LookError},
    process::Helm,
    release::{self, Target},
};
use butler_runtime::error::ApiError;
use butler_steward::tenant::client::{ClientError, connect};
use kube::Client;
use serde::Serialize;

use super::{resolve, secrets};
use crate::addon_engine::Trouble;

/// What would happen.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Preview {
    /// The release, as `namespace/name`.
    pub release: String,
    /// The chart that would be installed.
    pub chart: String,
    /// Its version.
    pub version: String,
    /// The version that stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub installed: Option<String>,
    /// What becomes of objects; those that stay as they are are left out.
    pub changes: Vec<Difference>,
}

/// Why nobody can say.
#[derive(Debug, thiserror::Error)]
pub enum PreviewError {
    /// What is asked for cannot be had.
    #[error("{0}")]
    Request(String),
    /// Helm, or the repository.
    #[error(transparent)]
    Step(#[from] StepError),
    /// The management cluster.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// The kubeconfig of the cluster.
    #[error(transparent)]
    Kubeconfig(#[from] ClientError),
    /// The cluster.
    #[error(transparent)]
    Look(#[from] LookError),
    /// This machine.
    #[error("could not make a folder for Helm")]
    Folder(#[from] io::Error),
}

impl From<Trouble> for PreviewError {
    fn from(trouble: Trouble) -> Self {
        Self::Request(trouble.message)
    }
}

/// Where Helm is, and where it may write while it works.
pub struct Tools<'a> {
    /// The program.
    pub helm: &'a Path,
    /// A folder of our own.
    pub folder: &'a Path,
    /// Beginnings of chart repositories' addresses, and what is asked in their place.
    pub mirrors: &'a [(String, String)],
}

/// Asks what `addon` would change in the cluster of `kubeconfig`; Secrets are read from the management cluster.
pub async fn preview(
    management: &Client,
    tools: &Tools<'_>,
    addon: &TenantAddon,
    definition: Option<&AddonDefinition>,
    kubeconfig: &[u8],
) -> Result<Preview, PreviewError> {
    let layers = secrets::values(management, addon).await??;
    let hidden = layers.iter().flat_map(|(_, layer)| values::texts(layer));
    let hidden: Vec<String> = hidden.collect();
    let request = resolve::request(addon, definition, &layers)?;
    let access = secrets::access(management, addon, definition).await??;
    let helm = Helm::new(tools.helm.to_owned(), tools.folder.to_owned())?;
    let charts = Charts::new(helm.clone(), tools.mirrors.to_vec())?;
    let chart = charts.get(&request.chart, &access).await?;
    let client = connect(kubeconfig).await?;
    let records = look::records(&client, &request.release).await?;
    let target = Target {
        kubeconfig,
        owner: "",
    };
    let rendered = release::render(&helm, &target, &request, &chart).await?;
    let stands = records.latest.as_ref();
    let release = &request.release;
    let changes = look::changes(&client, &Kinds::default(), release, stands, &rendered).await?;
    let changes = changes.iter().filter_map(|it| difference(it, &hidden));
    let installed = stands.filter(|record| record.status == Status::Deployed);
    Ok(Preview {
        release: release.to_string(),
        chart: request.chart.name.clone(),
        version: request.chart.version.clone(),
        installed: installed.map(|record| record.chart_version.clone()),
        changes: changes.collect(),
    })
}
