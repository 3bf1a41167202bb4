//! A TLS handshake by hand, to learn why a member cannot be reached.
//!
//! In TLS 1.3 a server refuses a client's certificate after the client has finished its part. A client that writes
//! at once then often sees just a closed connection, and a store that refuses us looks like one that is not there.
//! Reading before anything is written always sees the reason.

use std::{io, time::Duration};

use rustls::pki_types::ServerName;
use tokio::{io::AsyncReadExt as _, net::TcpStream, time::timeout};
use tokio_rustls::TlsConnector;

use super::credentials::Credentials;

/// Longer than a handshake takes, and short beside what was tried before.
const PATIENCE: Duration = Duration::from_secs(2);

/// Why TLS cannot be agreed on with a member; `None` where it can, or where it does not come to that.
pub(crate) async fn refusal(endpoint: &str, credentials: &Credentials) -> Option<rustls::Error> {
    let error = timeout(PATIENCE, attempt(endpoint, credentials))
        .await
        .ok()?
        .err()?;
    error.downcast::<rustls::Error>().ok()
}

async fn attempt(endpoint: &str, credentials: &Credentials) -> io::Result<()> {
    let config = credentials.rustls().map_err(io::Error::other)?;
    let host = endpoint.rsplit_once(':').map_or(endpoint, |(host, _)| host);
    let host = host.trim_matches(['[', ']']).to_owned();
    let name = ServerName::try_from(host).map_err(io::Error::other)?;
    let socket = TcpStream::connect(endpoint).await?;
    let mut stream = TlsConnector::from(config).connect(name, socket).await?;
    // A server that accepts us speaks first: HTTP/2 begins with its settings.
    stream.read_u8().await?;
    Ok(())
}
