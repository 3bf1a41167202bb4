//! Bootstrap data of every operating system, read by a parser of its format.

use std::{
    fs,
    io::Write as _,
    process::{Command, Stdio},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use butler_capi::{Object, plan};
use butler_toolchain::Toolchain;
use serde_json::{Value, json};

use super::golden::told;
use crate::common::{AUTHORITY, join, now, observed, spec};

const TOKEN: &str = "abcdef.0123456789abcdef";

/// The bootstrap data of a cluster whose machines run `os`, and the format it says it has.
fn data(os: &str, version: &str) -> (String, String) {
    let mut wanted = told(os);
    wanted["kubernetesVersion"] = json!(version);
    let mut world = observed();
    world.control_plane = Some(crate::common::serving(version));
    world.inputs.join = Some(join(TOKEN));
    let plan = plan(&spec("harvester", &wanted), &world, now());
    let secret = plan.objects.iter().find_map(|object| match object {
        Object::Secret(secret) => {
            let data = secret.data.clone().unwrap();
            data.contains_key("format").then_some(data)
        }
        _ => None,
    });
    let secret = secret.unwrap_or_else(|| panic!("{os}: {plan}"));
    let text = |key: &str| String::from_utf8(secret[key].0.clone()).unwrap();
    (text("value"), text("format"))
}

fn yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// A shell that only reads the script.
fn assert_script(script: &str) {
    let mut shell = Command::new("bash")
        .arg("-n")
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    shell
        .stdin
        .take()
        .unwrap()
        .write_all(script.as_bytes())
        .unwrap();
    assert!(shell.wait().unwrap().success(), "{script}");
    assert!(
        !script.contains("{{") && !script.contains("{%"),
        "cloud-init would read this as a template"
    );
}

/// The real kubeadm reads the configuration that a machine joins with.
fn assert_join(configuration: &Value, version: &str) {
    let discovery = &configuration["discovery"]["bootstrapToken"];
    assert_eq!(discovery["token"], TOKEN);
    assert_eq!(discovery["apiServerEndpoint"], "10.40.0.201:6443");
    let taints = configuration["nodeRegistration"]["taints"]
        .as_array()
        .unwrap();
    assert_eq!(
        taints[0],
        json!({"key": "dedicated", "value": "web", "effect": "NoSchedule"})
    );
    let kubeadm = Toolchain::locate().and_then(|toolchain| toolchain.binary("kubeadm", None));
    let kubeadm = kubeadm
        .unwrap_or_else(|error| panic!("kubeadm is needed to read what it is given: {error}"));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("join.yaml");
    fs::write(&file, serde_saphyr::to_string(configuration).unwrap()).unwrap();
    let answer = Command::new(kubeadm)
        .args(["config", "validate", "--config"])
        .arg(&file)
        .output()
        .unwrap();
    // kubeadm of 1.35 knows the older version of its file no more.
    if version >= "v1.31" {
        assert!(
            answer.status.success(),
            "{}",
            String::from_utf8_lossy(&answer.stderr)
        );
    }
}

/// The hash of the authority, as `openssl x509 -pubkey | openssl pkey -pubin -outform der | sha256sum` gives it.
fn authority_hash() -> String {
    let shell = "openssl x509 -pubkey -noout | openssl pkey -pubin -outform der | sha256sum | cut -d' ' -f1";
    let mut command = Command::new("bash");
    command
        .args(["-c", shell])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(AUTHORITY.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    format!(
        "sha256:{}",
        String::from_utf8(output.stdout).unwrap().trim()
    )
}

#[test]
fn flatcar_gets_ignition() {
    let (text, format) = data("flatcar", "v1.35.4");
    assert_eq!(format, "ignition");
    let ignition: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(ignition["ignition"]["version"], "3.3.0");
    let file = |path: &str| {
        let files = ignition["storage"]["files"].as_array().unwrap();
        let file = files.iter().find(|file| file["path"] == path);
        let file = file.unwrap_or_else(|| panic!("no file {path}"));
        let source = file["contents"]["source"].as_str().unwrap();
        let bytes = STANDARD
            .decode(source.strip_prefix("data:;base64,").unwrap())
            .unwrap();
        (
            String::from_utf8(bytes).unwrap(),
            file["mode"].as_u64().unwrap(),
        )
    };
    let (configuration, mode) = file("/etc/kubernetes/butler-join.yaml");
    assert_eq!(mode, 0o600, "it holds the token");
    let configuration = yaml(&configuration);
    assert_join(&configuration, "v1.35");
    assert_eq!(
        configuration["discovery"]["bootstrapToken"]["caCertHashes"],
        json!([authority_hash()])
    );
    let (script, mode) = file("/opt/butler/prepare.sh");
    assert_eq!(mode, 0o755);
    assert_script(&script);
    assert_eq!(
        file("/etc/ssl/certs/butler-0.pem").0.trim(),
        AUTHORITY.trim()
    );
    assert!(
        file("/etc/containerd/certs.d/docker.io/hosts.toml")
            .0
            .parse::<toml::Table>()
            .is_ok()
    );
    assert!(
        file("/etc/systemd/system/kubelet.service.d/http-proxy.conf")
            .0
            .contains("proxy.example.com:3128")
    );
    assert_eq!(
        ignition["passwd"]["users"][0]["sshAuthorizedKeys"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
}

#[test]
fn machines_of_an_older_release_get_the_configuration_their_kubeadm_reads() {
    let (text, _) = data("kairos", "v1.30.2");
    let config = yaml(&text)["cluster"]["config"]
        .as_str()
        .unwrap()
        .to_owned();
    let configuration = yaml(&config)["joinConfiguration"].clone();
    assert_eq!(configuration["apiVersion"], "kubeadm.k8s.io/v1beta3");
    assert_eq!(
        configuration["nodeRegistration"]["kubeletExtraArgs"]["max-pods"],
        "200"
    );
    assert_join(&configuration, "v1.30");
}

#[test]
fn kairos_gets_cloud_config() {
    let (text, format) = data("kairos", "v1.35.4");
    assert_eq!(format, "cloud-config");
    assert!(text.starts_with("#cloud-config\n"));
    let config = yaml(&text);
    let cluster = &config["cluster"];
    assert_eq!(cluster["role"], "worker");
    assert_eq!(cluster["control_plane_host"], "10.40.0.201");
    assert_eq!(cluster["cluster_token"], TOKEN);
    let node = yaml(cluster["config"].as_str().unwrap());
    assert_join(&node["joinConfiguration"], "v1.35");
    let files = config["write_files"].as_array().unwrap();
    assert!(
        files
            .iter()
            .any(|file| file["path"] == "/usr/local/share/ca-certificates/butler-0.crt")
    );
    assert_eq!(
        config["users"][0]["ssh_authorized_keys"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
}

#[test]
fn bottlerocket_gets_toml() {
    let (text, format) = data("bottlerocket", "v1.35.4");
    assert_eq!(format, "toml");
    let settings: toml::Table = text.parse().unwrap();
    let settings = settings["settings"].as_table().unwrap();
    let kubernetes = settings["kubernetes"].as_table().unwrap();
    assert_eq!(
        kubernetes["api-server"].as_str(),
        Some("https://10.40.0.201:6443")
    );
    assert_eq!(kubernetes["bootstrap-token"].as_str(), Some(TOKEN));
    assert_eq!(kubernetes["cluster-dns-ip"].as_str(), Some("10.96.0.10"));
    assert_eq!(kubernetes["max-pods"].as_integer(), Some(200));
    assert_eq!(kubernetes["node-labels"]["tier"].as_str(), Some("web"));
    assert!(
        kubernetes["node-labels"]
            .get("node-role.kubernetes.io/web")
            .is_none(),
        "a kubelet may not set it"
    );
    assert_eq!(
        kubernetes["node-taints"]["dedicated"][0].as_str(),
        Some("web:NoSchedule")
    );
    assert_eq!(
        kubernetes["node-taints"]["slow"][0].as_str(),
        Some(":PreferNoSchedule")
    );
    let certificate = STANDARD
        .decode(kubernetes["cluster-certificate"].as_str().unwrap())
        .unwrap();
    assert_eq!(certificate, AUTHORITY.as_bytes());
    let mirror = &settings["container-registry"]["mirrors"][0];
    assert_eq!(mirror["registry"].as_str(), Some("docker.io"));
    assert_eq!(
        settings["network"]["https-proxy"].as_str(),
        Some("http://proxy.example.com:3128")
    );
    assert_eq!(settings["pki"]["butler-0"]["trusted"].as_bool(), Some(true));
    assert_eq!(
        settings["host-containers"]["admin"]["enabled"].as_bool(),
        Some(true)
    );
}

#[test]
fn talos_gets_a_machine_configuration() {
    let (text, format) = data("talos", "v1.35.4");
    assert_eq!(format, "talos");
    let documents: Vec<&str> = text.split("\n---\n").collect();
    let config = yaml(documents[0]);
    let machine = &config["machine"];
    assert_eq!(
        (config["version"].clone(), machine["type"].clone()),
        (json!("v1alpha1"), json!("worker"))
    );
    assert_eq!(machine["token"], "butler.00112233");
    assert_eq!(
        machine["install"]["disk"], "/dev/vda",
        "the first disk of a machine on Harvester"
    );
    assert_eq!(machine["kubelet"]["extraArgs"], json!({"max-pods": "200"}));
    let taints = &machine["kubelet"]["extraConfig"]["registerWithTaints"];
    assert_eq!(taints.as_array().unwrap().len(), 2);
    assert_eq!(machine["nodeLabels"], json!({"tier": "web"}));
    assert_eq!(
        machine["registries"]["mirrors"]["docker.io"]["endpoints"],
        json!(["https://mirror.example.com"])
    );
    assert_eq!(
        machine["env"]["http_proxy"],
        "http://proxy.example.com:3128"
    );
    assert_eq!(machine["time"]["servers"], json!(["time.example.com"]));
    let cluster = &config["cluster"];
    assert_eq!(cluster["token"], TOKEN);
    assert_eq!(
        cluster["controlPlane"]["endpoint"],
        "https://10.40.0.201:6443"
    );
    assert_eq!(cluster["network"]["podSubnets"], json!(["10.244.0.0/16"]));
    let trusted = yaml(documents[1]);
    assert_eq!(trusted["kind"], "TrustedRootsConfig");
    assert_eq!(
        trusted["certificates"].as_str().unwrap().trim(),
        AUTHORITY.trim()
    );
}

#[test]
fn rocky_gets_a_template_of_the_bootstrap_provider() {
    let plan = plan(&spec("harvester", &told("rocky")), &observed(), now());
    let template = plan
        .objects
        .iter()
        .find(|object| matches!(object, Object::Bootstrap(_)));
    let value = template.unwrap().to_value();
    let spec = &value["spec"]["template"]["spec"];
    let files = spec["files"].as_array().unwrap();
    let script = files
        .iter()
        .find(|file| file["path"] == "/etc/butler/prepare.sh")
        .unwrap();
    let script = script["content"].as_str().unwrap();
    assert_script(script);
    assert!(script.contains("dnf install -y kubelet-1.35.4 kubeadm-1.35.4 kubectl-1.35.4"));
    assert!(
        script.len() < 10_240,
        "the bootstrap provider takes no more"
    );
    let registration = &spec["joinConfiguration"]["nodeRegistration"];
    assert_eq!(
        registration["kubeletExtraArgs"],
        json!([{"name": "max-pods", "value": "200"}, {"name": "node-labels", "value": "tier=web"}])
    );
    assert_eq!(registration["taints"].as_array().unwrap().len(), 2);
    assert_eq!(
        spec["users"][0]["sshAuthorizedKeys"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    let pool = plan
        .objects
        .iter()
        .find(|object| matches!(object, Object::MachineDeployment(_)));
    let labels = &pool.unwrap().to_value()["spec"]["template"]["metadata"]["labels"];
    assert_eq!(
        labels["node-role.kubernetes.io/web"], "",
        "it reaches the Node by way of its Machine"
    );
}
