//! Which addons a cluster wants, from its spec, its provider and the platform's defaults.

use butler_api::{
    butler::{
        butler_config::DefaultAddonVersions,
        provider_config::{NetworkMode, ProviderConfig},
        tenant_cluster::{
            Addons, CniProvider, GitopsProvider, IngressProvider, LoadBalancerProvider,
            MonitoringProvider, StorageProvider,
        },
    },
    common::InfrastructureProvider,
};
use serde_json::Value;

use super::{Role, Version, Wanted, repository};
use crate::spec::Raw;

/// One role as its user has it: nothing said, not wanted, or which addon.
enum Asked {
    Silent,
    No,
    Yes {
        addon: &'static str,
        version: Option<String>,
        values: Option<Value>,
    },
}

/// What is wanted, and roles whose earlier addon may go.
pub(super) fn resolve(raw: &Raw<'_>) -> (Vec<Wanted>, Vec<Role>) {
    let silent = Addons::default();
    let asked = raw.cluster.spec.addons.as_ref().unwrap_or(&silent);
    let roles = [
        (Role::Cni, cni(raw, asked)),
        (Role::LoadBalancer, load_balancer(raw, asked)),
        (Role::CertManager, cert_manager(asked)),
        (Role::StorageOperator, storage_operator(asked)),
        (Role::Storage, storage(raw, asked)),
        (Role::Ingress, ingress(asked)),
        (Role::Monitoring, monitoring(asked)),
        (Role::Gitops, gitops(asked)),
    ];
    let defaults = raw.platform.default_addon_versions.clone();
    let defaults = defaults.unwrap_or_default();
    let (mut wanted, mut decided) = (Vec::new(), Vec::new());
    for (role, asked) in roles {
        match asked {
            Asked::Silent => {}
            Asked::No => decided.push(role),
            Asked::Yes {
                addon,
                version,
                values,
            } => {
                decided.push(role);
                let own = version.filter(|version| !version.is_empty());
                let version = match (own, default_version(&defaults, addon)) {
                    (Some(own), _) => Version::Own(own),
                    (None, Some(default)) => Version::Platform(default),
                    (None, None) => Version::Catalogue,
                };
                wanted.push(Wanted {
                    role,
                    addon,
                    version,
                    values: values.unwrap_or_default(),
                    values_from: Vec::new(),
                });
            }
        }
    }
    if asked.gitops.is_some() {
        decided.push(Role::Repository);
        wanted.extend(repository::wanted(asked));
    }
    (wanted, decided)
}

fn default_version(defaults: &DefaultAddonVersions, addon: &str) -> Option<String> {
    let DefaultAddonVersions {
        cilium,
        metallb,
        cert_manager,
        longhorn,
        traefik,
        fluxcd,
    } = defaults;
    let named = match addon {
        "cilium" => cilium,
        "metallb" => metallb,
        "cert-manager" => cert_manager,
        "longhorn" => longhorn,
        "traefik" => traefik,
        "flux" => fluxcd,
        _ => return None,
    };
    named.clone().filter(|version| !version.is_empty())
}

fn is_local(raw: &Raw<'_>) -> bool {
    raw.provider.spec.provider == InfrastructureProvider::Local
}

/// Every cluster has one, whether it says so or not.
fn cni(raw: &Raw<'_>, asked: &Addons) -> Asked {
    let said = asked.cni.clone().unwrap_or_default();
    let default = default_cni(raw.provider);
    match said.provider.unwrap_or(default) {
        CniProvider::Cilium => Asked::Yes {
            addon: "cilium",
            version: said.version,
            values: said.values,
        },
        CniProvider::Local => Asked::No,
    }
}

/// The pod network of clusters that name none.
pub fn default_cni(provider: &ProviderConfig) -> CniProvider {
    if provider.spec.provider == InfrastructureProvider::Local {
        CniProvider::Local
    } else {
        CniProvider::Cilium
    }
}

