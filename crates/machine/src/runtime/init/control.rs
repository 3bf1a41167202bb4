//! The socket of the first process.

use std::{
    convert::Infallible,
    io::{self, BufRead as _, BufReader, Write as _},
    os::unix::net::{UnixListener, UnixStream},
    sync::{Arc, Condvar, Mutex, PoisonError},
    thread,
};

use serde::Serialize;

use super::{
    super::{
        Error,
        protocol::{Progress, Request},
    },
    services::Services,
};

/// How the bootstrap data fares, and whoever waits for news.
pub(super) struct Board {
    progress: Mutex<Progress>,
    changed: Condvar,
}

impl Board {
    pub(super) fn new(progress: Progress) -> Arc<Self> {
        Arc::new(Self {
            progress: Mutex::new(progress),
            changed: Condvar::new(),
        })
    }

    pub(super) fn set(&self, next: Progress) {
        *self.progress.lock().unwrap_or_else(PoisonError::into_inner) = next;
        self.changed.notify_all();
    }

    /// What is there now, or the next news after `known`.
    fn after(&self, known: Option<&Progress>) -> Progress {
        let progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        let old = |progress: &mut Progress| Some(&*progress) == known;
        let waited = self.changed.wait_while(progress, old);
        waited.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Answers for ever.
pub(super) fn serve(
    listener: &UnixListener,
    services: &Arc<Services>,
    board: &Arc<Board>,
) -> Result<Infallible, Error> {
    loop {
        let (stream, _) = listener
            .accept()
            .map_err(Error::kernel("accept a connection"))?;
        let (services, board) = (Arc::clone(services), Arc::clone(board));
        thread::spawn(move || {
            // Whoever asked has gone: there is nobody to tell.
            let _ = answer(&stream, &services, &board);
        });
    }
}

fn answer(stream: &UnixStream, services: &Services, board: &Board) -> io::Result<()> {
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    match serde_json::from_str(&line)? {
        Request::Service { verb, unit } => say(stream, &services.order(verb, &unit)),
        Request::Watch => {
            let mut known = None;
            loop {
                let next = board.after(known.as_ref());
                say(stream, &next)?;
                known = Some(next);
            }
        }
    }
}

fn say(mut stream: &UnixStream, value: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_string(value)?;
    line.push('\n');
    stream.write_all(line.as_bytes())
}
