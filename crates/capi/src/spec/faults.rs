//! What is wrong with a spec: every fault with its field and the rule it breaks.

use std::{error::Error, fmt};

/// One fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The field, such as `spec.workerPools[gpu].machineTemplate.cpu`.
    pub field: String,
    /// What is wrong, and what would be right.
    pub rule: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.field, self.rule)
    }
}

/// All faults so far.
#[derive(Debug, Default)]
pub struct Faults(Vec<Fault>);

impl Faults {
    /// Adds one.
    pub fn add(&mut self, field: impl Into<String>, rule: impl Into<String>) {
        self.0.push(Fault {
            field: field.into(),
            rule: rule.into(),
        });
    }

    /// The value, or a fault that says why there is none.
    pub fn parse<T, E: Error>(
        &mut self,
        field: impl Into<String>,
        value: Result<T, E>,
    ) -> Option<T> {
        match value {
            Ok(value) => Some(value),
            Err(error) => {
                self.add(field, error.to_string());
                None
            }
        }
    }

    /// The value, or a fault.
    pub fn need<T>(
        &mut self,
        field: impl Into<String>,
        value: Option<T>,
        rule: impl Into<String>,
    ) -> Option<T> {
        if value.is_none() {
            self.add(field, rule);
        }
        value
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them.
    pub fn into_vec(self) -> Vec<Fault> {
        self.0
    }
}
