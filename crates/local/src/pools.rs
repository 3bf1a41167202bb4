//! The pools that addresses of the platform come from: one for machines, one for load balancers.

use serde_json::{Value, json};

use crate::{error::Error, platform::Platform, settings::Settings};

/// Addresses of machines.
pub(crate) const MACHINES: &str = "local-machines";
/// Addresses of load balancers.
pub(crate) const BALANCERS: &str = "local-balancers";

impl Platform {
    /// Makes both, or what somebody changed of them. Nothing gets an address without them.
    pub(crate) fn make_pools(&self) -> Result<(), Error> {
        let items = pools(&self.settings);
        let list = json!({ "apiVersion": "v1", "kind": "List", "items": items });
        self.apply(&list.to_string())
    }
}

fn pools(settings: &Settings) -> [Value; 2] {
    let layout = settings.layout;
    let reserved = [
        (layout.host(), "the host"),
        (settings.management(), "the management cluster's machine"),
    ];
    let reserved = reserved.map(|(address, description)| {
        json!({ "cidr": format!("{address}/32"), "description": description })
    });
    let pool = |name: &str, spec: Value| {
        json!({
            "apiVersion": "butler.butlerlabs.dev/v1alpha1",
            "kind": "NetworkPool",
            "metadata": { "name": name, "namespace": "butler-system" },
            "spec": spec,
        })
    };
    let machines = json!({
        "cidr": layout.machines(), "gateway": layout.gateway(), "reserved": reserved,
    });
    let balancers = json!({ "cidr": layout.balancers() });
    [pool(MACHINES, machines), pool(BALANCERS, balancers)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_cover_what_the_network_has_and_leave_out_who_is_there() {
        let settings = Settings {
            layout: "10.50.0.0/24"
                .parse::<ipnet::Ipv4Net>()
                .unwrap()
                .try_into()
                .unwrap(),
            pods: "10.42.0.0/16".parse().unwrap(),
            services: "10.96.0.0/16".parse().unwrap(),
            kubernetes: "v1.35.4".to_owned(),
        };
        let [machines, balancers] = pools(&settings);
        assert_eq!(machines["spec"]["cidr"], "10.50.0.0/25");
        assert_eq!(machines["spec"]["gateway"], "10.50.0.126");
        assert_eq!(machines["spec"]["reserved"][1]["cidr"], "10.50.0.10/32");
        assert_eq!(balancers["spec"]["cidr"], "10.50.0.128/26");
    }
}
