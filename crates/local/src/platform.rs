//! Bringing the platform up and taking it down: phases, each of which can be run again.

use std::{fs, io, path::PathBuf, process::Command, time::Duration};

use butler_fabric::Fabric;
use butler_images::{Layout as Images, Registry, catalog, mirror};
use butler_toolchain::{Progress as Installing, Selection, Toolchain, Version};
use rustix::fs::FlockOperation;

use crate::{
    agent, cgroup,
    controllers::Controllers,
    error::{Error, succeeded},
    preflight,
    program::{copy_program, own_binary},
    progress::Progress,
    settings::{MANAGEMENT, Paths, Settings},
    wait::until,
};

/// One platform, and what is needed to work on it.
pub struct Platform {
    pub(crate) paths: Paths,
    pub(crate) settings: Settings,
    pub(crate) toolchain: Toolchain,
    /// This program, which is also the agent.
    program: PathBuf,
    /// Our own binary for the image, and the image's tag.
    own: Option<(PathBuf, String)>,
}

impl Platform {
    /// The platform that is there, or the one that `settings` would make.
    pub fn new(paths: Paths, settings: Settings, toolchain: Toolchain) -> Result<Self, Error> {
        let program = std::env::current_exe().map_err(Error::on("find this program"))?;
        let own = own_binary(&program);
        Ok(Self {
            paths,
            settings,
            toolchain,
            program,
            own,
        })
    }

    /// Our own binary for the image, and the image's tag.
    pub(crate) fn own(&self) -> Option<&(PathBuf, String)> {
        self.own.as_ref()
    }

    /// Makes everything that is not there yet. It can be killed at any time and run again.
    pub async fn up(
        &self,
        controllers: Controllers,
        installing: &dyn Installing,
    ) -> Result<(), Error> {
        let mut progress = Progress::default();
        if !preflight::is_root() {
            // Says what else is missing, too.
            self.preflight()?;
        }
        let lock = self.lock()?;
        progress
            .phase("preflight", async { self.preflight() })
            .await?;
        progress
            .phase("components", async { self.install(installing) })
            .await?;
        progress
            .phase("images", async { self.make_images() })
            .await?;
        progress
            .phase("network and registry", self.start_agent())
            .await?;
        progress.phase("fill the registry", self.fill()).await?;
        let node = self.management_node()?;
        progress.phase("machine", self.start_machine(&node)).await?;
        progress
            .phase("control plane", self.make_cluster(&node))
            .await?;
        progress.phase("node ready", self.node_ready()).await?;
        if controllers == Controllers::Pods {
            self.withdraw_controllers().await?;
        }
        // None waits for another: on an idle machine most of their time is spent waiting.
        progress.together([
            ("cluster services", &|| self.system_pods()),
            ("Cluster API", &|| self.cluster_api()),
            ("Butler and Steward", &|| self.butler(controllers)),
        ])?;
        if self.own.is_some() {
            self.admit_provider(&node)?;
            if controllers == Controllers::Processes {
                let starting = self.run_controllers(&node);
                progress.phase("controllers", starting).await?;
            }
            progress
                .phase("store of tenants", async { self.tenant_store() })
                .await?;
            progress
                .phase("tenant demo", async { self.sample() })
                .await?;
        }
        println!("\nUp after {:.1} s.", progress.total().as_secs_f64());
        if self.own.is_some() {
            println!("{}", self.what_next());
        } else {
            println!("  export KUBECONFIG={}", self.paths.kubeconfig().display());
        }
        drop(lock);
        Ok(())
    }

    /// Ends everything and leaves nothing of it in the kernel; disks stay, so that `up` goes on where this was.
    pub async fn down(&self) -> Result<(), Error> {
        let mut progress = Progress::default();
        let lock = self.lock()?;
        progress
            .phase("agent and registry", async {
                agent::end(&self.paths).await?;
                Ok(((), String::new()))
            })
            .await?;
        progress
            .phase("machines", async { self.end_machines() })
            .await?;
        progress
            .phase("network", async {
                let fabric = Fabric::new(self.paths.network());
                fabric.remove().map_err(Error::on("remove the network"))?;
                Ok(((), String::new()))
            })
            .await?;
        self.restore_limits()
            .map_err(Error::on("put kernel settings back"))?;
        // The last one out; a second part may be there that is not ours.
        let _ = cgroup::remove_empty();
        drop(lock);
        let _ = fs::remove_file(self.paths.run.join("lock"));
        let _ = fs::remove_dir(&self.paths.run);
        println!("\nDown after {:.1} s.", progress.total().as_secs_f64());
        Ok(())
    }

