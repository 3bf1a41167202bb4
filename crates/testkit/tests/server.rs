//! A server as tests use it: who may do what, and what is served.

use butler_testkit::{Options, Server, User};
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;

#[tokio::test]
async fn a_private_server_serves_the_core_api() {
    let begin = std::time::Instant::now();
    let server = Server::start(Options::default()).await.unwrap();
    println!("ready after {:?}", begin.elapsed());
    let namespaces: Api<Namespace> = Api::all(server.client());
    assert!(namespaces.get_opt("default").await.unwrap().is_some());
    let alice = server.client_for(&User::named("alice"));
    let denied = Api::<Namespace>::all(alice).get("default").await.unwrap_err();
    assert!(denied.to_string().contains("alice"), "{denied}");
}
