//! The address of a control plane, from the text of a `TenantControlPlane`'s status. Pure.

use butler_api::infrastructure::contract::ApiEndpoint;

/// Reads `host:port`; the brackets around an IPv6 address are not part of the host.
pub(super) fn parse(text: &str) -> Option<ApiEndpoint> {
    let (host, port) = text.rsplit_once(':')?;
    let port: u16 = port.parse().ok().filter(|port| *port > 0)?;
    let host = match host.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']')?,
        None if host.contains(':') => return None,
        None => host,
    };
    (!host.is_empty()).then(|| ApiEndpoint {
        host: host.to_owned(),
        port: port.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> Option<(String, i32)> {
        parse(text).map(|endpoint| (endpoint.host, endpoint.port))
    }

    #[test]
    fn every_port_up_to_the_last_is_read() {
        assert_eq!(parts("10.0.0.1:6443"), Some(("10.0.0.1".to_owned(), 6443)));
        assert_eq!(
            parts("api.example.com:32768"),
            Some(("api.example.com".to_owned(), 32768))
        );
        assert_eq!(
            parts("10.0.0.1:65535"),
            Some(("10.0.0.1".to_owned(), 65535))
        );
    }

    #[test]
    fn an_ipv6_address_loses_its_brackets() {
        assert_eq!(parts("[fd00::1]:6443"), Some(("fd00::1".to_owned(), 6443)));
    }

    #[test]
    fn what_is_no_address_is_none() {
        for text in [
            "",
            "host",
            "host:",
            ":6443",
            "host:0",
            "host:65536",
            "fd00::1:6443",
            "[fd00::1:6443",
        ] {
            assert_eq!(parts(text), None, "{text:?}");
        }
    }
}
