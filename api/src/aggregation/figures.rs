//! The series of `/metrics` that tells which aggregated servers are away.
//!
//! Owns its lines and the bound on its labels. They are written from the stored APIServices when they are asked for, so that each member
//! says the same, whichever of them looks for the servers.

use std::fmt::Write;
use std::sync::Arc;

use super::Remote;

/// Names of APIServices that metrics have as labels; further ones count under [`OTHERS`].
pub(crate) const MEASURED_MAX: usize = 100;

/// The label of APIServices beyond those.
pub(crate) const OTHERS: &str = "others";

const UNAVAILABLE: &str = "aggregator_unavailable_apiservice";

/// Appends the series for `remotes`, which are sorted by name. `head`: the lines before the series of a name and type.
pub(super) fn write(text: &mut String, remotes: &[Arc<Remote>], head: impl Fn(&str, &str) -> String) {
    if remotes.is_empty() {
        return;
    }
    text.push_str(&head(UNAVAILABLE, "gauge"));
    let mut line = |name: &str, is_away: bool| {
        // A string takes every write. Names have no character that labels escape.
        let _ = writeln!(text, "{UNAVAILABLE}{{name=\"{name}\"}} {}", u8::from(is_away));
    };
    let (named, others) = remotes.split_at(remotes.len().min(MEASURED_MAX));
    named.iter().for_each(|remote| line(&remote.name, !remote.is_available));
    if !others.is_empty() {
        line(OTHERS, others.iter().any(|remote| !remote.is_available));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn remote(name: &str, status: &str) -> Arc<Remote> {
        let object = json!({"spec": {"service": {"namespace": "a", "name": "b"}},
            "status": {"conditions": [{"type": "Available", "status": status}]}});
        Arc::new(Remote::of(&name.into(), &serde_json::from_value(object).unwrap()).unwrap())
    }

    fn lines(remotes: &[Arc<Remote>]) -> Vec<String> {
        let mut text = String::new();
        write(&mut text, remotes, |name, kind| format!("# TYPE {name} {kind}\n"));
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn each_apiservice_has_a_line_and_those_beyond_the_bound_have_one_together() {
        assert!(lines(&[]).is_empty());
        let few = [remote("v1.a", "True"), remote("v1.b", "False"), remote("v1.c", "Unknown")];
        let head = format!("# TYPE {UNAVAILABLE} gauge");
        let of = |name: &str, value: u8| format!("{UNAVAILABLE}{{name=\"{name}\"}} {value}");
        assert_eq!(lines(&few), [head, of("v1.a", 0), of("v1.b", 1), of("v1.c", 1)]);
        let mut many: Vec<_> = (0..MEASURED_MAX + 2).map(|at| remote(&format!("v{at}.a"), "True")).collect();
        assert_eq!(lines(&many).len(), 1 + MEASURED_MAX + 1);
        assert_eq!(lines(&many).last(), Some(&of(OTHERS, 0)));
        many.push(remote("v1.z", "False"));
        assert_eq!(lines(&many).last(), Some(&of(OTHERS, 1)));
    }
}
