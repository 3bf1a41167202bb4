//! One look at a container: an HTTP request, a connection, or a command, as a kubelet makes them.

use std::{
    fmt::Write as _,
    io,
    sync::{Arc, OnceLock},
};

use k8s_openapi::{
    api::core::v1::{Container, HTTPGetAction},
    apimachinery::pkg::util::intstr::IntOrString,
};
use rustls::{
    ClientConfig, DigitallySignedStruct, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, aws_lc_rs},
    pki_types::{CertificateDer, ServerName, UnixTime},
};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader},
    net::TcpStream,
};
use tokio_rustls::TlsConnector;

use super::network::Network;

/// The number of a port that may be given by name.
pub(super) fn port(container: &Container, port: &IntOrString) -> Option<u16> {
    let number = match port {
        IntOrString::Int(number) => *number,
        IntOrString::String(name) => {
            let mut ports = container.ports.iter().flatten();
            let named = ports.find(|port| port.name.as_deref() == Some(name));
            named?.container_port
        }
    };
    u16::try_from(number).ok()
}

/// Connects to where a probe points: the pod, or when it names a host, that host as seen from this machine.
pub(super) async fn connect(
    network: &Network,
    host: Option<&str>,
    port: Option<u16>,
) -> Result<TcpStream, String> {
    let port = port.ok_or("it names a port the container does not have")?;
    let connected = match host.filter(|host| !host.is_empty()) {
        Some(host) => TcpStream::connect((host, port)).await,
        None => network.dial(port).await,
    };
    connected.map_err(|error| error.to_string())
}

/// Asks and judges the answer; certificates are not verified.
pub(super) async fn http(
    network: &Network,
    container: &Container,
    action: &HTTPGetAction,
) -> Result<(), String> {
    let host = action.host.as_deref();
    let stream = connect(network, host, port(container, &action.port)).await?;
    let mut request = format!("GET {} HTTP/1.1\r\n", action.path.as_deref().unwrap_or("/"));
    let headers = action.http_headers.iter().flatten();
    let mut headers: Vec<_> = headers
        .map(|it| (it.name.as_str(), it.value.as_str()))
        .collect();
    if !headers
        .iter()
        .any(|(name, _)| name.eq_ignore_ascii_case("host"))
    {
        headers.push(("Host", "probe"));
    }
    headers.push(("User-Agent", "kube-probe/butler-testkit"));
    headers.push(("Connection", "close"));
    for (name, value) in headers {
        let _ = write!(request, "{name}: {value}\r\n");
    }
    request.push_str("\r\n");
    let status = if action.scheme.as_deref() == Some("HTTPS") {
        let name = ServerName::try_from("probe").expect("it is a name");
        let stream = TlsConnector::from(tls()).connect(name, stream).await;
        ask(stream.map_err(|error| error.to_string())?, &request).await
    } else {
        ask(stream, &request).await
    };
    match status.map_err(|error| error.to_string())? {
        200..400 => Ok(()),
        status => Err(format!("HTTP probe failed with statuscode: {status}")),
    }
}

/// Sends a request and returns the number of the answer's status.
async fn ask(mut stream: impl AsyncRead + AsyncWrite + Unpin, request: &str) -> io::Result<u16> {
    stream.write_all(request.as_bytes()).await?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).await?;
    let status = line.split(' ').nth(1).and_then(|word| word.parse().ok());
    status.ok_or_else(|| io::Error::other(format!("no HTTP status in {line:?}")))
}

fn tls() -> Arc<ClientConfig> {
    static CONFIG: OnceLock<Arc<ClientConfig>> = OnceLock::new();
    let config = CONFIG.get_or_init(|| {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .expect("the provider has the default versions")
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Anybody(provider)))
            .with_no_client_auth();
        Arc::new(config)
    });
    Arc::clone(config)
}

/// Accepts every certificate: kubelets do not verify those of the containers they probe.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
