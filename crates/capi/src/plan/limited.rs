//! What limits mean for a plan: nothing at all is made, or less than was asked for.

use butler_api::butler::tenant_cluster::Phase;

use super::{Changes, Finding, Numbers, Plan, Truth, uses};
use crate::{quota::Excess, reason::Reason, spec::TenantSpec};

const KIND: &str = "QuotaSatisfied";

/// The plan of a cluster that may not be made.
pub(super) fn refused(spec: &TenantSpec, excess: &Excess) -> Plan {
    let finding = |kind| Finding {
        kind,
        status: Truth::False,
        reason: excess.reason,
        message: excess.message.clone(),
    };
    Plan {
        objects: Vec::new(),
        changes: Changes::default(),
        inside: Vec::new(),
        resume: None,
        rolls: Vec::new(),
        waits: vec![excess.message.clone()],
        uses: uses::of(spec),
        phase: Phase::Pending,
        findings: vec![finding(KIND), finding("Ready")],
        numbers: Numbers::default(),
        deletion: None,
        wake: None,
    }
}

/// Whether a cluster that is made has all it asks for. Nothing in it changes with other clusters while it has.
pub(super) fn finding(against: &[Excess]) -> Finding {
    match against.first() {
        None => Finding {
            kind: KIND,
            status: Truth::True,
            reason: Reason::WithinQuota,
            message: "the cluster may have what it asks for".to_owned(),
        },
        Some(excess) => Finding {
            kind: KIND,
            status: Truth::False,
            reason: excess.reason,
            message: format!("the cluster stays as it is: {}", excess.message),
        },
    }
}
