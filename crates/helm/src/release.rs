//! One step of a release, carried out by one process of Helm.

use std::{path::Path, time::Duration};

use butler_addons::{
    failure,
    record::{HEALTHY, OWNER, REQUEST},
    request::{ReleaseId, Request},
    values,
};

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

/// Installs or upgrades.
pub async fn upgrade(
    helm: &Helm,
    target: &Target<'_>,
    request: &Request,
    chart: &Path,
) -> Result<(), StepError> {
    let mut call = Call::new(["upgrade", "--install", "--reset-values", "--hide-notes"]);
    call.arg(&request.release.name).arg(chart);
    // Server-side apply checks objects; Helm's own check would read all of the API server's documents first.
    call.arg("--disable-openapi-validation")
        .arg("--server-side=true")
        .arg("--force-conflicts");
    if request.create_namespace {
        call.arg("--create-namespace");
    }
    let labels = [
        format!("{OWNER}={}", target.owner),
        format!("{REQUEST}={}", request.fingerprint()),
        // Helm hands labels on from one revision to the next.
        format!("{HEALTHY}=false"),
    ];
    call.arg("--labels").arg(labels.join(","));
    call.arg("--history-max").arg(request.history.to_string());
    call.arg("--values").arg("-");
    call.input = request.values.to_string().into_bytes();
    call.secrets = values::texts(&request.values);
    run(helm, target, &request.release, request.timeout, call).await
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
    let kubeconfig = helm.private_file(target.kubeconfig);
    let kubeconfig = kubeconfig.map_err(StepError::broken("keep a kubeconfig"))?;
    call.arg("--kubeconfig").arg(kubeconfig.path());
    call.arg("--namespace").arg(&release.namespace);
    call.arg(format!("--timeout={}s", timeout.as_secs().max(1)));
    helm.run(call, timeout + MARGIN, failure::of_release).await
}
