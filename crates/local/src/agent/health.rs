//! Asks nodes whether they serve, as every load balancer does: one that is Ready may not have its rules yet, and one
//! that dies is Ready for most of a minute.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    net::{Ipv4Addr, SocketAddrV4},
    time::Duration,
};

use futures::future::join_all;
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpSocket, TcpStream},
    sync::watch,
    time::{sleep, timeout},
};

use super::world::SeenService;

/// Where kube-proxy, and whatever replaces it, says whether its node serves.
const HEALTH: u16 = 10256;
/// Between two questions.
const PERIOD: Duration = Duration::from_secs(1);
/// A node is a millisecond away; a busy host is slower.
const PATIENCE: Duration = Duration::from_secs(1);
/// Silence this often in a row is an answer too. Once may be a kube-proxy that is replaced, whose rules stay.
const SILENCES: u8 = 2;

/// How to find out whether a node serves a Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Check {
    /// The node's machine.
    pub machine: Ipv4Addr,
    /// Where it says whether it serves.
    pub health: u16,
    /// The load balancer, to which a connection by way of the machine must have come through once: a node calls itself
    /// healthy before it has the rules of an address that was given a moment ago.
    pub through: Option<SocketAddrV4>,
}

impl Check {
    /// How to find out whether a machine serves this Service at its address.
    pub(super) fn of(service: &SeenService, address: Ipv4Addr, machine: Ipv4Addr) -> Self {
        Self {
            machine,
            health: service.health_port.unwrap_or(HEALTH),
            through: service.port.map(|port| SocketAddrV4::new(address, port)),
        }
    }
}

/// What a node says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Serves,
    ServesNot,
    Silence,
}

/// What is known of a check that was passed: how often there was no answer since.
type Passed = BTreeMap<Check, u8>;

/// Never ends. What `passed` holds at first is believed until it is asked for. `by` makes a socket whose connections to
/// load balancers go by a machine.
pub(super) async fn keep(
    mut wanted: watch::Receiver<BTreeSet<Check>>,
    passed: watch::Sender<BTreeSet<Check>>,
    by: impl Fn(Ipv4Addr) -> io::Result<TcpSocket>,
) {
    let mut held: Passed = passed.borrow().iter().map(|check| (*check, 0)).collect();
    loop {
        let checks = wanted.borrow_and_update().clone();
        held = round(&checks, &held, &by).await;
        let next: BTreeSet<_> = held.keys().copied().collect();
        passed.send_if_modified(|told| {
            let changed = *told != next;
            if changed {
                tracing::info!(
                    came = ?next.difference(told).collect::<Vec<_>>(),
                    went = ?told.difference(&next).collect::<Vec<_>>(),
                    "other nodes serve"
                );
            }
            *told = next;
            changed
        });
        tokio::select! {
            changed = wanted.changed() => if changed.is_err() { return },
            () = sleep(PERIOD), if !checks.is_empty() => {}
        }
    }
}

/// Asks everybody once.
async fn round(
    checks: &BTreeSet<Check>,
    held: &Passed,
    by: &impl Fn(Ipv4Addr) -> io::Result<TcpSocket>,
) -> Passed {
    let places: BTreeSet<_> = checks.iter().map(|it| (it.machine, it.health)).collect();
    // Not an async closure: the compiler fails over those in here when it goes on from an earlier build.
    let asked = places
        .into_iter()
        .map(|place| async move { (place, ask(place).await) });
    let answers: BTreeMap<_, _> = join_all(asked).await.into_iter().collect();
    let answers = &answers;
    let judged = checks.iter().map(|check| async move {
        let answer = answers.get(&(check.machine, check.health)).copied();
        let answer = answer.unwrap_or(Answer::Silence);
        let before = held.get(check).copied();
        let through = match check.through {
            Some(place) if is_in_doubt(before, answer) => {
                Some(reaches(by(check.machine), place).await)
            }
            Some(_) | None => None,
        };
        Some((*check, judge(before, answer, through)?))
    });
    join_all(judged).await.into_iter().flatten().collect()
}

/// Whether a connection tells more than the answer.
fn is_in_doubt(before: Option<u8>, answer: Answer) -> bool {
    match answer {
        Answer::Serves => before.is_none(),
        // Not everything that serves has somebody to say so.
        Answer::Silence => true,
        Answer::ServesNot => false,
    }
}

/// The silences since a check was last passed, for one that still is. `through` is whether a connection came through,
/// where one was tried.
fn judge(before: Option<u8>, answer: Answer, through: Option<bool>) -> Option<u8> {
    match (before, answer) {
        (Some(_), Answer::Serves) => Some(0),
        (None, Answer::Serves) => through.unwrap_or(true).then_some(0),
        (_, Answer::Silence) if through == Some(true) => Some(0),
        (Some(silences), Answer::Silence) => Some(silences + 1).filter(|it| *it < SILENCES),
        (None, Answer::Silence) | (_, Answer::ServesNot) => None,
    }
}

