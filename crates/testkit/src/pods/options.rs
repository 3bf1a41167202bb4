//! What a test can choose about how its pods are run.

use std::time::Duration;

/// How pods are run.
#[derive(Clone, Debug)]
pub struct PodOptions {
    pub(super) reach: Vec<u16>,
    pub(super) back_off: Duration,
    pub(super) load_balancer_class: Option<String>,
    pub(super) load_balancer_domain: Option<String>,
}

impl Default for PodOptions {
    fn default() -> Self {
        Self {
            reach: Vec::new(),
            back_off: Duration::from_secs(10),
            load_balancer_class: None,
            load_balancer_domain: None,
        }
    }
}

impl PodOptions {
    /// Lets pods reach this port of 127.0.0.1, under the same address: a data store, say.
    #[must_use]
    pub fn reach(mut self, port: u16) -> Self {
        self.reach.push(port);
        self
    }

    /// The first wait before a container that crashed again is restarted; a kubelet's 10 seconds unless said
    /// otherwise. It doubles with every crash.
    #[must_use]
    pub fn back_off(mut self, first: Duration) -> Self {
        self.back_off = first;
        self
    }

    /// Serves only Services of this load-balancer class; otherwise all are served.
    #[must_use]
    pub fn load_balancer_class(mut self, class: impl Into<String>) -> Self {
        self.load_balancer_class = Some(class.into());
        self
    }

    /// Publishes load balancers by a name below this domain instead of by their address;
    /// [`Pods::resolve`](super::Pods::resolve) knows the address.
    #[must_use]
    pub fn load_balancer_domain(mut self, domain: impl Into<String>) -> Self {
        self.load_balancer_domain = Some(domain.into());
        self
    }
}
