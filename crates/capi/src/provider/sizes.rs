//! Machine types of clouds, chosen by what a machine needs.
//!
//! A cloud sells CPU and memory in fixed steps, in families with little, some and much memory to a CPU. The smallest
//! machine that has enough of both is the cheapest that fits; among equals the one with less memory.

/// One family: GiB to a CPU, and how a size is called.
pub(super) struct Family {
    /// GiB of memory for every CPU.
    pub(super) ratio: u64,
    /// What the type with this many CPUs is called.
    pub(super) name: fn(u32) -> String,
    /// The numbers of CPUs there are.
    pub(super) steps: &'static [u32],
}

/// The cheapest type with at least that much; `None` when a machine of that size is not sold.
pub(super) fn fit(families: &[Family], cpu: u32, memory_mib: u64) -> Option<String> {
    let candidates = families.iter().filter_map(|family| {
        let step =
            family.steps.iter().copied().find(|step| {
                *step >= cpu && u64::from(*step) * family.ratio * 1024 >= memory_mib
            })?;
        Some((step, family))
    });
    let best = candidates.min_by_key(|(step, family)| (*step, family.ratio));
    best.map(|(step, family)| (family.name)(step))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAMILIES: [Family; 3] = [
        Family {
            ratio: 2,
            name: |cpu| format!("c{cpu}"),
            steps: &[2, 4, 8],
        },
        Family {
            ratio: 4,
            name: |cpu| format!("m{cpu}"),
            steps: &[2, 4, 8],
        },
        Family {
            ratio: 8,
            name: |cpu| format!("r{cpu}"),
            steps: &[2, 4, 8],
        },
    ];

    #[test]
    fn the_smallest_machine_that_has_enough_of_both_is_taken() {
        let fit = |cpu, gib: u64| fit(&FAMILIES, cpu, gib * 1024);
        assert_eq!(fit(4, 16).as_deref(), Some("m4"));
        assert_eq!(fit(4, 8).as_deref(), Some("c4"));
        assert_eq!(fit(1, 1).as_deref(), Some("c2"));
        assert_eq!(fit(4, 17).as_deref(), Some("r4"));
        assert_eq!(fit(2, 64).as_deref(), Some("r8"));
        assert_eq!(fit(16, 16), None);
    }
}
