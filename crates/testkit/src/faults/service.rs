//! The tower service that carries out a plan.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use futures::stream;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, StreamBody, combinators::UnsyncBoxBody};
use kube::client::{Body, Client};
use tokio::time::{Instant, sleep, sleep_until};
use tower::{BoxError, Service};

use super::{Fault, Logged, Past, Refusal, Sent, Shared, past};

/// A body that may be held back.
type Held = UnsyncBoxBody<Bytes, BoxError>;

/// Sits where kube expects the connection, and hands on to a complete client below.
#[derive(Clone)]
pub(super) struct Faulty {
    below: Client,
    shared: Arc<Shared>,
}

impl Faulty {
    pub(super) fn new(below: Client, shared: Arc<Shared>) -> Self {
        Self { below, shared }
    }

    /// Gives the request its number and its fate, in one step.
    fn register(&self, request: &Request<Body>) -> (Sent, Option<Fault>) {
        let mut state = self.shared.lock();
        let sent = Sent::of(request, state.log.len() + 1);
        let fault = state.plan.fault_for(&sent);
        state.log.push(Logged {
            sent: sent.clone(),
            fault,
        });
        drop(state);
        if sent.is_write() {
            self.shared.activity.send_modify(|writes| *writes += 1);
        }
        (sent, fault)
    }

    async fn carry_out(
        self,
        sent: Sent,
        fault: Option<Fault>,
        request: Request<Body>,
    ) -> Result<Response<Held>, BoxError> {
        if *self.shared.crashed.borrow() {
            return never().await;
        }
        match fault {
            None => self.pass(&sent, request).await,
            Some(Fault::Refuse(refusal)) => refuse(refusal),
            Some(Fault::LoseAnswer) => {
                self.pass(&sent, request).await?;
                Err(broken("the connection broke before the answer"))
            }
            Some(Fault::Delay(duration)) => {
                sleep(duration).await;
                self.pass(&sent, request).await
            }
            Some(Fault::Duplicate) => {
                let (first, second) = twice(request)?;
                self.pass(&sent, first).await?.into_body().collect().await?;
                self.pass(&sent, second).await
            }
            Some(Fault::Stale(duration)) => {
                let revision = past::revision(&self.below).await?;
                // Before it is sent: its event may be quicker than its answer.
                let until = Instant::now() + duration;
                self.shared.lock().past = Some(Past { revision, until });
                self.pass(&sent, request).await
            }
            Some(Fault::CrashBefore) => self.crash().await,
            Some(Fault::CrashAfter) => {
                // To the last byte: the next controller must not overtake it.
                self.pass(&sent, request)
                    .await?
                    .into_body()
                    .collect()
                    .await?;
                self.crash().await
            }
        }
    }

    /// Sends the request as it is, unless the client is held in the past.
    async fn pass(&self, sent: &Sent, request: Request<Body>) -> Result<Response<Held>, BoxError> {
        if let Some(past) = self.shared.past().filter(|_| sent.is_read()) {
            let headers = request.headers();
            let answer = past::answer(&self.below, sent, headers, &past.revision).await?;
            if let Some(answer) = answer {
                return Ok(answer.map(whole));
            }
        }
        let response = self.below.send(request).await?;
        if sent.is_watch() {
            let shared = Arc::clone(&self.shared);
            return Ok(response.map(|body| held_back(body, shared)));
        }
        Ok(response.map(whole))
    }

    async fn crash(&self) -> Result<Response<Held>, BoxError> {
        self.shared.crashed.send_replace(true);
        never().await
    }
}

impl Service<Request<Body>> for Faulty {
    type Response = Response<Held>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (sent, fault) = self.register(&request);
        Box::pin(self.clone().carry_out(sent, fault, request))
    }
}

/// A controller that has ended gets no answers.
async fn never() -> Result<Response<Held>, BoxError> {
    std::future::pending().await
}

fn refuse(refusal: Refusal) -> Result<Response<Held>, BoxError> {
    let (code, reason) = match refusal {
        Refusal::Connection => return Err(broken("connection refused")),
        Refusal::Internal => (StatusCode::INTERNAL_SERVER_ERROR, "InternalError"),
        Refusal::Conflict => (StatusCode::CONFLICT, "Conflict"),
        Refusal::TooMany => (StatusCode::TOO_MANY_REQUESTS, "TooManyRequests"),
    };
    Ok(past::status(code, reason, "refused by the plan of this test").map(whole))
}

fn broken(text: &str) -> BoxError {
    io::Error::new(io::ErrorKind::ConnectionReset, text).into()
}

fn whole(body: Body) -> Held {
    body.map_err(BoxError::from).boxed_unsync()
}

/// Lets the frames of a watch through only while the client is not held in the past.
fn held_back(body: Body, shared: Arc<Shared>) -> Held {
    let frames = stream::unfold((body, shared), |(mut body, shared)| async move {
        let frame = body.frame().await?.map_err(BoxError::from);
        while let Some(past) = shared.past() {
            sleep_until(past.until).await;
        }
        Some((frame, (body, shared)))
    });
    StreamBody::new(frames).boxed_unsync()
}

/// The same request two times.
fn twice(request: Request<Body>) -> Result<(Request<Body>, Request<Body>), BoxError> {
    let Some(body) = request.body().try_clone() else {
        return Err("a streamed request cannot be sent twice".into());
    };
    let mut copy = Request::new(body);
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.headers_mut() = request.headers().clone();
    Ok((copy, request))
}
