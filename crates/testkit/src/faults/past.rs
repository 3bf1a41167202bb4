//! Answers from the past, which etcd remembers: a list can be asked for at an exact earlier revision.

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use kube::client::{Body, Client};
use serde_json::{Value, json};

use super::Sent;

/// The revision of the whole store just now.
pub(super) async fn revision(client: &Client) -> Result<String, kube::Error> {
    let request = Request::get("/api/v1/namespaces?limit=1").body(Vec::new());
    let list: Value = client
        .request(request.map_err(kube::Error::HttpError)?)
        .await?;
    Ok(text(&list["metadata"]["resourceVersion"]))
}

/// Answers a read as it would have been answered at a revision; nothing for paths that hold no objects.
pub(super) async fn answer(
    client: &Client,
    sent: &Sent,
    headers: &http::HeaderMap,
    revision: &str,
) -> Result<Option<Response<Body>>, kube::Error> {
    let Some(place) = Place::of(&sent.path) else {
        return Ok(None);
    };
    let mut query: Vec<String> = vec![
        format!("resourceVersion={revision}"),
        "resourceVersionMatch=Exact".to_owned(),
    ];
    if let Some(name) = place.name {
        query.push(format!("fieldSelector=metadata.name%3D{name}"));
    } else {
        let parts = sent.query.split('&').filter(|part| !part.is_empty());
        let own = parts.filter(|part| !part.starts_with("resourceVersion"));
        query.extend(own.map(str::to_owned));
    }
    let uri = format!("{}?{}", place.collection, query.join("&"));
    let mut request = Request::builder().method(Method::GET).uri(uri);
    if let Some(accept) = headers.get(http::header::ACCEPT) {
        request = request.header(http::header::ACCEPT, accept);
    }
    let request = request
        .body(Body::empty())
        .map_err(kube::Error::HttpError)?;
    let response = client.send(request).await?;
    let Some(name) = place.name else {
        return Ok(Some(response));
    };
    let (parts, body) = response.into_parts();
    let bytes = body.collect_bytes().await?;
    if !parts.status.is_success() {
        return Ok(Some(Response::from_parts(
            parts,
            Body::from(bytes.to_vec()),
        )));
    }
    let list: Value = serde_json::from_slice(&bytes).map_err(kube::Error::SerdeError)?;
    Ok(Some(only_item(&list, name)))
}

/// The one object of a list as the answer to a get, or that there is none.
fn only_item(list: &Value, name: &str) -> Response<Body> {
    let Some(mut item) = list["items"].get(0).cloned() else {
        let message = format!("{name:?} not found (answered from the past)");
        return status(StatusCode::NOT_FOUND, "NotFound", &message);
    };
    // Items of a list leave out what the list says for all of them.
    if item.get("kind").is_none() {
        item["kind"] = json!(text(&list["kind"]).trim_end_matches("List"));
        item["apiVersion"] = list["apiVersion"].clone();
    }
    json_answer(StatusCode::OK, &item)
}

/// An answer as the API server words its refusals.
pub(super) fn status(code: StatusCode, reason: &str, message: &str) -> Response<Body> {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure",
        "reason": reason, "message": message, "code": code.as_u16(),
    });
    json_answer(code, &status)
}

fn json_answer(code: StatusCode, value: &Value) -> Response<Body> {
    let mut response = Response::new(Body::from(Bytes::from(value.to_string())));
    *response.status_mut() = code;
    let json = http::HeaderValue::from_static("application/json");
    response
        .headers_mut()
        .insert(http::header::CONTENT_TYPE, json);
    response
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// A path taken apart into the collection and perhaps an object in it.
#[derive(Debug, PartialEq, Eq)]
struct Place<'a> {
    collection: String,
    name: Option<&'a str>,
}

impl<'a> Place<'a> {
    fn of(path: &'a str) -> Option<Self> {
        let parts: Vec<&str> = path.split('/').skip(1).collect();
        let (root, rest) = match parts.as_slice() {
            ["api", version, rest @ ..] => (format!("/api/{version}"), rest),
            ["apis", group, version, rest @ ..] => (format!("/apis/{group}/{version}"), rest),
            _ => return None,
        };
        match rest {
            ["namespaces", namespace, plural, name @ ..] => {
                let collection = format!("{root}/namespaces/{namespace}/{plural}");
                Some(Self {
                    collection,
                    name: name.first().copied(),
                })
            }
            [plural, name @ ..] => Some(Self {
                collection: format!("{root}/{plural}"),
                name: name.first().copied(),
            }),
            [] => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_taken_apart_whatever_its_scope() {
        let place = |path| Place::of(path).map(|place| (place.collection, place.name));
        let maps = "/api/v1/namespaces/a/configmaps".to_owned();
        assert_eq!(
            place("/api/v1/namespaces/a/configmaps"),
            Some((maps.clone(), None))
        );
        assert_eq!(
            place("/api/v1/namespaces/a/configmaps/b"),
            Some((maps, Some("b")))
        );
        let spaces = "/api/v1/namespaces".to_owned();
        assert_eq!(place("/api/v1/namespaces/a"), Some((spaces, Some("a"))));
        let teams = "/apis/butler.butlerlabs.dev/v1alpha1/teams".to_owned();
        let status = format!("{teams}/x/status");
        assert_eq!(place(&status), Some((teams, Some("x"))));
        assert_eq!(place("/version"), None);
        assert_eq!(place("/apis/butler.butlerlabs.dev/v1alpha1"), None);
    }
}
