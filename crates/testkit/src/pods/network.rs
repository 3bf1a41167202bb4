//! Sockets inside the network namespace of a pod, and connections carried between it and this machine.
//!
//! A socket belongs to the namespace of the thread that made it and keeps it wherever it is used. So one thread
//! walks from namespace to namespace and makes sockets there, and everything else happens in ordinary tasks: a
//! pod has no interface but its own loopback, and no packet of it can leave the machine.

use std::{
    fs::File,
    io,
    net::{Ipv4Addr, SocketAddr},
    os::fd::AsFd as _,
    sync::{Arc, mpsc},
    time::Duration,
};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpSocket, TcpStream},
    sync::oneshot,
    task::JoinSet,
    time::{sleep, timeout},
};

/// Both ends are on this machine: what takes longer is not listening properly.
const PATIENCE: Duration = Duration::from_secs(5);
/// How many connections may wait for us to accept them.
const BACKLOG: u32 = 1024;

struct Order {
    namespace: Arc<File>,
    answer: oneshot::Sender<io::Result<TcpSocket>>,
}

/// The thread that makes sockets in the namespaces of pods; it ends with the last clone.
#[derive(Clone)]
pub(super) struct Doorman {
    orders: mpsc::Sender<Order>,
}

impl Doorman {
    pub(super) fn start() -> io::Result<Self> {
        let (orders, received) = mpsc::channel::<Order>();
        let work = move || {
            for order in received {
                // Nobody waits any more when the pod ended meanwhile.
                let _ = order.answer.send(socket_in(&order.namespace));
            }
        };
        let thread = std::thread::Builder::new().name("pods-doorman".to_owned());
        thread.spawn(work)?;
        Ok(Self { orders })
    }

    async fn socket(&self, namespace: &Arc<File>) -> io::Result<TcpSocket> {
        let (answer, answered) = oneshot::channel();
        let namespace = Arc::clone(namespace);
        let gone = || io::Error::other("the thread that makes sockets in namespaces is gone");
        let order = Order { namespace, answer };
        self.orders.send(order).map_err(|_| gone())?;
        answered.await.map_err(|_| gone())?
    }
}

fn socket_in(namespace: &File) -> io::Result<TcpSocket> {
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
    TcpSocket::new_v4()
}

/// The network of one pod: its own loopback, where it also has its address.
pub(super) struct Network {
    pub(super) address: Ipv4Addr,
    namespace: Arc<File>,
    doorman: Doorman,
}

impl Network {
    pub(super) fn new(address: Ipv4Addr, namespace: File, doorman: Doorman) -> Self {
        Self {
            address,
            namespace: Arc::new(namespace),
            doorman,
        }
    }

    /// Connects to a port of the pod's address, so that what listens on 127.0.0.1 only is not found, as on a
    /// real node.
    pub(super) async fn dial(&self, port: u16) -> io::Result<TcpStream> {
        let socket = self.doorman.socket(&self.namespace).await?;
        let connected = socket.connect(SocketAddr::from((self.address, port)));
        let stream = timeout(PATIENCE, connected).await??;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    /// Listens inside of the pod.
    pub(super) async fn listen(&self, address: SocketAddr) -> io::Result<TcpListener> {
        let socket = self.doorman.socket(&self.namespace).await?;
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    }
}

/// Connects to a port of this machine itself.
pub(super) async fn dial_host(port: u16) -> io::Result<TcpStream> {
    let connected = TcpStream::connect((Ipv4Addr::LOCALHOST, port));
    let stream = timeout(PATIENCE, connected).await??;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Listens on an address of this machine.
pub(super) fn listen_host(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Joins every connection that comes in with one that `dial` makes, for ever; dropped, it ends them all.
pub(super) async fn forward<D, F>(listener: TcpListener, dial: D)
where
    D: Fn() -> F,
    F: Future<Output = io::Result<TcpStream>> + Send + 'static,
{
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((inward, _)) => {
                    connections.spawn(join(inward, dial()));
                }
                // Out of file descriptors, say: some will be free again.
                Err(_) => sleep(Duration::from_millis(50)).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

/// One connection; when nobody answers at the other end it is closed, which the client sees as a reset.
async fn join(mut inward: TcpStream, dial: impl Future<Output = io::Result<TcpStream>>) {
    let _ = inward.set_nodelay(true);
    if let Ok(mut outward) = dial.await {
        let _ = copy_bidirectional(&mut inward, &mut outward).await;
    }
}
