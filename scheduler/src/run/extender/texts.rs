//! Texts of extenders, which go into conditions of pods, events and the log.
//!
//! Owns their bounds. Invariant: no text is longer than [`TEXT_BYTES_MAX`], and an answer has no more than [`REASONS_MAX`]
//! different reasons.

use std::collections::{HashMap, HashSet};

use orch_schema::excerpt::fitting;

/// Bytes of a reason or an error of an extender that are kept.
const TEXT_BYTES_MAX: usize = 256;

/// Different reasons of one answer that are kept: the message about a pod lists them, and a pod is written with it.
const REASONS_MAX: usize = 64;

/// The reason of a node that an extender refused without one.
pub(in crate::run) const REFUSED: &str = "node(s) were refused by an extender";

/// A text of an extender, as far as it is kept.
pub(super) fn cut(text: &str) -> String {
    fitting(text, TEXT_BYTES_MAX).to_owned()
}

/// The reasons for nodes that were `asked` about. Beyond [`REASONS_MAX`] different ones, nodes have none of their own.
pub(super) fn reasons(
    given: Option<HashMap<String, String>>,
    asked: &HashSet<&str>,
) -> HashMap<String, String> {
    let mut known = HashSet::new();
    let mut given: Vec<_> = given.unwrap_or_default().into_iter().collect();
    given.retain(|(node, _)| asked.contains(node.as_str()));
    // The same ones in each plan.
    given.sort_unstable();
    let mut kept = |reason: String| match known.len() < REASONS_MAX || known.contains(&reason) {
        true => {
            known.insert(reason.clone());
            reason
        }
        false => REFUSED.to_owned(),
    };
    given.into_iter().map(|(node, reason)| (node, kept(cut(&reason)))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_of_thousands_of_nodes_are_few_and_short() {
        let names: Vec<String> = (0..5000).map(|number| format!("n{number:04}")).collect();
        let asked: HashSet<&str> = names[..4000].iter().map(String::as_str).collect();
        let long = |name: &String| (name.clone(), format!("{name} {}", "\u{e4}".repeat(10_000)));
        let kept = reasons(Some(names.iter().map(long).collect()), &asked);
        assert_eq!(kept.len(), 4000, "of nodes that it was asked about");
        assert!(kept.values().all(|reason| reason.len() <= TEXT_BYTES_MAX));
        let different: HashSet<&String> = kept.values().collect();
        assert_eq!(different.len(), REASONS_MAX + 1);
        assert!(kept["n0000"].starts_with("n0000 ") && kept["n3999"] == REFUSED);
        let alike =
            reasons(Some(names.iter().map(|name| (name.clone(), "full".to_owned())).collect()), &asked);
        assert!(alike.values().all(|reason| reason == "full"));
    }
}
