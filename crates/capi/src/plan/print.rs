//! A plan as text for people: `butlerctl cluster plan` and the tests show the same.

use std::fmt;

use serde::{Serializer, ser::SerializeSeq as _};
use serde_json::{Value, json};

use super::{Plan, Uses};
use crate::object::Object;

/// Writes objects with every value of a Secret replaced: a plan is shown to people, and kept in files.
pub(super) fn without_secrets<S: Serializer>(
    objects: &[Object],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut list = serializer.serialize_seq(Some(objects.len()))?;
    for object in objects {
        let mut value = object.to_value();
        if let (Object::Secret(_), Some(Value::Object(data))) = (object, value.get_mut("data")) {
            data.values_mut()
                .for_each(|value| *value = json!("(hidden)"));
        }
        list.serialize_element(&value)?;
    }
    list.end()
}

impl fmt::Display for Plan {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "{}{}", self.actions(), self.uses)
    }
}

impl Plan {
    /// What is done and waited for, without what the cluster takes.
    pub fn actions(&self) -> impl fmt::Display + '_ {
        fmt::from_fn(|formatter| self.write_actions(formatter))
    }

    fn write_actions(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.changes.is_empty() && self.rolls.is_empty() && self.waits.is_empty() {
            writeln!(formatter, "Nothing to do.")?;
        }
        let lists = [
            ("+", &self.changes.create),
            ("~", &self.changes.change),
            ("-", &self.changes.delete),
        ];
        for (sign, ids) in lists {
            for id in ids {
                writeln!(formatter, "{sign} {id}")?;
            }
        }
        for roll in &self.rolls {
            let verb = if roll.back { "takes back" } else { "replaces" };
            write!(
                formatter,
                "! pool {} {verb} {}",
                roll.pool,
                nodes(roll.nodes)
            )?;
            if !roll.because.is_empty() {
                write!(formatter, " ({} changed)", roll.because.join(", "))?;
            }
            writeln!(formatter)?;
        }
        for wait in &self.waits {
            writeln!(formatter, "? {wait}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Uses {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Uses {}", nodes(self.nodes))?;
        let amounts = [
            ("CPU", self.cpu),
            ("memory", self.memory),
            ("disk", self.disk),
        ];
        for (name, amount) in amounts {
            if let Some(amount) = amount {
                write!(formatter, ", {amount} {name}")?;
            }
        }
        let addresses = [
            ("machine", self.machine_addresses),
            ("load-balancer", self.load_balancer_addresses),
            ("API", self.api_addresses),
        ];
        for (name, count) in addresses {
            if count > 0 {
                let plural = if count == 1 { "" } else { "es" };
                write!(formatter, ", {count} {name} address{plural}")?;
            }
        }
        formatter.write_str(".")
    }
}

fn nodes(count: u32) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} node{plural}")
}