async fn ask(place: (Ipv4Addr, u16)) -> Answer {
    match timeout(PATIENCE, status(place)).await {
        Ok(Ok(status)) if status == *b"200" => Answer::Serves,
        Ok(Ok(_)) => Answer::ServesNot,
        Ok(Err(_)) | Err(_) => Answer::Silence,
    }
}

/// The code that a node answers with. Nothing else of the answer is of interest.
async fn status(place: (Ipv4Addr, u16)) -> io::Result<[u8; 3]> {
    let mut stream = TcpStream::connect(place).await?;
    stream.write_all(b"GET /healthz HTTP/1.0\r\n\r\n").await?;
    let mut line = [0; 12];
    stream.read_exact(&mut line).await?;
    let [b'H', b'T', b'T', b'P', b'/', b'1', b'.', _, b' ', code @ ..] = line else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    Ok(code)
}

async fn reaches(socket: io::Result<TcpSocket>, place: SocketAddrV4) -> bool {
    match socket {
        Ok(socket) => {
            let connected = timeout(PATIENCE, socket.connect(place.into())).await;
            matches!(connected, Ok(Ok(_)))
        }
        Err(error) => {
            // The router is made anew, and so are the routes that this is about.
            tracing::debug!(%error, "no connection can be tried");
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use butler_runtime::task;
    use tokio::net::TcpListener;

    use super::*;

    const HERE: Ipv4Addr = Ipv4Addr::LOCALHOST;

    /// A node whose answer can be changed; silence while there is none.
    async fn node(answer: watch::Receiver<&'static str>) -> (u16, task::Task) {
        let listener = TcpListener::bind((HERE, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let answering = async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let said = *answer.borrow();
                let _ = stream.write_all(said.as_bytes()).await;
            }
        };
        (port, task::spawn("node", answering))
    }

    /// Here every way leads to the same machine.
    fn by(_machine: Ipv4Addr) -> io::Result<TcpSocket> {
        TcpSocket::new_v4()
    }

    /// A port on which nobody listens.
    async fn closed() -> u16 {
        let listener = TcpListener::bind((HERE, 0)).await.unwrap();
        listener.local_addr().unwrap().port()
    }

    #[tokio::test]
    async fn a_node_serves_once_a_connection_came_through_it_and_then_for_as_long_as_it_says_so() {
        let (says, answer) = watch::channel("HTTP/1.0 200 OK\r\n\r\n");
        let (health, _node) = node(answer).await;
        let through = closed().await;
        let check = Check {
            machine: HERE,
            health,
            through: Some(SocketAddrV4::new(HERE, through)),
        };
        let checks = BTreeSet::from([check]);
        let held = round(&checks, &Passed::new(), &by).await;
        assert_eq!(held, Passed::new(), "it has no rules yet");

        let service = TcpListener::bind((HERE, through)).await.unwrap();
        let held = round(&checks, &held, &by).await;
        assert_eq!(held, Passed::from([(check, 0)]));
        drop(service);
        let held = round(&checks, &held, &by).await;
        assert_eq!(held, Passed::from([(check, 0)]), "pods may come and go");

        says.send_replace("");
        let held = round(&checks, &held, &by).await;
        assert_eq!(held, Passed::from([(check, 1)]), "once may be nothing");
        assert_eq!(round(&checks, &held, &by).await, Passed::new());

        says.send_replace("HTTP/1.0 503 Service Unavailable\r\n\r\n");
        let held = Passed::from([(check, 0)]);
        assert_eq!(
            round(&checks, &held, &by).await,
            Passed::new(),
            "it said so"
        );
    }

    #[tokio::test]
    async fn a_node_that_says_nothing_serves_for_as_long_as_connections_come_through_it() {
        let service = TcpListener::bind((HERE, 0)).await.unwrap();
        let port = service.local_addr().unwrap().port();
        let check = Check {
            machine: HERE,
            health: closed().await,
            through: Some(SocketAddrV4::new(HERE, port)),
        };
        let checks = BTreeSet::from([check]);
        let mut held = Passed::new();
        for _ in 0..3 {
            held = round(&checks, &held, &by).await;
            assert_eq!(held, Passed::from([(check, 0)]));
        }
        drop(service);
        held = round(&checks, &held, &by).await;
        assert_eq!(held, Passed::from([(check, 1)]), "once may be nothing");
        assert_eq!(round(&checks, &held, &by).await, Passed::new());
    }

    #[tokio::test]
    async fn what_nobody_asks_about_any_more_is_forgotten() {
        let (_says, answer) = watch::channel("HTTP/1.0 200 OK\r\n\r\n");
        let (health, _node) = node(answer).await;
        let check = Check {
            machine: HERE,
            health,
            through: None,
        };
        let (asking, wanted) = watch::channel(BTreeSet::from([check]));
        let (passed, mut told) = watch::channel(BTreeSet::new());
        let _keeping = task::spawn("keep", keep(wanted, passed, by));
        told.wait_for(|passed| passed.contains(&check))
            .await
            .unwrap();
        asking.send_replace(BTreeSet::new());
        told.wait_for(BTreeSet::is_empty).await.unwrap();
    }
}
