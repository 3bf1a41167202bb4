//! A plan as text for people: `butlerctl cluster plan` and the tests show the same.

use std::fmt;

use super::Plan;

impl fmt::Display for Plan {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
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
            write!(formatter, "! pool {} {verb} {}", roll.pool, nodes(roll.nodes))?;
            if !roll.because.is_empty() {
                write!(formatter, " ({} changed)", roll.because.join(", "))?;
            }
            writeln!(formatter)?;
        }
        for wait in &self.waits {
            writeln!(formatter, "? {wait}")?;
        }
        let uses = &self.uses;
        write!(formatter, "Uses {}", nodes(uses.nodes))?;
        let amounts = [("CPU", uses.cpu), ("memory", uses.memory), ("disk", uses.disk)];
        for (name, amount) in amounts {
            if let Some(amount) = amount {
                write!(formatter, ", {amount} {name}")?;
            }
        }
        let addresses = [
            ("machine", uses.machine_addresses),
            ("load-balancer", uses.load_balancer_addresses),
            ("API", uses.api_addresses),
        ];
        for (name, count) in addresses {
            if count > 0 {
                let plural = if count == 1 { "" } else { "es" };
                write!(formatter, ", {count} {name} address{plural}")?;
            }
        }
        writeln!(formatter, ".")
    }
}

fn nodes(count: u32) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} node{plural}")
}
