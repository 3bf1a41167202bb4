//! A file server on the loopback address that can break off in the middle, and remembers what it was asked.

use std::{
    collections::HashMap,
    convert::Infallible,
    net::SocketAddr,
    sync::{Arc, Mutex, mpsc},
    thread,
};

use bytes::Bytes;
use futures::stream;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::{
    body::{Frame, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use tokio::{net::TcpListener, sync::oneshot, task::JoinSet};

type Body = UnsyncBoxBody<Bytes, std::io::Error>;

#[derive(Default)]
struct Files {
    contents: HashMap<String, Vec<u8>>,
    /// How many bytes of an answer are sent before the connection breaks; used up by one answer.
    breaks: HashMap<String, Vec<usize>>,
    /// Method, path and range of every request.
    requests: Vec<String>,
}

/// Serves files until it is dropped.
pub(crate) struct FileServer {
    address: SocketAddr,
    files: Arc<Mutex<Files>>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl FileServer {
    pub(crate) fn start() -> Self {
        let files = Arc::new(Mutex::new(Files::default()));
        let (stop, stopped) = oneshot::channel();
        let (ready, address) = mpsc::channel();
        let served = Arc::clone(&files);
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            runtime.unwrap().block_on(async move {
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                ready.send(listener.local_addr().unwrap()).unwrap();
                tokio::select! {
                    () = serve(listener, served) => {}
                    _ = stopped => {}
                }
            });
        });
        let address = address.recv().unwrap();
        Self {
            address,
            files,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn put(&self, path: &str, content: impl Into<Vec<u8>>) {
        self.files
            .lock()
            .unwrap()
            .contents
            .insert(path.to_owned(), content.into());
    }

    /// Publishes a file and, as official hosts do, its checksum beside it.
    pub(crate) fn publish(&self, path: &str, content: &[u8]) {
        self.put(path, content);
        self.put(&format!("{path}.sha256"), crate::support::sha256(content));
    }

    /// The next answers for `path` break off after so many bytes each.
    pub(crate) fn break_after(&self, path: &str, bytes: &[usize]) {
        let bytes = bytes.iter().rev().copied().collect();
        self.files
            .lock()
            .unwrap()
            .breaks
            .insert(path.to_owned(), bytes);
    }

    /// All requests so far whose line begins like this, such as `GET /file`.
    pub(crate) fn requests(&self, beginning: &str) -> Vec<String> {
        let files = self.files.lock().unwrap();
        files
            .requests
            .iter()
            .filter(|it| it.starts_with(beginning))
            .cloned()
            .collect()
    }
}

impl Drop for FileServer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

async fn serve(listener: TcpListener, files: Arc<Mutex<Files>>) {
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let files = Arc::clone(&files);
        connections.spawn(async move {
            let service = service_fn(|request| {
                let answer = answer(&mut files.lock().unwrap(), &request);
                async move { Ok::<_, Infallible>(answer) }
            });
            // A connection that was broken off on purpose ends with an error.
            let _ = http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

fn answer(files: &mut Files, request: &Request<Incoming>) -> Response<Body> {
    let path = request.uri().path().to_owned();
    let range = request
        .headers()
        .get(header::RANGE)
        .map(|it| it.to_str().unwrap().to_owned());
    let line = format!(
        "{} {path} {}",
        request.method(),
        range.as_deref().unwrap_or("")
    );
    files.requests.push(line.trim_end().to_owned());
    let Some(content) = files.contents.get(&path) else {
        return status(StatusCode::NOT_FOUND);
    };
    if request.method() == Method::HEAD {
        return status(StatusCode::OK);
    }
    let start = range.map_or(0, |range| {
        range
            .trim_start_matches("bytes=")
            .trim_end_matches('-')
            .parse()
            .unwrap()
    });
    if start >= content.len() && start > 0 {
        return status(StatusCode::RANGE_NOT_SATISFIABLE);
    }
    let rest = Bytes::copy_from_slice(&content[start..]);
    let mut response = Response::builder().header(header::CONTENT_LENGTH, rest.len());
    if start > 0 {
        let range = format!("bytes {start}-{}/{}", content.len() - 1, content.len());
        response = response
            .status(StatusCode::PARTIAL_CONTENT)
            .header(header::CONTENT_RANGE, range);
    }
    let body = match files.breaks.get_mut(&path).and_then(Vec::pop) {
        Some(bytes) => broken(rest.slice(..bytes)),
        None => Full::new(rest)
            .map_err(|never| match never {})
            .boxed_unsync(),
    };
    response.body(body).unwrap()
}

fn status(status: StatusCode) -> Response<Body> {
    let body = Full::default()
        .map_err(|never| match never {})
        .boxed_unsync();
    Response::builder().status(status).body(body).unwrap()
}

/// Sends `part`, lets it arrive, then breaks the connection.
fn broken(part: Bytes) -> Body {
    let frames = stream::unfold(Some(part), |part| async move {
        if let Some(part) = part {
            return Some((Ok(Frame::data(part)), None));
        }
        // Only a body that is not ready at once makes hyper send what it has.
        tokio::task::yield_now().await;
        Some((Err(std::io::Error::other("broken off on purpose")), None))
    });
    StreamBody::new(frames).boxed_unsync()
}
