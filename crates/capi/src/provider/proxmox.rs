//! Proxmox VE: `ProxmoxCluster` and `ProxmoxMachineTemplate`.
//!
//! Its machines have no DHCP: the provider hands out addresses of a range that Butler allocated.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::{Kinds, Missing, Provider, SecretName, block, put, secret};
use crate::{
    observe::Inputs,
    spec::{Faults, Os, Pool, Raw, TenantSpec},
};

/// Settings of Proxmox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proxmox {
    secret: SecretName,
    nodes: Vec<String>,
    source: String,
    storage: String,
    template: Option<String>,
    bridge: String,
    ids: Option<(i32, i32)>,
    gateway: IpAddr,
    prefix: u8,
    name_servers: Vec<String>,
}

impl Proxmox {
    pub(super) fn resolve(raw: &Raw<'_>, faults: &mut Faults) -> Option<Self> {
        let field = "spec.providerConfigRef";
        let secret = secret(raw, faults);
        let network = &raw.provider.spec.network;
        let subnet = network.subnet.as_deref().and_then(|text| text.parse().ok());
        let subnet: Option<butler_api::types::Cidr> = faults.need(
            field,
            subnet,
            "the ProviderConfig has no network.subnet, which machines on Proxmox have their addresses in",
        );
        let gateway = network
            .gateway
            .as_deref()
            .and_then(|text| text.parse().ok());
        let gateway = faults.need(
            field,
            gateway,
            "the ProviderConfig has no network.gateway, which machines on Proxmox reach the others by",
        );
        if network.dns_servers.is_empty() {
            faults.add(
                field,
                "the ProviderConfig has no network.dnsServers, which machines on Proxmox need",
            );
        }
        let block = block("proxmox", raw.provider.spec.proxmox.as_ref(), faults)?;
        let own = raw.cluster.spec.infrastructure_override.as_ref();
        let own = own.and_then(|own| own.proxmox.clone()).unwrap_or_default();
        let nodes = own
            .node
            .clone()
            .map_or_else(|| block.nodes.clone(), |node| vec![node]);
        let source = block.nodes.first().cloned();
        let source = faults.need(field, source, "the ProviderConfig names no proxmox.nodes")?;
        Some(Self {
            secret: secret?,
            nodes,
            source,
            storage: own.storage.unwrap_or_else(|| block.storage.clone()),
            template: own
                .template_id
                .or(block.template_id)
                .map(|id| id.to_string()),
            bridge: block.bridge.clone().unwrap_or_else(|| "vmbr0".to_owned()),
            ids: block
                .vmid_range
                .as_ref()
                .map(|range| (range.start, range.end)),
            gateway: gateway?,
            prefix: subnet?.prefix_len(),
            name_servers: network.dns_servers.clone(),
        })
    }
}

impl Provider for Proxmox {
    fn kinds(&self) -> Kinds {
        Kinds {
            version: "v1alpha1",
            cluster: "ProxmoxCluster",
            template: "ProxmoxMachineTemplate",
            identity: None,
        }
    }

    fn cluster(&self, _: &TenantSpec, inputs: &Inputs) -> Result<Value, Missing> {
        if inputs.machine_addresses.is_empty() {
            let why = inputs.address_shortage.clone();
            let why = why.unwrap_or_else(|| "they are being asked for".to_owned());
            return Err(Missing::Addresses(why));
        }
        let addresses = inputs.machine_addresses.iter().map(ToString::to_string);
        let pool = json!({
            "addresses": addresses.collect::<Vec<_>>(),
            "prefix": self.prefix,
            "gateway": self.gateway.to_string(),
        });
        let family = if self.gateway.is_ipv4() {
            "ipv4Config"
        } else {
            "ipv6Config"
        };
        Ok(json!({
            "externalManagedControlPlane": true,
            "allowedNodes": self.nodes,
            "dnsServers": self.name_servers,
            family: pool,
            "credentialsRef": { "name": self.secret.name, "namespace": self.secret.namespace },
        }))
    }

    fn machine(&self, _: &TenantSpec, pool: &Pool, image: Option<&str>) -> Result<Value, Missing> {
        let image = image.and_then(|text| text.parse::<i32>().ok());
        let image = image.ok_or_else(|| Missing::Image(pool.name.clone()))?;
        let mut spec = json!({
            "sourceNode": self.source,
            "templateID": image,
            "full": true,
            "storage": self.storage,
            "format": "raw",
            "numSockets": 1,
            "numCores": pool.machine.cpu,
            // The provider takes multiples of 8.
            "memoryMiB": pool.machine.memory_mib().div_ceil(8) * 8,
            "disks": { "bootVolume": { "disk": "scsi0", "sizeGb": pool.machine.disk_gib() } },
            "network": { "default": { "bridge": self.bridge, "model": "virtio" } },
        });
        let ids = self
            .ids
            .map(|(start, end)| json!({ "start": start, "end": end }));
        put(&mut spec, "vmIDRange", ids);
        // Talos has neither cloud-init nor, by default, the guest agent that the provider would wait for.
        let skip = matches!(pool.os, Os::Talos(_));
        let checks = json!({ "skipCloudInitStatus": true, "skipQemuGuestAgent": true });
        put(&mut spec, "checks", skip.then_some(checks));
        Ok(spec)
    }

    fn image(&self) -> Option<&str> {
        self.template.as_deref()
    }

    fn check(&self, pool: &Pool, faults: &mut Faults) {
        let image = pool.image.as_deref();
        if image.is_some_and(|text| text.parse::<i32>().is_err()) {
            faults.add(
                format!("{}.machineTemplate.os.imageRef", pool.field()),
                "on Proxmox an image is the number of a template, such as 9000",
            );
        }
    }
}
