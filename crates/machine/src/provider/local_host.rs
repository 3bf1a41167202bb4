//! The machines of this host, and what they tell of themselves.

use std::{
    collections::HashMap,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use butler_runtime::task::{self, Task};
use futures::{StreamExt as _, future, stream, stream::BoxStream};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Interest, unix::AsyncFd},
    net::{UnixDatagram, UnixStream},
    sync::broadcast,
    task::spawn_blocking,
};

use super::{Host, Trouble};
use crate::{
    bootstrap::Plan,
    runtime::{MachineId, MachineSpec, Machines, Observed, protocol::Request},
};

/// News that a slow reader may be behind with; one that is further behind looks at everything it is told afterwards.
const REMEMBERED: usize = 1024;

/// The machines of this host.
pub struct LocalHost {
    machines: Machines,
    news: broadcast::Sender<MachineId>,
    /// Machines that are followed, each with the process that it was found with.
    watched: Mutex<HashMap<MachineId, (u32, Task)>>,
    /// What others do to machines.
    _hearing: Task,
}

impl LocalHost {
    /// The machines below a folder of this host. One at a time may look after them.
    pub fn new(machines: Machines) -> std::io::Result<Arc<Self>> {
        let news = broadcast::Sender::new(REMEMBERED);
        let hearing = task::spawn(
            "news of machines",
            hear(hearing(&machines.news())?, news.clone()),
        );
        Ok(Arc::new(Self {
            machines,
            news,
            watched: Mutex::default(),
            _hearing: hearing,
        }))
    }

    /// Does something that may take a moment away from the threads that must not wait.
    async fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Machines) -> Result<T, crate::runtime::Error> + Send + 'static,
    ) -> Result<T, Trouble> {
        let machines = self.machines.clone();
        Ok(spawn_blocking(move || work(&machines)).await??)
    }

    fn watch(&self, id: &MachineId, pid: u32) {
        let mut watched = self.watched();
        if watched.get(id).is_some_and(|(held, _)| *held == pid) {
            return;
        }
        let Some((socket, process)) = self.machines.follow(id) else {
            return;
        };
        let (id, news) = (id.clone(), self.news.clone());
        let following = follow(socket, process, id.clone(), news);
        let task = task::spawn("follow machine", following);
        watched.insert(id, (pid, task));
    }

    fn watched(&self) -> MutexGuard<'_, HashMap<MachineId, (u32, Task)>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The socket where others say that they did something to a machine.
fn hearing(path: &Path) -> std::io::Result<UnixDatagram> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    // It is left by whoever looked after the machines before.
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    UnixDatagram::bind(path)
}

async fn hear(socket: UnixDatagram, news: broadcast::Sender<MachineId>) {
    let mut message = [0; 256];
    while let Ok(length) = socket.recv(&mut message).await {
        let text = message
            .get(..length)
            .and_then(|text| std::str::from_utf8(text).ok());
        if let Some(id) = text.and_then(|text| text.parse().ok()) {
            let _ = news.send(id);
        }
    }
}

/// Passes on what a first process tells, and its end.
async fn follow(
    socket: PathBuf,
    process: OwnedFd,
    id: MachineId,
    news: broadcast::Sender<MachineId>,
) {
    let told = async {
        if let Err(error) = listen(&socket, &id, &news).await {
            tracing::debug!(machine = %id, %error, "a machine's first process does not answer");
        }
        // The connection ends before the process does, which would still be found.
        future::pending::<()>().await;
    };
    let ended = async {
        if let Err(error) = end_of(process).await {
            tracing::warn!(machine = %id, %error, "cannot wait for a machine's end");
        }
    };
    tokio::select! {
        () = told => {}
        () = ended => {}
    }
    // Nobody listens when the provider is ending.
    let _ = news.send(id.clone());
}

#[expect(
    deprecated,
    reason = "it is unsound for descriptors that others close, and this one is owned; the other function needs unsafe code"
)]
async fn end_of(process: OwnedFd) -> std::io::Result<()> {
    let process = AsyncFd::with_interest(process, Interest::READABLE)?;
    process.readable().await?.retain_ready();
    Ok(())
}

/// Passes on what a first process tells, until its connection ends.
async fn listen(
    socket: &Path,
    id: &MachineId,
    news: &broadcast::Sender<MachineId>,
) -> std::io::Result<()> {
    let mut stream = UnixStream::connect(socket).await?;
    let mut request = serde_json::to_vec(&Request::Watch)?;
    request.push(b'\n');
    stream.write_all(&request).await?;
    let mut lines = BufReader::new(stream).lines();
    // Also the first line: it may say more than what was just observed.
    while lines.next_line().await?.is_some() {
        let _ = news.send(id.clone());
    }
    Ok(())
}

#[async_trait]
impl Host for LocalHost {
    async fn start(&self, spec: MachineSpec, plan: Plan) -> Result<(), Trouble> {
        self.work(move |machines| machines.start(&spec, &plan))
            .await
    }

    async fn observe(&self, id: &MachineId) -> Result<Observed, Trouble> {
        let wanted = id.clone();
        let observed = self.work(move |machines| machines.observe(&wanted)).await?;
        match observed.pid {
            None => {
                self.watched().remove(id);
                Ok(observed)
            }
            Some(pid) => {
                self.watch(id, pid);
                Ok(observed)
            }
        }
    }

    async fn remove(&self, id: &MachineId) -> Result<(), Trouble> {
        self.watched().remove(id);
        let wanted = id.clone();
        self.work(move |machines| machines.remove(&wanted)).await
    }

    fn changes(&self) -> BoxStream<'static, MachineId> {
        let news = self.news.subscribe();
        stream::unfold(news, |mut news| async move {
            loop {
                match news.recv().await {
                    Ok(id) => return Some((id, news)),
                    Err(broadcast::error::RecvError::Lagged(_)) => {}
                    Err(broadcast::error::RecvError::Closed) => return None,
                }
            }
        })
        .boxed()
    }
}
