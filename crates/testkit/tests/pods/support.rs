//! What the tests of this folder share.

use std::time::Duration;

use butler_testkit::{Namespace, Options, PodOptions, Pods, Server, wait_for};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Pod, Service},
};
use kube::{Api, api::ListParams};

pub(crate) const LONG: Duration = Duration::from_mins(1);

pub(crate) async fn world(options: PodOptions) -> (Server, Pods, Namespace) {
    let server = Server::start(Options::default().with_controller_manager())
        .await
        .unwrap();
    let pods = Pods::start(&server, options).await.unwrap();
    let ns = server.namespace("pods").await;
    (server, pods, ns)
}

/// etcd as a Deployment with a probe, and a load balancer in front of it.
pub(crate) fn store(replicas: i32, round: &str) -> String {
    format!(
        "
apiVersion: apps/v1
kind: Deployment
metadata: {{name: store}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: store}}}}
  strategy: {{rollingUpdate: {{maxSurge: 1, maxUnavailable: 0}}}}
  template:
    metadata: {{labels: {{app: store}}, annotations: {{round: {round:?}}}}}
    spec:
      securityContext: {{runAsNonRoot: true, runAsUser: 65532, runAsGroup: 65532, fsGroup: 65532}}
      terminationGracePeriodSeconds: 20
      containers:
        - name: etcd
          image: registry.example/coreos/etcd:v3.6.16
          command: [etcd]
          args:
            - --name=$(POD_NAME)
            - --data-dir=/var/lib/etcd
            - --listen-client-urls=http://0.0.0.0:2379
            - --advertise-client-urls=http://$(POD_IP):2379
            - --listen-peer-urls=http://127.0.0.1:2380
            - --unsafe-no-fsync
          env:
            - {{name: POD_NAME, valueFrom: {{fieldRef: {{fieldPath: metadata.name}}}}}}
            - {{name: POD_IP, valueFrom: {{fieldRef: {{fieldPath: status.podIP}}}}}}
          ports: [{{name: client, containerPort: 2379}}]
          securityContext: {{readOnlyRootFilesystem: true}}
          lifecycle: {{preStop: {{sleep: {{seconds: 2}}}}}}
          startupProbe: {{httpGet: {{path: /health, port: client}}, periodSeconds: 1, failureThreshold: 60}}
          readinessProbe: {{httpGet: {{path: /readyz, port: client}}, periodSeconds: 1}}
          volumeMounts: [{{name: data, mountPath: /var/lib/etcd}}]
      volumes: [{{name: data, emptyDir: {{}}}}]
---
apiVersion: v1
kind: Service
metadata: {{name: store}}
spec:
  type: LoadBalancer
  selector: {{app: store}}
  ports: [{{port: 2379, targetPort: client}}]
"
    )
}

pub(crate) async fn rolled_out(ns: &Namespace, name: &str) -> Deployment {
    let deployments: Api<Deployment> = ns.api();
    wait_for(&deployments, name, "its new pods to be ready", LONG, |it| {
        let replicas = it.spec.as_ref().and_then(|spec| spec.replicas);
        let Some(status) = &it.status else {
            return false;
        };
        status.observed_generation == it.metadata.generation
            && status.updated_replicas == replicas
            && status.ready_replicas == replicas
            && status.replicas == replicas
    })
    .await
}

pub(crate) async fn load_balancer(ns: &Namespace, name: &str) -> String {
    let services: Api<Service> = ns.api();
    let address = |service: &Service| {
        let ingress = service
            .status
            .as_ref()?
            .load_balancer
            .as_ref()?
            .ingress
            .as_ref()?;
        ingress.first()?.ip.clone()
    };
    let service = wait_for(&services, name, "an address", LONG, |it| {
        address(it).is_some()
    })
    .await;
    address(&service).unwrap()
}

/// Asks for a page with a connection of its own; says what went wrong.
pub(crate) async fn get(address: &str, port: u16, path: &str) -> Result<String, String> {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let asked = async {
        let mut stream = tokio::net::TcpStream::connect((address, port)).await?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok::<_, std::io::Error>(answer)
    };
    let answer = tokio::time::timeout(Duration::from_secs(2), asked).await;
    let answer = answer.map_err(|_| "timed out".to_owned())?;
    let answer = answer.map_err(|error| error.to_string())?;
    if answer.starts_with("HTTP/1.1 200") {
        Ok(answer)
    } else {
        Err(format!("answered {answer:?}"))
    }
}

/// The pods of a namespace.
pub(crate) async fn list(ns: &Namespace) -> Vec<Pod> {
    let pods: Api<Pod> = ns.api();
    pods.list(&ListParams::default()).await.unwrap().items
}

/// The state of a container, as far as it is known.
pub(crate) fn container(
    pod: &Pod,
    name: &str,
) -> Option<k8s_openapi::api::core::v1::ContainerStatus> {
    let status = pod.status.as_ref()?;
    let inits = status.init_container_statuses.iter().flatten();
    let mut all = inits.chain(status.container_statuses.iter().flatten());
    all.find(|container| container.name == name).cloned()
}

/// Waits until something holds that nothing can be watched for.
pub(crate) async fn until(what: &str, done: impl Fn() -> bool) {
    let deadline = tokio::time::Instant::now() + LONG;
    while !done() {
        assert!(
            tokio::time::Instant::now() < deadline,
            "waited {LONG:?} for {what}"
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