/// The load balancer of clusters that name none. Clouds have their own; everywhere else nobody gives out addresses.
pub fn default_load_balancer(provider: &ProviderConfig) -> LoadBalancerProvider {
    let draws = provider.spec.network.mode == NetworkMode::Ipam;
    match provider.spec.provider {
        InfrastructureProvider::Local => LoadBalancerProvider::Local,
        InfrastructureProvider::Aws
        | InfrastructureProvider::Azure
        | InfrastructureProvider::Gcp
            if !draws =>
        {
            LoadBalancerProvider::Local
        }
        _ => LoadBalancerProvider::Metallb,
    }
}

fn load_balancer(raw: &Raw<'_>, asked: &Addons) -> Asked {
    let said = asked.load_balancer.clone().unwrap_or_default();
    let default = default_load_balancer(raw.provider);
    match said.provider.unwrap_or(default) {
        LoadBalancerProvider::Metallb if said.enabled => Asked::Yes {
            addon: "metallb",
            version: said.version,
            values: said.values,
        },
        LoadBalancerProvider::Metallb | LoadBalancerProvider::Local => Asked::No,
    }
}

fn cert_manager(asked: &Addons) -> Asked {
    match asked.cert_manager.clone() {
        None => Asked::Silent,
        Some(said) if !said.enabled => Asked::No,
        Some(said) => Asked::Yes {
            addon: "cert-manager",
            version: said.version,
            values: said.values,
        },
    }
}

fn storage(raw: &Raw<'_>, asked: &Addons) -> Asked {
    let Some(said) = asked.storage.clone() else {
        return Asked::Silent;
    };
    if !said.enabled {
        return Asked::No;
    }
    let default = if is_local(raw) {
        StorageProvider::LocalPath
    } else {
        StorageProvider::Longhorn
    };
    Asked::Yes {
        addon: match said.provider.unwrap_or(default) {
            StorageProvider::Longhorn => "longhorn",
            StorageProvider::Linstor => "linstor",
            StorageProvider::LocalPath => "local-path-provisioner",
        },
        version: said.version,
        values: said.values,
    }
}

/// LINSTOR is made by an operator with a chart of its own, which goes with it.
fn storage_operator(asked: &Addons) -> Asked {
    match &asked.storage {
        None => Asked::Silent,
        Some(said) if said.enabled && said.provider == Some(StorageProvider::Linstor) => {
            Asked::Yes {
                addon: "piraeus-operator",
                version: None,
                values: None,
            }
        }
        Some(_) => Asked::No,
    }
}

fn ingress(asked: &Addons) -> Asked {
    let Some(said) = asked.ingress.clone() else {
        return Asked::Silent;
    };
    if !said.enabled {
        return Asked::No;
    }
    Asked::Yes {
        addon: match said.provider.unwrap_or(IngressProvider::Traefik) {
            IngressProvider::Traefik => "traefik",
            IngressProvider::Nginx => "ingress-nginx",
        },
        version: said.version,
        values: said.values,
    }
}

fn monitoring(asked: &Addons) -> Asked {
    let Some(said) = asked.monitoring.clone() else {
        return Asked::Silent;
    };
    if !said.enabled {
        return Asked::No;
    }
    Asked::Yes {
        addon: match said.provider {
            MonitoringProvider::Prometheus => "prometheus-operator",
            MonitoringProvider::MetricsServer => "metrics-server",
        },
        version: said.version,
        values: said.values,
    }
}

fn gitops(asked: &Addons) -> Asked {
    let Some(said) = asked.gitops.clone() else {
        return Asked::Silent;
    };
    if !said.enabled {
        return Asked::No;
    }
    Asked::Yes {
        addon: match said.provider.unwrap_or(GitopsProvider::Fluxcd) {
            GitopsProvider::Fluxcd => "flux",
            GitopsProvider::Argocd => "argocd",
        },
        version: said.version,
        values: said.values,
    }
}
