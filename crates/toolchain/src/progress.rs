//! How an installation tells people what it is doing: on a terminal with moving lines, elsewhere with plain ones.
//!
//! Installers only send events. How often they are shown is decided here.

use std::{
    collections::HashMap,
    io::{IsTerminal, Write},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use indicatif::{HumanBytes, MultiProgress, ProgressBar, ProgressStyle};

/// How often a plain line is written about work that goes on.
const PLAIN_INTERVAL: Duration = Duration::from_secs(10);

/// Something that happened to the artifact called `item`, or is still happening.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// Others have to finish first.
    Waiting {
        /// The artifact or component.
        item: &'a str,
        /// What it waits for.
        reason: &'a str,
    },
    /// Work has begun.
    Started {
        /// The artifact.
        item: &'a str,
        /// What is done, such as "building".
        action: &'a str,
    },
    /// Work goes on; sent at least once a second.
    Moved {
        /// The artifact.
        item: &'a str,
        /// Bytes done and, where known, bytes in all.
        bytes: Option<(u64, Option<u64>)>,
        /// What is at work right now.
        detail: &'a str,
    },
    /// A source could not deliver; another one will be tried.
    FellThrough {
        /// The artifact.
        item: &'a str,
        /// Why.
        reason: &'a str,
    },
    /// It is installed.
    Installed {
        /// The artifact.
        item: &'a str,
        /// Where it came from.
        origin: &'a str,
        /// Its size in bytes.
        size: u64,
    },
    /// It could not be installed.
    Failed {
        /// The artifact.
        item: &'a str,
    },
}

/// Somebody who wants to know how an installation goes.
pub trait Progress: Send + Sync {
    /// Takes note of an event. Must return quickly.
    fn tell(&self, event: &Event<'_>);
}

/// Shows nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quiet;

impl Progress for Quiet {
    fn tell(&self, _event: &Event<'_>) {}
}

/// What suits standard error: moving lines on a terminal, plain lines in a pipe or a file.
pub fn for_stderr() -> Box<dyn Progress> {
    if std::io::stderr().is_terminal() {
        Box::new(Terminal::default())
    } else {
        Box::new(Plain::new(std::io::stderr()))
    }
}

/// One moving line per artifact.
#[derive(Debug, Default)]
pub struct Terminal {
    all: MultiProgress,
    bars: Mutex<HashMap<String, ProgressBar>>,
}

impl Terminal {
    fn bar(&self, item: &str) -> ProgressBar {
        let mut bars = self.bars.lock().unwrap_or_else(PoisonError::into_inner);
        bars.entry(item.to_owned())
            .or_insert_with(|| {
                let bar = self.all.add(ProgressBar::new_spinner());
                let style =
                    ProgressStyle::with_template("{spinner} {prefix:36} {elapsed:>4} {wide_msg}")
                        .expect("the template is valid");
                bar.set_style(style);
                bar.set_prefix(item.to_owned());
                bar.enable_steady_tick(Duration::from_millis(120));
                bar
            })
            .clone()
    }

    fn finish(&self, item: &str, line: Option<String>) {
        let bar = self
            .bars
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(item);
        if let Some(bar) = bar {
            bar.finish_and_clear();
        }
        if let Some(line) = line {
            self.print(line);
        }
    }

    fn print(&self, line: String) {
        // Drawing fails only with the terminal itself, and then there is nobody to tell.
        let _ = self.all.println(line);
    }
}

impl Progress for Terminal {
    fn tell(&self, event: &Event<'_>) {
        match event {
            Event::Waiting { item, reason } => {
                self.bar(item).set_message(format!("waits for {reason}"));
            }
            Event::Started { item, action } => self.bar(item).set_message((*action).to_owned()),
            Event::Moved {
                item,
                bytes,
                detail,
            } => self.bar(item).set_message(moved(*bytes, detail)),
            Event::FellThrough { item, reason } => self.print(format!("  {item}: {reason}")),
            Event::Installed { item, origin, size } => {
                self.finish(
                    item,
                    Some(format!("✓ {item} {} ({origin})", HumanBytes(*size))),
                );
            }
            Event::Failed { item } => self.finish(item, Some(format!("✗ {item}"))),
        }
    }
}

/// Lines of plain text.
#[derive(Debug)]
pub struct Plain<W> {
    state: Mutex<PlainState<W>>,
}

#[derive(Debug)]
struct PlainState<W> {
    out: W,
    /// When the work on an item began, and when its last line was written.
    running: HashMap<String, (Instant, Instant)>,
}

impl<W: Write> Plain<W> {
    /// Lines go to `out`.
    pub fn new(out: W) -> Self {
        Self {
            state: Mutex::new(PlainState {
                out,
                running: HashMap::new(),
            }),
        }
    }
}

impl<W: Write> PlainState<W> {
    fn line(&mut self, text: &str) {
        // A closed pipe must not end an installation that goes well.
        let _ = writeln!(self.out, "toolchain: {text}");
    }

