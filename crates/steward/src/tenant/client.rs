//! Clients of tenants, made from their kubeconfigs for one look each.
//!
//! A kubeconfig comes from a Secret, so it is taken as data: one that would run a command, read a file of ours or go
//! through a proxy is refused. Answers are cut off at a size that no honest one reaches, since a tenant must not be able to
//! fill our memory.

use std::time::Duration;

use http::{HeaderValue, Response, header::USER_AGENT};
use http_body_util::Limited;
use kube::{
    Client, Config,
    client::{ClientBuilder, DynBody},
    config::{AuthInfo, Cluster, KubeConfigOptions, Kubeconfig},
};
use tower::util::MapResponseLayer;

/// The longest answer that is read from a tenant.
const LONGEST_ANSWER: usize = 8 * 1024 * 1024;
/// What we call ourselves in the tenant's audit log.
const AGENT: HeaderValue = HeaderValue::from_static("butler-steward");

/// A kubeconfig that no client can be made from.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// It is no kubeconfig.
    #[error(
        "the tenant's kubeconfig cannot be read; it is written anew when its Secret is deleted"
    )]
    Unreadable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// It asks for more than data.
    #[error(
        "the tenant's kubeconfig has {field}, which is not followed: it must carry its certificates itself"
    )]
    Foreign {
        /// The field.
        field: &'static str,
    },
    /// A client could not be made from it.
    #[error(
        "the tenant's kubeconfig has no usable certificates; it is written anew when its Secret is deleted"
    )]
    Unusable(#[source] Box<kube::Error>),
}

/// How long a connection may take to come about.
const CONNECT: Duration = Duration::from_secs(3);
/// How long to wait for the next bytes.
const READ: Duration = Duration::from_secs(5);

/// A client of a tenant, for one look: kept between looks it would be most of what a tenant costs.
///
/// # Errors
/// When the kubeconfig is not one that we would have written.
pub async fn connect(kubeconfig: &[u8]) -> Result<Client, ClientError> {
    let text = str::from_utf8(kubeconfig).map_err(|error| ClientError::Unreadable(error.into()))?;
    let parsed =
        Kubeconfig::from_yaml(text).map_err(|error| ClientError::Unreadable(error.into()))?;
    let clusters = parsed
        .clusters
        .iter()
        .filter_map(|named| named.cluster.as_ref());
    let users = parsed
        .auth_infos
        .iter()
        .filter_map(|named| named.auth_info.as_ref());
    let foreign = clusters
        .filter_map(foreign_to_cluster)
        .chain(users.filter_map(foreign_to_user))
        .next();
    if let Some(field) = foreign {
        return Err(ClientError::Foreign { field });
    }
    let mut config = Config::from_custom_kubeconfig(parsed, &KubeConfigOptions::default())
        .await
        .map_err(|error| ClientError::Unreadable(error.into()))?;
    config.connect_timeout = Some(CONNECT);
    config.read_timeout = Some(READ);
    config.write_timeout = Some(READ);
    // The time a connection lay idle would otherwise count against the next answer.
    config.reset_reader_on_write = true;
    // Whoever asks decides when to ask again; a breaker cannot count what is tried in silence.
    config.default_retry = false;
    config.proxy_url = None;
    config.headers.push((USER_AGENT, AGENT));
    let limited = MapResponseLayer::new(|answer: Response<Box<DynBody>>| {
        answer.map(|body| Limited::new(body, LONGEST_ANSWER))
    });
    let builder =
        ClientBuilder::try_from(config).map_err(|error| ClientError::Unusable(Box::new(error)))?;
    Ok(builder.with_layer(&limited).build())
}

fn foreign_to_cluster(cluster: &Cluster) -> Option<&'static str> {
    let plain = !cluster
        .server
        .as_deref()
        .is_some_and(|server| server.starts_with("https://"));
    let fields = [
        ("a server that is not https", plain),
        (
            "certificate-authority",
            cluster.certificate_authority.is_some(),
        ),
        (
            "no certificate-authority-data",
            cluster.certificate_authority_data.is_none(),
        ),
        (
            "insecure-skip-tls-verify",
            cluster.insecure_skip_tls_verify == Some(true),
        ),
        ("proxy-url", cluster.proxy_url.is_some()),
    ];
    fields
        .into_iter()
        .find_map(|(field, found)| found.then_some(field))
}

fn foreign_to_user(user: &AuthInfo) -> Option<&'static str> {
    let fields = [
        ("exec", user.exec.is_some()),
        ("auth-provider", user.auth_provider.is_some()),
        ("tokenFile", user.token_file.is_some()),
        ("client-certificate", user.client_certificate.is_some()),
        ("client-key", user.client_key.is_some()),
    ];
    fields
        .into_iter()
        .find_map(|(field, found)| found.then_some(field))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn refused(cluster: &str, user: &str) -> String {
        let kubeconfig = format!(
            "{{apiVersion: v1, kind: Config, current-context: c, contexts: [{{name: c, context: {{cluster: c, user: u}}}}], \
             clusters: [{{name: c, cluster: {{{cluster}}}}}], users: [{{name: u, user: {{{user}}}}}]}}"
        );
        connect(kubeconfig.as_bytes())
            .await
            .err()
            .expect("the kubeconfig must be refused")
            .to_string()
    }

    #[tokio::test]
    async fn a_kubeconfig_that_runs_a_command_or_reads_our_files_is_refused() {
        let cluster = "server: 'https://127.0.0.1:1', certificate-authority-data: AAAA";
        for (user, field) in [
            (
                "exec: {command: sh, apiVersion: client.authentication.k8s.io/v1}",
                "exec",
            ),
            ("tokenFile: /var/run/secrets/token", "tokenFile"),
            ("client-key: /etc/key", "client-key"),
        ] {
            let message = refused(cluster, user).await;
            assert!(message.contains(&format!("has {field},")), "{message}");
        }
        for (cluster, field) in [
            ("server: 'http://127.0.0.1:1'", "a server that is not https"),
            (
                "server: 'https://127.0.0.1:1', certificate-authority: /etc/ca",
                "certificate-authority",
            ),
            (
                "server: 'https://127.0.0.1:1', certificate-authority-data: AAAA, proxy-url: 'http://x'",
                "proxy-url",
            ),
        ] {
            let message = refused(cluster, "token: x").await;
            assert!(message.contains(&format!("has {field},")), "{message}");
        }
    }

    #[tokio::test]
    async fn garbage_is_refused_with_what_helps() {
        for garbage in [&b"\xff\xfe"[..], b"just text", b""] {
            assert!(connect(garbage).await.is_err());
        }
    }
}
