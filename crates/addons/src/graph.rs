//! Who waits for whom: dependencies between addons, and circles among them.

use std::collections::{BTreeMap, BTreeSet};

/// Names, and the names each of them waits for.
pub type Graph = BTreeMap<String, BTreeSet<String>>;

/// The circle that `start` is part of, as the names along it, beginning and ending with `start`.
///
/// Whoever only waits for a circle is not part of it: it simply waits.
pub fn circle(graph: &Graph, start: &str) -> Option<Vec<String>> {
    let mut came_from: BTreeMap<&str, &str> = BTreeMap::new();
    let mut frontier = vec![start];
    while let Some(name) = frontier.pop() {
        for next in graph.get(name).into_iter().flatten() {
            if next == start {
                return Some(way(&came_from, start, name));
            }
            if !came_from.contains_key(next.as_str()) {
                came_from.insert(next, name);
                frontier.push(next);
            }
        }
    }
    None
}

fn way(came_from: &BTreeMap<&str, &str>, start: &str, end: &str) -> Vec<String> {
    let mut names = vec![start.to_owned()];
    let mut name = end;
    while name != start {
        names.push(name.to_owned());
        name = came_from.get(name).copied().unwrap_or(start);
    }
    names.push(start.to_owned());
    names.reverse();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(arrows: &[(&str, &[&str])]) -> Graph {
        let arrows = arrows.iter().map(|(name, needs)| {
            let needs = needs.iter().map(|need| (*need).to_owned()).collect();
            ((*name).to_owned(), needs)
        });
        arrows.collect()
    }

    #[test]
    fn a_circle_is_named_in_its_order() {
        let graph = graph(&[("a", &["b", "x"]), ("b", &["c"]), ("c", &["a"]), ("x", &[])]);
        assert_eq!(circle(&graph, "a").unwrap(), ["a", "b", "c", "a"]);
        assert_eq!(circle(&graph, "c").unwrap(), ["c", "a", "b", "c"]);
        assert_eq!(circle(&graph, "x"), None);
    }

    #[test]
    fn waiting_for_a_circle_is_not_being_in_it() {
        let graph = graph(&[("a", &["b"]), ("b", &["c"]), ("c", &["b"])]);
        assert_eq!(circle(&graph, "a"), None);
        assert_eq!(circle(&graph, "b").unwrap(), ["b", "c", "b"]);
    }

    #[test]
    fn a_diamond_is_no_circle() {
        let graph = graph(&[("a", &["b", "c"]), ("b", &["d"]), ("c", &["d"])]);
        assert_eq!(circle(&graph, "a"), None);
    }
}
