//! Keeps the network as the records say: when they change, and when somebody else changes the network.

use std::{
    fs::OpenOptions,
    io,
    os::{fd::OwnedFd, unix::fs::OpenOptionsExt as _},
    time::Duration,
};

use futures::future::select_all;
use rustix::{
    fs::OFlags,
    net::{
        AddressFamily, Protocol, SocketFlags, SocketType, bind,
        netlink::{NETFILTER, SocketAddrNetlink},
        socket_with,
    },
};
use tokio::{io::Interest, net::UnixDatagram, sync::watch, time::sleep};
use tokio_util::sync::CancellationToken;

use crate::{
    diff::Step,
    fabric::{Error, Fabric},
    plan::plan,
    records::{Records, Refusal},
    state::Space,
};

/// A change comes with others; they are answered together.
const QUIET: Duration = Duration::from_millis(20);
/// After a failure.
const PAUSE: Duration = Duration::from_secs(1);
/// What is listened to: links, addresses, routes and rules of IPv4 (the protocol without a number); packet filters.
const NEWS: [(Option<Protocol>, u32); 2] =
    [(None, 0x1 | 0x10 | 0x40 | 0x80), (Some(NETFILTER), 0x40)];

/// Applies records until it is stopped.
#[derive(Debug)]
pub struct Keeper {
    fabric: Fabric,
    records: watch::Receiver<Records>,
    applied: watch::Sender<Option<Records>>,
    routers: watch::Sender<u64>,
    refusals: Vec<Refusal>,
}

impl Keeper {
    /// A keeper of the newest records.
    pub fn new(fabric: Fabric, records: watch::Receiver<Records>) -> Self {
        Self {
            fabric,
            records,
            applied: watch::Sender::new(None),
            routers: watch::Sender::new(0),
            refusals: Vec::new(),
        }
    }

    /// The records that the network was last made from, for whoever waits until a machine is connected.
    pub fn applied(&self) -> watch::Receiver<Option<Records>> {
        self.applied.subscribe()
    }

    /// How many routers were made: whoever runs something in one has to start it again in the next.
    pub fn routers(&self) -> watch::Receiver<u64> {
        self.routers.subscribe()
    }

    /// Applies, then waits for the next change; ends when stopped or when nobody can send records any more.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut alarm = Alarm::open(&self.fabric);
        loop {
            let applied = self.apply().await;
            if let Err(error) = &applied {
                let error: &dyn std::error::Error = error;
                tracing::warn!(error, "the network could not be put in order; trying again");
            }
            let made = Step::MakeSpace(Space::Router);
            if applied.as_ref().is_ok_and(|steps| steps.contains(&made)) {
                // Whoever listened in an earlier router hears nothing of this one. Listen, then look again.
                alarm = Alarm::open(&self.fabric);
                self.routers.send_modify(|made| *made += 1);
                continue;
            }
            tokio::select! {
                () = stop.cancelled() => return,
                changed = self.records.changed() => if changed.is_err() { return },
                () = sleep(PAUSE), if applied.is_err() => {}
                () = alarm.rings() => {}
            }
            sleep(QUIET).await;
            alarm.hush();
        }
    }

    async fn apply(&mut self) -> Result<Vec<Step>, Error> {
        let records = self.records.borrow_and_update().clone();
        let admitted = records.clone().admit();
        if admitted.refusals != self.refusals {
            for refusal in &admitted.refusals {
                tracing::warn!(%refusal, "left out of the network");
            }
            self.refusals.clone_from(&admitted.refusals);
        }
        let wanted = plan(&admitted);
        let fabric = self.fabric.clone();
        let work = move || fabric.apply(&wanted);
        let steps = match tokio::task::spawn_blocking(work).await {
            Ok(steps) => steps?,
            Err(panic) => std::panic::resume_unwind(panic.into_panic()),
        };
        if !steps.is_empty() {
            tracing::info!(steps = steps.len(), first = ?steps.first(), "the network was changed");
        }
        self.applied.send_if_modified(|held| {
            let news = held.as_ref() != Some(&records);
            *held = Some(records);
            news
        });
        Ok(steps)
    }
}

/// Listens to the kernel's news about the host's and the router's network, and about mounts: a namespace is kept by one.
///
/// What the news is does not matter: whoever hears of any looks at everything. Our own changes ring too, and the look
/// that follows finds nothing to do.
struct Alarm {
    sockets: Vec<UnixDatagram>,
    mounts: Option<UnixDatagram>,
}

impl Alarm {
    fn open(fabric: &Fabric) -> Self {
        let spaces = [Space::Host, Space::Router];
        let opened = spaces.iter().flat_map(|space| {
            let listen = || Ok(NEWS.map(|(about, groups)| listen(about, groups)));
            // The router is not there at first; it is listened to when it was made.
            fabric.inside(space, listen).into_iter().flatten()
        });
        let sockets = opened.filter_map(|socket| {
            // Of a socket nothing is used but whether there is something to read, and that is the same for all.
            UnixDatagram::from_std(socket.ok()?.into()).ok()
        });
        Self {
            sockets: sockets.collect(),
            mounts: mounts().ok(),
        }
    }

    async fn rings(&self) {
        tokio::select! {
            () = self.network() => {}
            () = self.mounts() => {}
        }
    }

    async fn mounts(&self) {
        let changed = match &self.mounts {
            Some(table) => table.readable().await.is_ok(),
            None => false,
        };
        if !changed {
            std::future::pending::<()>().await;
        }
    }

    async fn network(&self) {
        let ready = self.sockets.iter();
        let ready: Vec<_> = ready.map(|socket| Box::pin(socket.readable())).collect();
        if ready.is_empty() {
            std::future::pending::<()>().await;
        }
        // Whether one could be waited for or not: look.
        let _ = select_all(ready).await;
    }

    /// Forgets what rang until now, because everything is about to be looked at.
    fn hush(&self) {
        if let Some(table) = &self.mounts {
            let nothing = || Err::<(), _>(io::ErrorKind::WouldBlock.into());
            let _ = table.try_io(Interest::READABLE, nothing);
        }
        let mut news = [0_u8; 1 << 12];
        for socket in &self.sockets {
            // More than the kernel keeps for us is an error once, and news too. What is left rings again.
            for _ in 0..4096 {
                let heard = socket.try_recv(&mut news);
                if heard.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
                    break;
                }
            }
        }
    }
}

/// The table of mounts. It is ready at first, and again whenever it has changed since somebody said that it was not.
fn mounts() -> io::Result<UnixDatagram> {
    let mut options = OpenOptions::new();
    options
        .read(true)
        .custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    let table = options.open("/proc/self/mountinfo")?;
    UnixDatagram::from_std(OwnedFd::from(table).into())
}

fn listen(about: Option<Protocol>, groups: u32) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, about)?;
    bind(&socket, &SocketAddrNetlink::new(0, groups))?;
    Ok(socket)
}
