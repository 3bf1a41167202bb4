//! Tells what happens and how long it takes: in place on a terminal, a line for each end in a pipe.

use std::{
    io::{IsTerminal as _, Write as _, stdout},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

/// A phase that runs beside others: its name, and what says how it went.
pub(crate) type Work<'a, E> = (&'static str, &'a (dyn Fn() -> Result<String, E> + Sync));

/// How a phase is told about.
#[derive(Debug)]
pub struct Progress {
    terminal: bool,
    start: Instant,
}

impl Default for Progress {
    fn default() -> Self {
        Self {
            terminal: stdout().is_terminal(),
            start: Instant::now(),
        }
    }
}

impl Progress {
    /// Runs a phase. Its result is what there is to say about it.
    pub async fn phase<T, E>(
        &mut self,
        name: &'static str,
        work: impl Future<Output = Result<(T, String), E>>,
    ) -> Result<T, E> {
        if self.terminal {
            print!("  … {name}");
            let _ = stdout().flush();
        }
        let begun = Instant::now();
        let result = work.await;
        self.tell(name, begun.elapsed(), result)
    }

    fn tell<T, E>(
        &self,
        name: &'static str,
        took: Duration,
        result: Result<(T, String), E>,
    ) -> Result<T, E> {
        let clear = if self.terminal { "\r\x1b[K" } else { "" };
        let seconds = took.as_secs_f64();
        match result {
            Ok((value, said)) => {
                println!("{clear}  ✓ {name:<22} {seconds:>6.1} s  {said}");
                Ok(value)
            }
            Err(error) => {
                println!("{clear}  ✗ {name:<22} {seconds:>6.1} s");
                Err(error)
            }
        }
    }

    /// Runs several at once and tells of each when it ends. The first failure is the answer, once all have ended.
    pub(crate) fn together<const N: usize, E: Send>(
        &mut self,
        works: [Work<'_, E>; N],
    ) -> Result<(), E> {
        if self.terminal {
            print!("  … {}", works.map(|(name, _)| name).join(", "));
            let _ = stdout().flush();
        }
        let begun = Instant::now();
        let (sender, ended) = mpsc::channel();
        let mut failure = None;
        thread::scope(|scope| {
            for (name, work) in works {
                let sender = sender.clone();
                // Whoever listens ends after us.
                scope.spawn(move || drop(sender.send((name, work()))));
            }
            drop(sender);
            for (name, result) in ended {
                let result = result.map(|said| ((), said));
                let told = self.tell(name, begun.elapsed(), result);
                failure = failure.take().or_else(|| told.err());
            }
        });
        failure.map_or(Ok(()), Err)
    }

    /// How long everything took.
    pub fn total(&self) -> Duration {
        self.start.elapsed()
    }
}
