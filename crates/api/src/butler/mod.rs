//! `butler.butlerlabs.dev/v1alpha1`: what people write and what the platform records.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_core::CustomResourceExt;

pub mod addon_definition;
pub mod addon_options;
pub mod butler_config;
pub mod cluster_bootstrap;
pub mod cluster_creation_policy;
pub mod identity_provider;
pub mod image_sync;
pub mod ip_allocation;
pub mod load_balancer_request;
pub mod machine_request;
pub mod management_addon;
pub mod network_pool;
pub mod provider_config;
pub mod team;
pub mod tenant_addon;
pub mod tenant_cluster;
pub mod user;
pub mod workspace;
pub mod workspace_template;

pub use addon_definition::AddonDefinition;
pub use butler_config::ButlerConfig;
pub use cluster_bootstrap::ClusterBootstrap;
pub use cluster_creation_policy::ClusterCreationPolicy;
pub use identity_provider::IdentityProvider;
pub use image_sync::ImageSync;
pub use ip_allocation::IPAllocation;
pub use load_balancer_request::LoadBalancerRequest;
pub use machine_request::MachineRequest;
pub use management_addon::ManagementAddon;
pub use network_pool::NetworkPool;
pub use provider_config::ProviderConfig;
pub use team::Team;
pub use tenant_addon::TenantAddon;
pub use tenant_cluster::TenantCluster;
pub use user::User;
pub use workspace::Workspace;
pub use workspace_template::WorkspaceTemplate;

/// The definitions of this group's kinds.
pub fn crds() -> Vec<CustomResourceDefinition> {
    vec![
        AddonDefinition::crd(),
        ButlerConfig::crd(),
        ClusterBootstrap::crd(),
        ClusterCreationPolicy::crd(),
        IPAllocation::crd(),
        IdentityProvider::crd(),
        ImageSync::crd(),
        LoadBalancerRequest::crd(),
        MachineRequest::crd(),
        ManagementAddon::crd(),
        NetworkPool::crd(),
        ProviderConfig::crd(),
        Team::crd(),
        TenantAddon::crd(),
        TenantCluster::crd(),
        User::crd(),
        Workspace::crd(),
        WorkspaceTemplate::crd(),
    ]
}
