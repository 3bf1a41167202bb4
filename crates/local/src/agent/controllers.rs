//! Our own controllers as programs of the host, with the rights that their pods would have.

use std::ffi::OsString;

use super::supervise::Service;
use crate::{
    controllers::PARTS,
    settings::{Paths, Settings},
};

/// The same user as in a pod.
const IDENTITY: &[&str] = &["--reuid=65532", "--regid=65532", "--clear-groups"];

/// All of them where they run on the host, else none.
pub(super) fn services(paths: &Paths, settings: &Settings) -> Vec<Service> {
    if !paths.controllers().exists() {
        return Vec::new();
    }
    let mirrors = settings.chart_mirrors().join(",");
    let service = |part: &'static crate::controllers::Part| {
        let kubeconfig = paths.controller_kubeconfig(part.name);
        let mut command: Vec<OsString> = vec![paths.controllers().into()];
        command.extend(part.arguments.iter().map(OsString::from));
        Service {
            name: part.name,
            command,
            identity: IDENTITY,
            environment: vec![
                ("KUBECONFIG", kubeconfig.into()),
                ("BUTLER_ADDRESS", part.address().to_string().into()),
                ("BUTLER_LOG_FORMAT", "text".into()),
                ("BUTLER_HELM", paths.helm().into()),
                ("BUTLER_HELM_FOLDER", paths.helm_folder().into()),
                ("BUTLER_CHART_MIRRORS", mirrors.clone().into()),
                // One after the other on this host: whoever is started again takes its own lease back.
                ("HOSTNAME", "host".into()),
            ],
            log: paths.log(part.name),
        }
    };
    PARTS.iter().map(service).collect()
}