    /// `down`, and the disks of machines too. What is only there to be quicker stays.
    pub async fn reset(&self) -> Result<(), Error> {
        self.down().await?;
        let what = format!("remove {}", self.paths.state.display());
        match fs::remove_dir_all(&self.paths.state) {
            // A mount point is emptied and stays.
            Err(error)
                if ![io::ErrorKind::NotFound, io::ErrorKind::ResourceBusy]
                    .contains(&error.kind()) =>
            {
                Err(Error::on(what)(error))
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// What a part has said.
    pub fn log_of(&self, part: &str) -> Result<String, Error> {
        if let Some(log) = self.controller_log(part) {
            return log;
        }
        let machine = self.paths.machine(MANAGEMENT);
        let path = match part {
            agent::AGENT | "registry" | "resolver" => self.paths.log(part),
            "containerd" | "kubelet" => machine.join(format!("root/var/log/{part}.log")),
            "console" => machine.join("console.log"),
            other => {
                return Err(Error::Command {
                    what: format!("show the log of {other:?}"),
                    said: "there are: agent, registry, resolver, containerd, kubelet, console, \
                           butler-controller, steward"
                        .to_owned(),
                });
            }
        };
        fs::read_to_string(&path).map_err(Error::on(format!("read {}", path.display())))
    }

    /// One command at a time.
    fn lock(&self) -> Result<fs::File, Error> {
        if !preflight::is_root() {
            return Err(Error::Preflight(vec![preflight::not_root()]));
        }
        let open = || {
            fs::create_dir_all(&self.paths.run)?;
            fs::File::create(self.paths.run.join("lock"))
        };
        let file = open().map_err(Error::on(format!("use {}", self.paths.run.display())))?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(file),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(Error::Busy),
            Err(error) => Err(Error::on("lock the platform")(io::Error::from(error))),
        }
    }

    fn preflight(&self) -> Result<((), String), Error> {
        let held = self
            .paths
            .load()
            .map_err(Error::on("read the platform's settings"))?;
        if let Some(held) = held
            && held != self.settings
        {
            let show = |it: &Settings| serde_json::json!(it).to_string();
            return Err(Error::Different {
                held: show(&held),
                wanted: show(&self.settings),
            });
        }
        let facts = preflight::look(&self.paths);
        let findings = preflight::judge(&facts, &self.settings);
        if !findings.is_empty() {
            return Err(Error::Preflight(findings));
        }
        self.paths
            .store(&self.settings)
            .map_err(Error::on("write the platform's settings"))?;
        self.raise_limits()
            .map_err(Error::on("raise limits of the kernel"))?;
        Ok(((), String::new()))
    }

    fn install(&self, installing: &dyn Installing) -> Result<((), String), Error> {
        let versions = self.versions();
        let kubernetes = versions.iter().map(|it| format!("kubernetes@{it}"));
        let others = [
            "etcd",
            "cluster-api",
            "helm",
            "registry",
            "coredns",
            "containerd",
            "metrics-server",
            "local-path-provisioner",
        ];
        let names = kubernetes.chain(others.map(str::to_owned));
        let names: Result<Vec<_>, _> = names.map(|name| name.parse()).collect();
        let names = names.map_err(Error::on("read a version"))?;
        let installed = self.toolchain.ensure(&Selection::Named(names), installing);
        let installed = installed.map_err(Error::on("install the components"))?;
        // Building leaves ten times what is installed, and nothing of a platform is built any more.
        match self.toolchain.prune() {
            Ok(()) | Err(butler_toolchain::Error::Building) => {}
            Err(error) => return Err(Error::on("make room")(error)),
        }
        Ok(((), format!("{} programs", installed.artifacts.len())))
    }

    /// Every version of Kubernetes that is pinned: tenants may have any of them.
    fn versions(&self) -> Vec<Version> {
        let known = self.toolchain.status();
        let kubelets = known.iter().filter(|it| it.name == "kubelet");
        kubelets.map(|it| it.version).collect()
    }

    fn images(&self) -> Images {
        Images::new(self.paths.cache.join("images"))
    }

    fn make_images(&self) -> Result<((), String), Error> {
        let extras = catalog::Extras {
            butler: self.own.clone(),
            work: self.paths.cache.join("pause"),
        };
        let recipes = catalog::platform(&self.toolchain, &self.versions(), &extras)
            .map_err(Error::on("find what images are made of"))?;
        let made = self
            .images()
            .make(&recipes)
            .map_err(Error::on("make images"))?;
        Ok(((), format!("{} images, {made} made", recipes.len())))
    }

    pub(crate) fn registry(&self) -> Result<Registry, Error> {
        Registry::new(&self.settings.registry(), None).map_err(Error::on("use the registry"))
    }

    pub(crate) async fn start_agent(&self) -> Result<((), String), Error> {
        // Here and not only by the agent: before its routes are there nobody may ask for an address of it.
        self.make_network()?;
        // One that is built anew or removed must not take theirs away.
        let news = copy_program(&self.program, &self.paths.program());
        if news.map_err(Error::on("copy this program"))? {
            agent::end(&self.paths).await?;
        }
        agent::start(&self.paths, &self.paths.program()).map_err(Error::on("start the agent"))?;
        let registry = self.registry()?;
        let what = format!(
            "the registry on the network (log: {})",
            self.paths.log(agent::AGENT).display()
        );
        until(&what, Duration::from_secs(30), async || {
            registry.is_there().await.map_err(|error| chain(&error))
        })
        .await?;
        Ok(((), self.settings.registry()))
    }

    /// Makes the network unless there is one: the agent knows more of it than we do.
    fn make_network(&self) -> Result<(), Error> {
        let fabric = Fabric::new(self.paths.network());
        if !self.has_network()? {
            let wanted = butler_fabric::plan(&agent::world::initial(&self.settings).admit());
            fabric
                .apply(&wanted)
                .map_err(Error::on("make the network"))?;
        }
        Ok(())
    }

    /// Whether addresses of the platform can be asked for without a packet leaving the machine.
    pub(crate) fn has_network(&self) -> Result<bool, Error> {
        let fabric = Fabric::new(self.paths.network());
        let closed = fabric.is_closed(self.settings.layout);
        closed.map_err(Error::on("look at the network"))
    }

    async fn fill(&self) -> Result<((), String), Error> {
        let (mut sent, mut all) = (0, 0);
        let tell = |it: &butler_images::Sent| {
            all += 1;
            sent += usize::from(it.sent);
        };
        mirror(&self.images(), None, &self.registry()?, tell)
            .await
            .map_err(Error::on("fill the registry"))?;
        let charts = self.fill_charts().await?;
        Ok(((), format!("{all} images, {sent} sent, {charts} charts")))
    }

    /// Runs kubectl as the administrator.
    pub(crate) fn kubectl(&self, arguments: &[&str], input: Option<&str>) -> Result<String, Error> {
        let kubectl = self.toolchain.binary("kubectl", None);
        let kubectl = kubectl.map_err(Error::on("find kubectl"))?;
        let what = format!("run kubectl {}", arguments.join(" "));
        let mut command = Command::new(kubectl);
        command
            .arg("--kubeconfig")
            .arg(self.paths.kubeconfig())
            .args(arguments);
        let output = crate::command::run(&mut command, input.unwrap_or_default());
        succeeded(&what, output)
    }

    /// Applies objects, which are ours then.
    pub(crate) fn apply(&self, objects: &str) -> Result<(), Error> {
        let apply = [
            "apply",
            "--server-side",
            "--force-conflicts",
            "--field-manager=butleradm",
            "-f",
            "-",
        ];
        self.kubectl(&apply, Some(objects)).map(drop)
    }

    /// The version of a component, as the image of it is tagged.
    pub(crate) fn pinned(&self, artifact: &str) -> String {
        let known = self.toolchain.status();
        let found = known.iter().find(|it| it.name == artifact);
        found.map_or_else(String::new, |it| it.version.to_string())
    }

    fn end_machines(&self) -> Result<((), String), Error> {
        let machines = self.paths.state.join("machines");
        let mut ended = self.end_workers()?;
        for entry in fs::read_dir(&machines).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            cgroup::end(Some(&name)).map_err(Error::on(format!("end machine {name}")))?;
            ended += 1;
        }
        Ok(((), format!("{ended}")))
    }
}

/// An error with its causes, in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
