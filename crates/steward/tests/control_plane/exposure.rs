//! Every way to expose a control plane, served by real API servers and used with the kubeconfig that people get.

use std::{io, net::SocketAddr, sync::Arc};

use butler_api::steward::TenantControlPlane;
use butler_runtime::task::{self, Task};
use butler_testkit::{PATIENCE, pods::PodOptions, wait_for};
use k8s_openapi::api::core::v1::{Pod, Secret, Service};
use kube::{
    ResourceExt as _,
    api::{ListParams, Patch, PatchParams},
    config::Kubeconfig,
};
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};

use crate::{
    serving::{Platform, SOON, is_ready, kubectl, platform_with},
    stage,
};

/// A control plane whose Service is of this type.
fn exposed(service_type: &str, network: &str) -> String {
    let plane = stage::control_plane("blue", network);
    plane.replace("LoadBalancer", service_type)
}

/// Where the kubeconfig of administrators leads.
async fn server_of(platform: &Platform) -> String {
    let secret: Secret = platform.home.get("blue-admin-kubeconfig").await;
    let file = String::from_utf8(secret.data.unwrap()["admin.conf"].0.clone()).unwrap();
    let cluster = Kubeconfig::from_yaml(&file).unwrap().clusters.remove(0);
    cluster.cluster.unwrap().server.unwrap()
}

/// Carries connections to another place, for as long as it is held.
fn carry<F>(listener: TcpListener, dial: impl Fn() -> F + Send + 'static) -> Task
where
    F: Future<Output = io::Result<TcpStream>> + Send + 'static,
{
    task::spawn("carry connections", async move {
        let mut carried = Vec::new();
        while let Ok((mut client, _)) = listener.accept().await {
            let server = dial();
            carried.push(task::spawn("carry a connection", async move {
                // Either end may go at any time.
                if let Ok(mut server) = server.await {
                    let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
                }
            }));
        }
    })
}

#[tokio::test]
async fn a_control_plane_on_a_node_port_serves_at_an_address_of_the_nodes() {
    let platform = platform_with(PodOptions::default()).await;
    let node = platform.pods.node_address();
    let network = format!("networkProfile: {{address: {node}}}");
    platform
        .home
        .apply_yaml(&exposed("NodePort", &network))
        .await;
    let plane = is_ready(&platform.home, "blue").await;
    let service: Service = platform.home.get("blue").await;
    let port = service.spec.unwrap().ports.unwrap()[0].node_port.unwrap();
    assert_eq!(
        plane.status.unwrap().control_plane_endpoint,
        Some(format!("{node}:{port}"))
    );
    assert_eq!(server_of(&platform).await, format!("https://{node}:{port}"));
    kubectl(&platform, "blue", &["create", "namespace", "mine"]).await;
}

/// A load balancer of somebody else, which gives a name.
#[tokio::test]
async fn a_control_plane_behind_a_name_serves_under_it() {
    let options = PodOptions::default().load_balancer_class("not-of-this-kit");
    let platform = platform_with(options).await;
    let home = &platform.home;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let network = format!("networkProfile: {{port: {port}}}");
    home.apply_yaml(&exposed("LoadBalancer", &network)).await;
    let services = home.api::<Service>();
    let service = wait_for(&services, "blue", "its Service", PATIENCE, |_| true).await;
    let inner = service.spec.unwrap().ports.unwrap()[0].node_port.unwrap();
    let inner = SocketAddr::from((platform.pods.node_address(), u16::try_from(inner).unwrap()));
    let _balancer = carry(listener, move || TcpStream::connect(inner));
    let status = json!({"status": {"loadBalancer": {"ingress": [{"hostname": "localhost"}]}}});
    let (params, status) = (PatchParams::default(), Patch::Merge(&status));
    let given = services.patch_status("blue", &params, &status).await;
    given.unwrap();

    let plane = is_ready(home, "blue").await;
    assert_eq!(
        plane.status.unwrap().control_plane_endpoint,
        Some(format!("localhost:{port}"))
    );
    assert_eq!(
        server_of(&platform).await,
        format!("https://localhost:{port}")
    );
    kubectl(&platform, "blue", &["create", "namespace", "mine"]).await;
}

/// No cluster address can be reached from outside, so a client is sent to the pod, and expects what serves that address.
/// Steward cannot reach it either, so administrators have no rights yet; who they are is known all the same.
#[tokio::test]
async fn a_control_plane_in_the_cluster_alone_serves_under_the_address_of_its_service() {
    let platform = platform_with(PodOptions::default()).await;
    let home = &platform.home;
    home.apply_yaml(&exposed("ClusterIP", "")).await;
    let planes = home.api::<TenantControlPlane>();
    let serves = wait_for(&planes, "blue", "pods that serve", SOON, |plane| {
        let conditions = plane.status.iter().flat_map(|status| &status.conditions);
        conditions
            .into_iter()
            .any(|held| held.type_ == "WorkloadReady" && held.status == "True")
    });
    let endpoint = serves.await.status.unwrap().control_plane_endpoint;
    let service: Service = home.get("blue").await;
    let address = service.spec.unwrap().cluster_ip.unwrap();
    assert_eq!(endpoint, Some(format!("{address}:6443")));
    assert_eq!(
        server_of(&platform).await,
        format!("https://{address}:6443")
    );

    let pods = home
        .api::<Pod>()
        .list(&ListParams::default())
        .await
        .unwrap();
    let pod = pods.items.first().unwrap().name_any();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let here = listener.local_addr().unwrap();
    let platform = Arc::new(platform);
    let _proxy = {
        let platform = Arc::clone(&platform);
        carry(listener, move || {
            let (platform, pod) = (Arc::clone(&platform), pod.clone());
            async move {
                let dialled = platform.pods.dial(platform.home.name(), &pod, 6443).await;
                dialled.ok_or_else(|| io::Error::other("the pod is gone"))
            }
        })
    };
    for name in [&address, &format!("blue.{}.svc", platform.home.name())] {
        let through = [
            &format!("--server=https://{here}"),
            &format!("--tls-server-name={name}"),
            "auth",
            "whoami",
            "-o=jsonpath={.status.userInfo.groups}",
        ];
        let found = kubectl(&platform, "blue", &through).await;
        assert!(found.contains("kubeadm:cluster-admins"), "{found}");
    }
}
