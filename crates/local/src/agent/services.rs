//! The two services on the router: the registry, and a resolver that knows no names.

use std::{ffi::OsString, io, path::Path};

use butler_fabric::{Fabric, Space};
use butler_toolchain::Toolchain;

use super::supervise::Service;
use crate::settings::{Paths, REGISTRY_PORT, Settings, write};

/// Both, with their files.
pub(super) fn all(
    paths: &Paths,
    settings: &Settings,
    toolchain: &Toolchain,
) -> io::Result<Vec<Service>> {
    let registry = paths.state.join("registry.yaml");
    write(
        &registry,
        &registry_config(settings, &paths.cache.join("registry")),
    )?;
    let names = paths.state.join("Corefile");
    write(&names, &resolver_config(settings))?;
    let router = Fabric::new(paths.network()).file(&Space::Router);
    let service = |name: &'static str, program: &str, arguments: [&Path; 2]| {
        let program = toolchain.binary(program, None).map_err(io::Error::other)?;
        let mut net = OsString::from("--net=");
        net.push(&router);
        let mut command = vec!["nsenter".into(), net, program.into()];
        command.extend(arguments.map(OsString::from));
        Ok::<_, io::Error>(Service {
            name,
            command,
            identity: &[],
            environment: vec![
                ("OTEL_TRACES_EXPORTER", "none".into()),
                // Far above what either needs at rest: the registry gives back what it took to be filled.
                ("GOMEMLIMIT", "128MiB".into()),
            ],
            log: paths.log(name),
        })
    };
    Ok(vec![
        service("registry", "registry", [Path::new("serve"), &registry])?,
        service("resolver", "coredns", [Path::new("-conf"), &names])?,
    ])
}

fn registry_config(settings: &Settings, storage: &Path) -> String {
    let config = serde_json::json!({
        "version": 0.1,
        "log": { "level": "warn", "accesslog": { "disabled": true } },
        "storage": {
            "filesystem": { "rootdirectory": storage },
            "delete": { "enabled": true },
        },
        "http": { "addr": format!("{}:{REGISTRY_PORT}", settings.layout.services()) },
    });
    config.to_string()
}

/// Nobody is outside: whoever asks is told at once that there is no such name, instead of waiting.
fn resolver_config(settings: &Settings) -> String {
    let address = settings.layout.services();
    format!(".:53 {{\n  bind {address}\n  template ANY ANY {{\n    rcode NXDOMAIN\n  }}\n}}\n")
}
