//! Our controllers as a process of their own, and what the kernel says about it.

use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};

use crate::workspace::root;

/// Ticks a second of the kernel's CPU accounting, the same on every Linux.
const TICKS: f64 = 100.0;

pub(super) struct Process {
    child: Child,
    address: SocketAddr,
}

impl Process {
    /// Starts the release binary with these arguments.
    pub(super) fn start(kubeconfig: &Path, arguments: &[&str]) -> Result<Self> {
        let program = root().join("target/release/butler");
        Self::start_program(&program, kubeconfig, arguments)
    }

    /// Starts another program that takes the same settings.
    pub(super) fn start_program(
        program: &Path,
        kubeconfig: &Path,
        arguments: &[&str],
    ) -> Result<Self> {
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let child = Command::new(program)
            .args(arguments)
            .args(["--namespace", "default", "--log", "error"])
            .args(["--address", &address.to_string()])
            .env("KUBECONFIG", kubeconfig)
            .stdout(Stdio::null())
            .spawn()
            .with_context(|| format!("could not start {}", program.display()))?;
        Ok(Self { child, address })
    }

    /// Asks it to end and waits for it.
    pub(super) fn stop(&mut self) -> Result<()> {
        let asked = Command::new("kill")
            .arg(self.child.id().to_string())
            .status()?;
        ensure!(asked.success(), "could not ask it to end");
        self.child.wait()?;
        Ok(())
    }

    /// The most memory it ever had, in KiB.
    pub(super) fn peak_memory(&self) -> Result<u64> {
        self.memory_as("VmHWM:")
    }

    /// The memory it has now besides its program, of which ever more is read in while it runs, in KiB.
    pub(super) fn memory(&self) -> Result<u64> {
        self.memory_as("RssAnon:")
    }

    fn memory_as(&self, field: &str) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix(field));
        let number = line.and_then(|line| line.split_whitespace().next());
        number
            .context("the kernel does not say")?
            .parse()
            .context("no number")
    }

    /// CPU time it used so far.
    pub(super) fn cpu_seconds(&self) -> Result<f64> {
        self.cpu_at(11)
    }

    /// CPU time that its children used which have ended.
    pub(super) fn cpu_of_children(&self) -> Result<f64> {
        self.cpu_at(13)
    }

    fn cpu_at(&self, first: usize) -> Result<f64> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        // The name in brackets may hold spaces; user and system time are the 12th and 13th after it, those of
        // its children the two that follow.
        let after = stat
            .rsplit_once(')')
            .map(|(_, after)| after)
            .unwrap_or_default();
        let fields: Vec<&str> = after.split_whitespace().collect();
        let ticks = |index: usize| {
            fields
                .get(index)
                .and_then(|field| field.parse::<f64>().ok())
        };
        let used = ticks(first)
            .zip(ticks(first + 1))
            .context("the kernel does not say")?;
        Ok((used.0 + used.1) / TICKS)
    }

    /// Waits until it serves its metrics.
    pub(super) async fn await_answer(&mut self, patience: Duration) -> Result<()> {
        let started = Instant::now();
        while self.metrics().is_err() {
            let ended = self.child.try_wait()?;
            ensure!(ended.is_none(), "it ended instead of serving metrics");
            ensure!(
                started.elapsed() < patience,
                "waited {patience:?} for metrics"
            );
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    }

    /// Waits until one of its controllers has made this many passes.
    pub(super) async fn await_passes(
        &self,
        controller: &str,
        count: usize,
        patience: Duration,
    ) -> Result<()> {
        let series =
            format!(r#"butler_reconciles_total{{controller="{controller}",result="Ok"}} "#);
        let started = Instant::now();
        loop {
            ensure!(
                started.elapsed() < patience,
                "waited {patience:?} for {count} passes"
            );
            let text = self.metrics().unwrap_or_default();
            let passes = text
                .lines()
                .find_map(|line| line.strip_prefix(series.as_str()));
            if passes.and_then(|text| text.parse::<usize>().ok()) >= Some(count) {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    fn metrics(&self) -> Result<String> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(text)
    }
}

/// A path as an argument.
pub(super) fn text(path: &Path) -> Result<&str> {
    path.to_str().context("a path that is no text")
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
