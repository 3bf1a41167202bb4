//! What happens to a cluster that works: when it may be disturbed, when it sleeps, how it is upgraded, and how a
//! rollout that stops is taken back. Every decision is a function of what was seen and of the moment.

mod hibernate;
mod removed;
mod rollout;
mod schedule;
mod upgrade;

pub use hibernate::{Doze, doze};
pub use removed::{Calls, RemovedApi, removed_in};
pub use rollout::{Content, Decision, ROLLOUT_DEADLINE, Target, decide as decide_rollout};
pub use schedule::{Cron, CronError, Hibernation, Sleep, Window, next_opening, open_until};
pub use upgrade::{
    Obstacle, SKEW, Upgrade, decide as decide_upgrade, removes_apis as upgrade_removes_apis,
};
