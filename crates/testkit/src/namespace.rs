//! A namespace of its own for every test.

use std::{ops::Deref, time::Duration};

use k8s_openapi::{NamespaceResourceScope, api::core::v1};
use kube::{
    Api, Client, Resource,
    api::{DeleteParams, PostParams},
    core::ObjectMeta,
};

use crate::{Server, server::must_answer};

/// A namespace that only one test uses; it reads as its name.
///
/// It is deleted on drop, as well as can be done from there. Without the controller manager a deleted
/// namespace stays `Terminating` with everything in it: the objects remain readable and new ones are
/// refused. Names are never reused, so tests that share a server do not meet by accident; a controller under
/// test should still watch its own namespace only.
pub struct Namespace {
    name: String,
    server: Server,
}

impl Server {
    /// Makes a namespace with a unique name that begins with `prefix`.
    pub async fn namespace(&self, prefix: &str) -> Namespace {
        let namespace = v1::Namespace {
            metadata: ObjectMeta {
                generate_name: Some(format!("{prefix}-")),
                ..ObjectMeta::default()
            },
            ..v1::Namespace::default()
        };
        let api = Api::all(self.client());
        let made = api.create(&PostParams::default(), &namespace).await;
        let made: v1::Namespace = must_answer(made, &format!("make a namespace {prefix}-*"));
        let name = made.metadata.name.unwrap_or_default();
        Namespace {
            name,
            server: self.clone(),
        }
    }
}

impl Namespace {
    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The server it is on.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// The objects of one kind in it.
    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.server.client(), &self.name)
    }
}

impl Deref for Namespace {
    type Target = str;

    fn deref(&self) -> &str {
        &self.name
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let (name, config) = (self.name.clone(), self.server.config());
        // The runtime of the test is often ending just now, so this brings its own.
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            let Ok(runtime) = runtime else { return };
            runtime.block_on(async {
                let Ok(client) = Client::try_from(config) else {
                    return;
                };
                let api: Api<v1::Namespace> = Api::all(client);
                let params = DeleteParams::default();
                let _ =
                    tokio::time::timeout(Duration::from_secs(5), api.delete(&name, &params)).await;
            });
        });
    }
}
