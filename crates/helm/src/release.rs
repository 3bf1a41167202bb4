//! One step of a release, carried out by one process of Helm.

use std::{path::Path, time::Duration};

use butler_addons::{
    failure::{self, Class},
    record::{HEALTHY, OWNER, REQUEST, description},
    rendered::{self, Rendered},
    request::{ReleaseId, Request},
    values,
};
use tempfile::NamedTempFile;

use crate::{
    StepError,
    process::{Call, Helm},
};

/// What Helm needs above the time it gives the cluster.
const MARGIN: Duration = Duration::from_secs(30);

/// The cluster, and whose release it is.
pub struct Target<'a> {
    /// Kubeconfig of the cluster, which carries its credentials itself.
    pub kubeconfig: &'a [u8],
    /// UID of the addon.
    pub owner: &'a str,
}

/// Installs or upgrades, in a namespace that is there.
pub async fn upgrade(
    helm: &Helm,
    target: &Target<'_>,
    request: &Request,
    chart: &Path,
) -> Result<(), StepError> {
    let mut call = asked_for(request, chart);
    let fingerprint = request.fingerprint();
    call.arg("--description").arg(description(&fingerprint));
    let labels = [
        format!("{OWNER}={}", target.owner),
        format!("{REQUEST}={fingerprint}"),
        // Helm hands labels on from one revision to the next.
        format!("{HEALTHY}=false"),
    ];
    call.arg("--labels").arg(labels.join(","));
    run(helm, target, &request.release, request.timeout, call).await
}

/// What an installation or an upgrade would do. Nothing is changed.
pub async fn render(
    helm: &Helm,
    target: &Target<'_>,
    request: &Request,
    chart: &Path,
) -> Result<Rendered, StepError> {
    let mut call = asked_for(request, chart);
    call.arg("--dry-run=server").arg("--output").arg("json");
    if request.create_namespace {
        call.arg("--create-namespace");
    }
    let _kubeconfig = point(helm, target, &request.release, request.timeout, &mut call)?;
    let deadline = request.timeout + MARGIN;
    let printed = helm.ask(call, deadline, failure::of_release).await?;
    rendered::read(&printed).ok_or_else(|| {
        let message = format!(
            "what Helm would install as {} cannot be read",
            request.release
        );
        StepError::new(Class::Interrupted, message)
    })
}

/// The definitions of kinds that come with the first revision of a chart and those below it, as YAML.
pub async fn definitions(helm: &Helm, chart: &Path) -> Result<String, StepError> {
    let mut call = Call::new(["show", "crds"]);
    call.arg(chart);
    helm.ask(call, MARGIN, failure::of_release).await
}

fn asked_for(request: &Request, chart: &Path) -> Call {
    let mut call = Call::new(["upgrade", "--install", "--reset-values", "--hide-notes"]);
    call.arg(&request.release.name).arg(chart);
    // Server-side apply checks objects; Helm's own check would read all of the API server's documents first.
    call.arg("--disable-openapi-validation")
        .arg("--server-side=true")
        .arg("--force-conflicts");
    call.arg("--history-max").arg(request.history.to_string());
    call.arg("--values").arg("-");
    call.input = request.values.to_string().into_bytes();
    call.secrets = values::texts(&request.values);
    call
}

/// Goes back to a revision.
pub async fn rollback(
    helm: &Helm,
    target: &Target<'_>,
    request: &Request,
    to: u32,
) -> Result<(), StepError> {
    let mut call = Call::new(["rollback", "--server-side=true", "--force-conflicts"]);
    call.arg(&request.release.name).arg(to.to_string());
    call.arg("--history-max").arg(request.history.to_string());
    run(helm, target, &request.release, request.timeout, call).await
}

/// Removes a release and its records.
pub async fn uninstall(
    helm: &Helm,
    target: &Target<'_>,
    release: &ReleaseId,
    timeout: Duration,
) -> Result<(), StepError> {
    let mut call = Call::new(["uninstall", "--ignore-not-found"]);
    call.arg(&release.name);
    run(helm, target, release, timeout, call).await
}

async fn run(
    helm: &Helm,
    target: &Target<'_>,
    release: &ReleaseId,
    timeout: Duration,
    mut call: Call,
) -> Result<(), StepError> {
    let _kubeconfig = point(helm, target, release, timeout, &mut call)?;
    helm.run(call, timeout + MARGIN, failure::of_release).await
}

/// Points a call at a release of a cluster, by a file that has to live as long as the call.
fn point(
    helm: &Helm,
    target: &Target<'_>,
    release: &ReleaseId,
    timeout: Duration,
    call: &mut Call,
) -> Result<NamedTempFile, StepError> {
    let kubeconfig = helm.private_file(target.kubeconfig);
    let kubeconfig = kubeconfig.map_err(StepError::broken("keep a kubeconfig"))?;
    call.arg("--kubeconfig").arg(kubeconfig.path());
    call.arg("--namespace").arg(&release.namespace);
    call.arg(format!("--timeout={}s", timeout.as_secs().max(1)));
    Ok(kubeconfig)
}
