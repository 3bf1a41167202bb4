//! What a client sends, as a plan sees it.

use std::fmt;

use http::{Method, Request};

/// One request of a client with faults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Its place among all requests of this client, from 1.
    pub number: usize,
    /// The HTTP method.
    pub method: Method,
    /// The path, without the query.
    pub path: String,
    /// The query, or nothing.
    pub query: String,
}

impl Sent {
    pub(super) fn of<B>(request: &Request<B>, number: usize) -> Self {
        Self {
            number,
            method: request.method().clone(),
            path: request.uri().path().to_owned(),
            query: request.uri().query().unwrap_or_default().to_owned(),
        }
    }

    /// Whether it could change something that is stored: no read, dry run or access review.
    pub fn is_write(&self) -> bool {
        let review = [
            "/apis/authorization.k8s.io/",
            "/apis/authentication.k8s.io/",
        ];
        self.method != Method::GET
            && !self.query.contains("dryRun=All")
            && !review.iter().any(|group| self.path.starts_with(group))
    }

    /// Whether it asks for a stream of changes.
    pub fn is_watch(&self) -> bool {
        self.query
            .split('&')
            .any(|part| part == "watch=true" || part == "watch=1")
    }

    /// Whether it reads objects once.
    pub fn is_read(&self) -> bool {
        self.method == Method::GET && !self.is_watch()
    }

    /// Whether it is about this resource, by its plural.
    pub fn is_about(&self, resource: &str) -> bool {
        self.path.split('/').any(|part| part == resource)
    }
}

impl fmt::Display for Sent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            number,
            method,
            path,
            query,
        } = self;
        write!(f, "#{number} {method} {path}")?;
        if query.is_empty() {
            Ok(())
        } else {
            write!(f, "?{query}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(method: Method, uri: &str) -> Sent {
        Sent::of(
            &Request::builder().method(method).uri(uri).body(()).unwrap(),
            1,
        )
    }

    #[test]
    fn a_dry_run_and_a_review_are_no_writes() {
        assert!(sent(Method::POST, "/api/v1/namespaces").is_write());
        assert!(!sent(Method::PATCH, "/api/v1/namespaces/a?force=true&dryRun=All").is_write());
        let review = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
        assert!(!sent(Method::POST, review).is_write());
    }

    #[test]
    fn a_watch_is_not_a_read() {
        let watch = sent(Method::GET, "/api/v1/pods?watch=true&resourceVersion=1");
        assert!(watch.is_watch() && !watch.is_read() && !watch.is_write());
        assert!(watch.is_about("pods"));
    }
}
