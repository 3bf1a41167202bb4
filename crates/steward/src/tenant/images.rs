//! Which images the addons of a tenant run. Pure.

use butler_api::types::KubeVersion;

use super::settings::AddonImage;

/// Where Kubernetes publishes its images; `CoreDNS` lies one folder deeper there, and only there.
const UPSTREAM: &str = "registry.k8s.io";

/// kube-proxy of the control plane's own release.
pub(super) fn kube_proxy(registry: &str, version: KubeVersion, image: &AddonImage) -> String {
    let repository = image.repository.as_deref().unwrap_or(registry);
    match &image.tag {
        Some(tag) => format!("{repository}/kube-proxy:{tag}"),
        None => format!("{repository}/kube-proxy:{version}"),
    }
}

/// `CoreDNS` as kubeadm of the same release would choose it.
pub(super) fn core_dns(registry: &str, version: KubeVersion, image: &AddonImage) -> String {
    let tag = image
        .tag
        .as_deref()
        .unwrap_or_else(|| core_dns_tag(version));
    match image.repository.as_deref() {
        Some(repository) => format!("{repository}/coredns:{tag}"),
        None if registry == UPSTREAM => format!("{UPSTREAM}/coredns/coredns:{tag}"),
        None => format!("{registry}/coredns:{tag}"),
    }
}

/// The `CoreDNS` that was released with a Kubernetes minor; a minor that is not known yet gets the newest.
fn core_dns_tag(version: KubeVersion) -> &'static str {
    match version.minor() {
        ..=32 => "v1.11.3",
        33 => "v1.12.0",
        34 => "v1.12.1",
        35 => "v1.13.1",
        36.. => "v1.14.2",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VERSION: KubeVersion = KubeVersion::new(1, 35, 4);

    fn image(repository: Option<&str>, tag: Option<&str>) -> AddonImage {
        AddonImage {
            repository: repository.map(str::to_owned),
            tag: tag.map(str::to_owned),
        }
    }

    #[test]
    fn a_tag_counts_without_a_repository_and_a_repository_without_a_tag() {
        let of = |repository, tag| core_dns(UPSTREAM, VERSION, &image(repository, tag));
        assert_eq!(of(None, None), "registry.k8s.io/coredns/coredns:v1.13.1");
        assert_eq!(of(None, Some("v9")), "registry.k8s.io/coredns/coredns:v9");
        assert_eq!(of(Some("m.io/k"), None), "m.io/k/coredns:v1.13.1");
        assert_eq!(of(Some("m.io/k"), Some("v9")), "m.io/k/coredns:v9");
        let of = |repository, tag| kube_proxy(UPSTREAM, VERSION, &image(repository, tag));
        assert_eq!(of(None, Some("v9")), "registry.k8s.io/kube-proxy:v9");
        assert_eq!(of(Some("m.io/k"), None), "m.io/k/kube-proxy:v1.35.4");
    }

    #[test]
    fn a_mirror_holds_coredns_beside_the_other_images() {
        let none = AddonImage::default();
        assert_eq!(
            core_dns("m.io/k8s", VERSION, &none),
            "m.io/k8s/coredns:v1.13.1"
        );
        assert_eq!(
            kube_proxy("m.io/k8s", VERSION, &none),
            "m.io/k8s/kube-proxy:v1.35.4"
        );
    }
}
