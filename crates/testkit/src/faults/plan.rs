//! What goes wrong, and at which request.

use std::{fmt, time::Duration};

use super::Sent;

/// How an API server refuses a request that it did not carry out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The connection fails.
    Connection,
    /// 500 Internal Server Error.
    Internal,
    /// 409 Conflict.
    Conflict,
    /// 429 Too Many Requests.
    TooMany,
}

/// One thing that goes wrong with one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is not sent; the client sees a failure.
    Refuse(Refusal),
    /// It is sent and carried out; the client sees the connection break.
    LoseAnswer,
    /// It is sent later.
    Delay(Duration),
    /// It is sent twice; the client sees the second answer, as after a retry on the way.
    Duplicate,
    /// It is answered; from then on, for this long, the client sees the world as it was before: reads are
    /// answered from the past and events of watches are held back. As behind a cache that lags.
    Stale(Duration),
    /// The controller ends before it is sent.
    CrashBefore,
    /// It is sent and carried out; the controller ends before it has the answer.
    CrashAfter,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refuse(Refusal::Connection) => f.write_str("connection refused"),
            Self::Refuse(Refusal::Internal) => f.write_str("answered 500"),
            Self::Refuse(Refusal::Conflict) => f.write_str("answered 409"),
            Self::Refuse(Refusal::TooMany) => f.write_str("answered 429"),
            Self::LoseAnswer => f.write_str("answer lost"),
            Self::Delay(duration) => write!(f, "delayed by {duration:?}"),
            Self::Duplicate => f.write_str("sent twice"),
            Self::Stale(duration) => write!(f, "not seen for {duration:?}"),
            Self::CrashBefore => f.write_str("crash before it"),
            Self::CrashAfter => f.write_str("crash after it"),
        }
    }
}

type Predicate = Box<dyn Fn(&Sent) -> bool + Send + Sync>;

/// Which requests go wrong, and how.
///
/// ```
/// use butler_testkit::faults::{Fault, Plan};
/// let plan = Plan::at_write(2, Fault::LoseAnswer)
///     .and_at(1, |sent| sent.is_about("secrets"), Fault::CrashBefore);
/// # drop(plan);
/// ```
#[derive(Default)]
pub struct Plan {
    rules: Vec<Rule>,
}

struct Rule {
    matches: Predicate,
    nth: usize,
    seen: usize,
    fault: Fault,
}

impl Plan {
    /// Nothing goes wrong; requests are only counted.
    pub fn none() -> Self {
        Self::default()
    }

    /// At the k-th request, from 1.
    pub fn at_request(k: usize, fault: Fault) -> Self {
        Self::none().and_at(k, |_| true, fault)
    }

    /// At the k-th write, from 1.
    pub fn at_write(k: usize, fault: Fault) -> Self {
        Self::none().and_at(k, Sent::is_write, fault)
    }

    /// Also at the k-th request that matches, from 1. The first rule that fits a request decides.
    #[must_use]
    pub fn and_at(
        mut self,
        k: usize,
        matches: impl Fn(&Sent) -> bool + Send + Sync + 'static,
        fault: Fault,
    ) -> Self {
        self.rules.push(Rule {
            matches: Box::new(matches),
            nth: k,
            seen: 0,
            fault,
        });
        self
    }

    /// What goes wrong with this request; every request must be shown exactly once.
    pub(super) fn fault_for(&mut self, sent: &Sent) -> Option<Fault> {
        let mut fault = None;
        for rule in &mut self.rules {
            if (rule.matches)(sent) {
                rule.seen += 1;
                if rule.seen == rule.nth {
                    fault = fault.or(Some(rule.fault));
                }
            }
        }
        fault
    }
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rules = self.rules.iter().map(|rule| (rule.nth, rule.fault));
        f.debug_map().entries(rules).finish()
    }
}
