//! etcd as its users see it: a client that shares nothing with the one under test.

use http::uri::PathAndQuery;
use tonic::{
    Code, Request, Status,
    client::Grpc,
    transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity},
};
use tonic_prost::ProstCodec;

#[derive(Clone, PartialEq, Eq, prost::Message)]
struct Range {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    range_end: Vec<u8>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
struct RangeAnswer {
    #[prost(message, repeated, tag = "2")]
    kvs: Vec<Entry>,
}

/// Everything etcd knows of a key.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Entry {
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    #[prost(int64, tag = "2")]
    pub create_revision: i64,
    #[prost(int64, tag = "3")]
    pub mod_revision: i64,
    #[prost(int64, tag = "4")]
    pub version: i64,
    #[prost(bytes = "vec", tag = "5")]
    pub value: Vec<u8>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
struct Put {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
struct Texts {
    #[prost(string, tag = "1")]
    one: String,
    #[prost(string, tag = "2")]
    other: String,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
struct Names {
    #[prost(string, repeated, tag = "2")]
    names: Vec<String>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
struct Nothing {}

/// A connection with a user's certificate.
pub struct User(Channel);

impl User {
    /// Connects on first use.
    pub fn connect(endpoint: &str, authority: &str, (certificate, key): (String, String)) -> Self {
        let tls = ClientTlsConfig::new()
            .ca_certificate(Certificate::from_pem(authority))
            .identity(Identity::from_pem(certificate, key));
        let endpoint = Endpoint::from_shared(format!("https://{endpoint}")).unwrap();
        Self(endpoint.tls_config(tls).unwrap().connect_lazy())
    }

    /// Every key from the first up to the second.
    pub async fn range(&self, key: &[u8], range_end: &[u8]) -> Result<Vec<Entry>, Code> {
        let request = Range {
            key: key.to_vec(),
            range_end: range_end.to_vec(),
        };
        let answer: RangeAnswer = self.call("KV/Range", request).await?;
        Ok(answer.kvs)
    }

    /// Every key there is.
    pub async fn everything(&self) -> Vec<Entry> {
        self.range(&[0], &[0]).await.unwrap()
    }

    pub async fn put(&self, key: impl Into<Vec<u8>>, value: &[u8]) -> Result<(), Code> {
        let request = Put {
            key: key.into(),
            value: value.to_vec(),
        };
        let _: Nothing = self.call("KV/Put", request).await?;
        Ok(())
    }

    /// Adds a user who signs in with a password.
    pub async fn add_user(&self, user: &str, password: &str) {
        self.tell("UserAdd", user, password).await;
    }

    pub async fn grant_role(&self, user: &str, role: &str) {
        self.tell("UserGrantRole", user, role).await;
    }

    pub async fn delete_role(&self, role: &str) {
        self.tell("RoleDelete", role, "").await;
    }

    pub async fn delete_user(&self, user: &str) {
        self.tell("UserDelete", user, "").await;
    }

    /// The names of all users and of all roles.
    pub async fn users_and_roles(&self) -> (Vec<String>, Vec<String>) {
        let users: Names = self.call("Auth/UserList", Nothing {}).await.unwrap();
        let roles: Names = self.call("Auth/RoleList", Nothing {}).await.unwrap();
        (users.names, roles.names)
    }

    async fn tell(&self, method: &str, one: &str, other: &str) {
        let request = Texts {
            one: one.to_owned(),
            other: other.to_owned(),
        };
        let _: Nothing = self.call(&format!("Auth/{method}"), request).await.unwrap();
    }

    async fn call<Q, A>(&self, method: &str, request: Q) -> Result<A, Code>
    where
        Q: prost::Message + Clone + 'static,
        A: prost::Message + Default + 'static,
    {
        let path: PathAndQuery = format!("/etcdserverpb.{method}").parse().unwrap();
        loop {
            let mut grpc = Grpc::new(self.0.clone()).max_decoding_message_size(64 << 20);
            grpc.ready().await.unwrap();
            let request = Request::new(request.clone());
            let answer = grpc
                .unary(request, path.clone(), ProstCodec::default())
                .await;
            match answer.map_err(|status: Status| (status.code(), status)) {
                Ok(answer) => return Ok(answer.into_inner()),
                // Users or roles changed while the request was on its way.
                Err((Code::InvalidArgument, status)) if status.message().ends_with("is old") => {}
                Err((code, _)) => return Err(code),
            }
        }
    }
}