    fn moved(&mut self, item: &str, bytes: Option<(u64, Option<u64>)>, detail: &str, now: Instant) {
        let Some((began, last)) = self.running.get_mut(item) else {
            return;
        };
        if now.duration_since(*last) < PLAIN_INTERVAL {
            return;
        }
        *last = now;
        let seconds = now.duration_since(*began).as_secs();
        let text = format!("{item}: {seconds} s, {}", moved(bytes, detail));
        self.line(&text);
    }
}

impl<W: Write + Send> Progress for Plain<W> {
    fn tell(&self, event: &Event<'_>) {
        let now = Instant::now();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            Event::Waiting { item, reason } => state.line(&format!("{item}: waits for {reason}")),
            Event::Started { item, action } => {
                state.running.insert((*item).to_owned(), (now, now));
                state.line(&format!("{item}: {action}"));
            }
            Event::Moved {
                item,
                bytes,
                detail,
            } => state.moved(item, *bytes, detail, now),
            Event::FellThrough { item, reason } => state.line(&format!("{item}: {reason}")),
            Event::Installed { item, origin, size } => {
                let took = state
                    .running
                    .remove(*item)
                    .map_or(0, |(began, _)| now.duration_since(began).as_secs());
                let size = HumanBytes(*size);
                state.line(&format!(
                    "{item}: installed, {size}, from {origin}, {took} s"
                ));
            }
            Event::Failed { item } => {
                state.running.remove(*item);
                state.line(&format!("{item}: failed"));
            }
        }
    }
}

fn moved(bytes: Option<(u64, Option<u64>)>, detail: &str) -> String {
    match bytes {
        Some((done, Some(all))) => format!("{} of {} {detail}", HumanBytes(done), HumanBytes(all)),
        Some((done, None)) => format!("{} {detail}", HumanBytes(done)),
        None => detail.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(events: &[Event<'_>]) -> String {
        let plain = Plain::new(Vec::new());
        for event in events {
            plain.tell(event);
        }
        String::from_utf8(plain.state.into_inner().unwrap().out).unwrap()
    }

    #[test]
    fn a_pipe_gets_one_line_at_the_start_and_one_at_the_end() {
        let item = "etcd@v3.6.16";
        let text = shown(&[
            Event::Started {
                item,
                action: "building",
            },
            Event::Moved {
                item,
                bytes: None,
                detail: "net/http",
            },
            Event::Installed {
                item,
                origin: "go build",
                size: 2048,
            },
        ]);
        assert_eq!(
            text,
            "toolchain: etcd@v3.6.16: building\n\
             toolchain: etcd@v3.6.16: installed, 2.00 KiB, from go build, 0 s\n"
        );
    }

    #[test]
    fn long_work_gets_a_line_every_ten_seconds() {
        let mut state = PlainState {
            out: Vec::new(),
            running: HashMap::new(),
        };
        let start = Instant::now();
        state.running.insert("etcd".into(), (start, start));
        for second in 0..=25 {
            let now = start + Duration::from_secs(second);
            state.moved("etcd", Some((1024, Some(4096))), "of the archive", now);
        }
        let text = String::from_utf8(state.out).unwrap();
        assert_eq!(text.lines().count(), 2, "{text}");
        assert!(text.contains("etcd: 20 s, 1.00 KiB of 4.00 KiB"), "{text}");
    }
}
