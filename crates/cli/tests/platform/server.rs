//! What runs in the pods of the test: this very program, as a web server that says who it is and whom it reaches, and
//! as an admission webhook.

use std::{
    env, fs,
    io::{self, BufRead as _, BufReader, Read, Write},
    net::{TcpListener, TcpStream, ToSocketAddrs as _},
    sync::Arc,
    thread,
    time::Duration,
};

use rustls::{ServerConfig, ServerConnection, StreamOwned, pki_types::pem::PemObject as _};
use serde_json::{Value, json};

/// Set in pods, to the name of the tenant.
pub(crate) const WHO: &str = "SERVE_AS";
/// What the webhook says to what it does not like.
pub(crate) const REFUSAL: &str = "the tenant's own webhook says no";

/// Not a test: it returns at once outside of a pod.
#[test]
#[ignore = "runs in pods of the other test"]
fn serve_in_a_pod() {
    let Ok(who) = env::var(WHO) else { return };
    println!("serving as {who}");
    let webhook = thread::spawn(|| listen(8443, &webhook));
    listen(8080, &move |stream| web(&who, stream));
    webhook.join().unwrap();
}

fn listen(port: u16, serve: &(impl Fn(&TcpStream) -> io::Result<()> + Sync)) {
    let listener = TcpListener::bind(("0.0.0.0", port)).unwrap();
    thread::scope(|scope| {
        for stream in listener.incoming().flatten() {
            scope.spawn(move || {
                // Whoever hangs up early is none to complain about.
                let _ = stream.set_read_timeout(Some(Duration::from_secs(10)));
                let _ = serve(&stream);
            });
        }
    });
}

fn web(who: &str, stream: &TcpStream) -> io::Result<()> {
    let (path, _) = read(&mut BufReader::new(stream))?;
    let body = match path.strip_prefix("/reach/") {
        Some(address) => reach(address),
        None => who.to_owned(),
    };
    write(stream, &body)
}

fn reach(address: &str) -> String {
    let connect = || {
        let mut addresses = address.to_socket_addrs()?;
        let address = addresses.next().ok_or(io::ErrorKind::NotFound)?;
        TcpStream::connect_timeout(&address, Duration::from_secs(2))
    };
    match connect() {
        Ok(_) => "reached".to_owned(),
        Err(error) => format!("not reached: {error}"),
    }
}

fn webhook(stream: &TcpStream) -> io::Result<()> {
    let pem = |name: &str| fs::read(format!("/tls/{name}"));
    let chain = rustls::pki_types::CertificateDer::from_pem_slice(&pem("tls.crt")?);
    let key = rustls::pki_types::PrivateKeyDer::from_pem_slice(&pem("tls.key")?);
    let (chain, key) = (
        chain.map_err(io::Error::other)?,
        key.map_err(io::Error::other)?,
    );
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_no_client_auth()
        .with_single_cert(vec![chain], key)
        .map_err(io::Error::other)?;
    let connection = ServerConnection::new(Arc::new(config)).map_err(io::Error::other)?;
    let mut stream = BufReader::new(StreamOwned::new(connection, stream));
    let (_, body) = read(&mut stream)?;
    let review: Value = serde_json::from_slice(&body)?;
    let request = &review["request"];
    let allowed = request["object"]["data"]["forbidden"].is_null();
    let answer = json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": { "uid": request["uid"], "allowed": allowed, "status": { "message": REFUSAL } },
    });
    write(stream.get_mut(), &answer.to_string())
}

/// The path of a request, and its body.
fn read(stream: &mut BufReader<impl Read>) -> io::Result<(String, Vec<u8>)> {
    let mut first = String::new();
    stream.read_line(&mut first)?;
    let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut length = 0;
    loop {
        let mut line = String::new();
        stream.read_line(&mut line)?;
        if line.trim().is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().map_err(io::Error::other)?;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    Ok((path, body))
}

fn write(mut stream: impl Write, body: &str) -> io::Result<()> {
    let length = body.len();
    let kind = "content-type: application/json";
    write!(
        stream,
        "HTTP/1.1 200 OK\r\n{kind}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    )?;
    stream.flush()
}
