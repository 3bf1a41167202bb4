//! A chart repository of one small chart, on a port of this machine.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::Command,
    thread,
};

use anyhow::{Context, Result, ensure};

/// Three small objects, all of which are healthy once they are there.
const TEMPLATE: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: "{{ .Release.Name }}"}
data: {greeting: "{{ .Values.greeting }}"}
---
apiVersion: v1
kind: Service
metadata: {name: "{{ .Release.Name }}"}
spec:
  selector: {app: "{{ .Release.Name }}"}
  ports: [{port: 80}]
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: "{{ .Release.Name }}"}
"#;

/// Packs the chart in `folder` and serves it for as long as this process lives; its address.
pub(super) fn serve(helm: &Path, folder: &Path) -> Result<String> {
    let chart = folder.join("small");
    fs::create_dir_all(chart.join("templates"))?;
    for (file, content) in [
        (
            "Chart.yaml",
            "{apiVersion: v2, name: small, version: 1.0.0}",
        ),
        ("values.yaml", "{greeting: hello}"),
        ("templates/all.yaml", TEMPLATE),
    ] {
        fs::write(chart.join(file), content)?;
    }
    for arguments in [["package", "small"], ["repo", "index"]] {
        let index = (arguments == ["repo", "index"]).then_some(".");
        let done = Command::new(helm)
            .args(arguments)
            .args(index)
            .current_dir(folder)
            .env("HOME", folder)
            .output()
            .context("could not run helm")?;
        let said = String::from_utf8_lossy(&done.stderr);
        ensure!(done.status.success(), "helm {arguments:?}: {said}");
    }
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = format!("http://{}", listener.local_addr()?);
    let folder = folder.to_owned();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // One that breaks off is the matter of whoever asked.
            let _ = answer(&stream, &folder);
        }
    });
    Ok(address)
}

fn answer(mut stream: &TcpStream, folder: &Path) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream).lines();
    let request = lines.next().transpose()?.unwrap_or_default();
    // The rest of the request, which says nothing that matters.
    while lines
        .next()
        .transpose()?
        .is_some_and(|line| !line.is_empty())
    {}
    let name = request.split(' ').nth(1).unwrap_or_default();
    let file: PathBuf = folder.join(Path::new(name).file_name().unwrap_or_default());
    let (status, content) = match fs::read(file) {
        Ok(content) => ("200 OK", content),
        Err(_) => ("404 Not Found", Vec::new()),
    };
    let length = content.len();
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    )?;
    stream.write_all(&content)
}
