//! Tells what happens and how long it takes: in place on a terminal, a line for each end in a pipe.

use std::{
    io::{IsTerminal as _, Write as _, stdout},
    time::{Duration, Instant},
};

/// How a phase is told about.
#[derive(Debug)]
pub struct Progress {
    terminal: bool,
    start: Instant,
    phases: Vec<(&'static str, Duration)>,
}

impl Default for Progress {
    fn default() -> Self {
        Self {
            terminal: stdout().is_terminal(),
            start: Instant::now(),
            phases: Vec::new(),
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
        let took = begun.elapsed();
        let clear = if self.terminal { "\r\x1b[K" } else { "" };
        let seconds = took.as_secs_f64();
        match result {
            Ok((value, said)) => {
                println!("{clear}  ✓ {name:<22} {seconds:>6.1} s  {said}");
                self.phases.push((name, took));
                Ok(value)
            }
            Err(error) => {
                println!("{clear}  ✗ {name:<22} {seconds:>6.1} s");
                Err(error)
            }
        }
    }

    /// How long everything took.
    pub fn total(&self) -> Duration {
        self.start.elapsed()
    }
}
