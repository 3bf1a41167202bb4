//! Waiting for a cluster, with what is worth telling meanwhile: one moving line on a terminal, plain lines elsewhere.

use std::{
    io::IsTerminal as _,
    time::{Duration, Instant},
};

use butler_api::butler::{TenantCluster, tenant_cluster::TenantClusterStatus};
use futures::StreamExt as _;
use indicatif::{ProgressBar, ProgressStyle};
use jiff::SignedDuration;
use kube::{
    Api,
    runtime::{WatchStreamExt as _, watcher},
};

use super::{
    failure::{Code, Failure},
    news::{News, phase},
};

/// How long a command waits, as people write it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit(Duration);

impl std::str::FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text.parse::<SignedDuration>().ok();
        let positive = parsed.filter(SignedDuration::is_positive);
        let limit = positive.map(|limit| Self(limit.unsigned_abs()));
        limit.ok_or_else(|| "write a time such as 90s, 10m or 1h30m".to_owned())
    }
}

impl std::fmt::Display for Limit {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let duration = SignedDuration::try_from(self.0).unwrap_or(SignedDuration::MAX);
        write!(formatter, "{duration:#}")
    }
}

/// How far a cluster is from what is waited for.
pub(crate) enum Verdict {
    /// It is true.
    Done,
    /// Not yet.
    Waiting,
    /// It will not become true by waiting.
    Hopeless(Failure),
}

/// Waits until `judge` is content with the cluster; absence is a state like any other.
pub(crate) async fn follow(
    api: Api<TenantCluster>,
    name: &str,
    what: &str,
    limit: Limit,
    judge: impl Fn(Option<&TenantCluster>) -> Verdict,
) -> Result<(), Failure> {
    let display = Display::start(what);
    let mut news = News::default();
    let mut last: Option<TenantClusterStatus> = None;
    let mut trouble = None;
    let mut changes = watcher::watch_object(api, name).default_backoff().boxed();
    let waited = tokio::time::timeout(limit.0, async {
        loop {
            let due = news.due().map(|due| display.started + due);
            let change = tokio::select! {
                change = changes.next() => change,
                () = until(due) => {
                    display.tell(news.stood(display.started.elapsed()));
                    continue;
                }
            };
            let Some(change) = change else {
                return Ok(());
            };
            match change {
                Ok(cluster) => {
                    trouble = None;
                    let status = cluster.as_ref().and_then(|cluster| cluster.status.clone());
                    if let Some(status) = status {
                        display.tell(news.see(&status, display.started.elapsed()));
                        last = Some(status);
                    }
                    match judge(cluster.as_ref()) {
                        Verdict::Done => {
                            display.tell(news.end());
                            return Ok(());
                        }
                        Verdict::Waiting => {}
                        Verdict::Hopeless(failure) => return Err(failure),
                    }
                }
                Err(error) => {
                    let failure = watch_failure(what, error);
                    if failure.code == Code::Denied {
                        return Err(failure);
                    }
                    trouble = Some(failure.to_string());
                }
            }
        }
    })
    .await;
    display.end();
    waited.unwrap_or_else(|_| Err(late(what, limit, last.as_ref(), trouble)))
}

/// Waits for a moment, or for ever where there is none.
async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment.into()).await,
        None => std::future::pending().await,
    }
}

fn watch_failure(what: &str, error: watcher::Error) -> Failure {
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => Failure::answer(what, &error),
        watcher::Error::WatchError(status) => Failure::answer(what, &kube::Error::Api(status)),
        watcher::Error::NoResourceVersion => {
            Failure::new(Code::Failed, format!("could not {what}: {error}"))
        }
    }
}

fn late(
    what: &str,
    limit: Limit,
    last: Option<&TenantClusterStatus>,
    trouble: Option<String>,
) -> Failure {
    let detail = match (trouble, last) {
        (Some(trouble), _) => trouble,
        (None, None) => "it has no status yet, is butler-controller running?".to_owned(),
        (None, Some(last)) => {
            let ready = last.conditions.iter().find(|held| held.type_ == "Ready");
            let said = ready.filter(|ready| !ready.message.is_empty());
            let said = said.map_or_else(String::new, |ready| format!(" ({})", ready.message));
            format!("it is {}{said}", phase(last))
        }
    };
    Failure::new(
        Code::TimedOut,
        format!(
            "gave up after {limit} to {what}: {detail}; it goes on, `butlerctl cluster get` shows how far it is"
        ),
    )
}

/// Where progress is shown: standard error, so that a pipe carries answers only.
struct Display {
    started: Instant,
    bar: Option<ProgressBar>,
}

impl Display {
    fn start(what: &str) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{spinner} {elapsed:>4} {wide_msg}");
            let bar = ProgressBar::new_spinner();
            bar.set_style(style.expect("the template is valid"));
            bar.set_message(what.to_owned());
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        });
        Self {
            started: Instant::now(),
            bar,
        }
    }

    fn tell(&self, lines: impl IntoIterator<Item = String>) {
        for line in lines {
            let line = format!("{:>4}s {line}", self.started.elapsed().as_secs());
            match &self.bar {
                None => eprintln!("{line}"),
                Some(bar) => {
                    bar.println(&line);
                    bar.set_message(line);
                }
            }
        }
    }

    fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn status(status: &Value) -> TenantClusterStatus {
        serde_json::from_value(status.clone()).unwrap()
    }

    #[test]
    fn a_limit_is_read_as_people_write_it_and_nothing_else_is() {
        for good in ["90s", "10m", "1h30m"] {
            assert!(good.parse::<Limit>().is_ok(), "{good}");
        }
        for bad in ["", "10", "-5m", "0s", "soon"] {
            assert!(bad.parse::<Limit>().is_err(), "{bad}");
        }
        assert_eq!("90s".parse::<Limit>().unwrap().to_string(), "1m 30s");
    }

    #[test]
    fn who_gives_up_says_what_was_last_seen_and_that_it_goes_on() {
        let last = status(&json!({"phase": "Provisioning"}));
        let limit = "10m".parse().unwrap();
        let failure = late("see a/b ready", limit, Some(&last), None);
        assert_eq!(failure.code, Code::TimedOut);
        let text = failure.to_string();
        assert!(
            text.contains("10m") && text.contains("Provisioning") && text.contains("goes on"),
            "{text}"
        );
        let silent = late("see a/b ready", limit, None, None).to_string();
        assert!(silent.contains("butler-controller"), "{silent}");
    }
}
