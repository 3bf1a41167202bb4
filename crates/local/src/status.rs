//! How the platform is: what runs, whether it answers, how much memory it takes.

use std::{collections::BTreeMap, fmt, fs};

use butler_images::Registry;

use crate::{agent, cgroup, error::Error, machines::machines, platform::Platform, platform::chain};

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Each part, and why it is not well if it is not.
    pub parts: Vec<(&'static str, Result<String, String>)>,
    /// Bytes of memory that only we use, and our share of what others use too, by part.
    pub memory: BTreeMap<String, u64>,
}

impl Status {
    /// Whether every part is well.
    pub fn is_well(&self) -> bool {
        self.parts.iter().all(|(_, state)| state.is_ok())
    }
}

impl fmt::Display for Status {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, state) in &self.parts {
            match state {
                Ok(said) => writeln!(out, "  ✓ {name:<20} {said}")?,
                Err(said) => writeln!(out, "  ✗ {name:<20} {said}")?,
            }
        }
        let total: u64 = self.memory.values().sum();
        let each = self.memory.iter();
        let each: Vec<_> = each
            .map(|(name, bytes)| format!("{name} {}", bytes >> 20))
            .collect();
        write!(out, "  memory: {} MiB ({})", total >> 20, each.join(", "))
    }
}

impl Platform {
    /// Looks at every part.
    pub async fn status(&self) -> Result<Status, Error> {
        if self
            .paths
            .load()
            .map_err(Error::on("read the platform's settings"))?
            .is_none()
        {
            return Err(Error::Nothing);
        }
        if !self.has_network()? {
            let network = Err("is not there; `butleradm up` makes it".to_owned());
            return Ok(Status {
                parts: vec![("network", network)],
                memory: self.memory(),
            });
        }
        let agent = agent::process(&self.paths);
        let agent = agent.map(|pid| format!("process {pid}"));
        let registry = match Registry::new(&self.settings.registry(), None) {
            Ok(registry) => registry.is_there().await.map_err(|error| chain(&error)),
            Err(error) => Err(chain(&error)),
        };
        let node = self.management_node()?;
        let machine = node.first_process();
        let machine = machine.map(|pid| format!("{} process {pid}", node.address));
        let said = |result: Result<String, Error>| result.map_err(|error| chain(&error));
        let api = said(self.kubectl(&["get", "--raw", "/readyz", "--request-timeout=5s"], None));
        let nodes = said(self.kubectl(
            &["get", "nodes", "--no-headers", "--request-timeout=5s"],
            None,
        ));
        let mut parts = vec![
            ("agent", agent.ok_or_else(|| "does not run".to_owned())),
            ("registry", registry.map(|()| self.settings.registry())),
            (
                "management machine",
                machine.ok_or_else(|| "does not run".to_owned()),
            ),
            (
                "API server",
                api.map(|_| format!("https://{}:6443", node.address)),
            ),
            ("nodes", nodes.and_then(|shown| nodes_ready(&shown))),
            ("tenants' machines", self.workers_run()),
        ];
        parts.extend(self.controllers_status().await);
        Ok(Status {
            parts,
            memory: self.memory(),
        })
    }

    /// Whether every machine of a tenant runs, or was broken on purpose.
    fn workers_run(&self) -> Result<String, String> {
        let look = || {
            let machines = machines(&self.paths)?;
            let all = machines.list()?;
            let mut down = Vec::new();
            for id in &all {
                let seen = machines.observe(id)?;
                if seen.pid.is_none() && seen.held.is_none() {
                    let spec = machines.folder(id).read_spec()?;
                    down.push(spec.map_or_else(|| id.to_string(), |spec| spec.hostname));
                }
            }
            Ok::<_, butler_machine::runtime::Error>((all.len(), down))
        };
        match look() {
            Ok((all, down)) if down.is_empty() => Ok(format!("{all} of {all} run")),
            Ok((_, down)) => Err(format!("do not run: {}", down.join(", "))),
            Err(error) => Err(chain(&error)),
        }
    }

    fn memory(&self) -> BTreeMap<String, u64> {
        let machines = self.paths.state.join("machines");
        let machines = fs::read_dir(machines).into_iter().flatten().flatten();
        let names = machines.map(|it| it.file_name().to_string_lossy().into_owned());
        let measure = |name: String| {
            let processes = cgroup::processes(Some(&name)).unwrap_or_default();
            let bytes = processes.into_iter().filter_map(proportional).sum();
            (name, bytes)
        };
        let mut memory: BTreeMap<_, _> = names
            .chain([agent::AGENT.to_owned()])
            .map(measure)
            .collect();
        if let Ok(workers) = self.machines() {
            for id in workers.list().unwrap_or_default() {
                let spec = workers.folder(&id).read_spec().ok().flatten();
                let name = spec.map_or_else(|| id.to_string(), |spec| spec.hostname);
                let processes = workers.processes(&id).into_iter();
                *memory.entry(name).or_default() += processes.filter_map(proportional).sum::<u64>();
            }
        }
        memory
    }
}

/// Whether every line of `kubectl get nodes` says Ready.
fn nodes_ready(shown: &str) -> Result<String, String> {
    let states = shown
        .lines()
        .filter_map(|line| line.split_whitespace().nth(1));
    let ready = states.clone().filter(|state| *state == "Ready").count();
    let all = states.count();
    let said = format!("{ready} of {all} Ready");
    if all > 0 && ready == all {
        Ok(said)
    } else {
        Err(said)
    }
}

/// A process's memory, with its share of what it has in common with others.
fn proportional(process: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/smaps_rollup")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().ok()?;
    Some(kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_node_that_is_not_ready_is_said() {
        let shown =
            "a   Ready      control-plane   1m   v1.35.4\nb   NotReady   <none>   1m   v1.35.4\n";
        assert_eq!(nodes_ready(shown), Err("1 of 2 Ready".to_owned()));
        assert_eq!(
            nodes_ready("a Ready x 1m v1\n"),
            Ok("1 of 1 Ready".to_owned())
        );
        assert_eq!(nodes_ready(""), Err("0 of 0 Ready".to_owned()));
    }
}
