//! What an addon would change in its cluster, without changing it: the same request, the same Helm, and the word of the
//! API server on every object (ADR 0033). For people.

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

use super::secrets::{self, Asked};
use crate::addon_engine::{Trouble, catalogue};

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
    let asked = secrets::asked(management, addon, definition).await??;
    let client = connect(kubeconfig).await?;
    foresee(tools, &asked, definition, kubeconfig, &client).await
}

/// What becomes of a cluster; `client` is one of it.
pub(crate) async fn foresee(
    tools: &Tools<'_>,
    asked: &Asked,
    definition: Option<&AddonDefinition>,
    kubeconfig: &[u8],
    client: &Client,
) -> Result<Preview, PreviewError> {
    let Asked {
        request,
        access,
        layers,
    } = asked;
    let version = client.apiserver_version().await;
    let version = version.map_err(ApiError::of("ask", "API server", "its version"))?;
    catalogue::compatible(definition, &request.chart.version, &version.git_version)?;
    let helm = Helm::new(tools.helm.to_owned(), tools.folder.to_owned())?;
    let charts = Charts::new(helm.clone(), tools.mirrors.to_vec())?;
    let chart = charts.get(&request.chart, access).await?;
    let records = look::records(client, &request.release).await?;
    let target = Target {
        kubeconfig,
        owner: "",
    };
    let mut rendered = release::render(&helm, &target, request, &chart).await?;
    let stands = records.latest.as_ref();
    if stands.is_some_and(|record| record.status == Status::Deployed && record.is_like(request)) {
        // Helm is not started for what stands, so nothing runs.
        rendered.hooks.clear();
    }
    let definitions = if rendered.is_first {
        release::definitions(&helm, &chart).await?
    } else {
        String::new()
    };
    let release = &request.release;
    let kinds = Kinds::default();
    let changes = look::changes(client, &kinds, release, stands, &rendered, &definitions).await?;
    let hidden = layers.iter().flat_map(|(_, layer)| values::texts(layer));
    let hidden: Vec<String> = hidden.collect();
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
