//! The configuration of `PodTolerationRestriction`.

use orch_api::admission::{Toleration, TolerationLists};
use serde::Deserialize;

use super::super::faults::Faults;

/// The document of the plugin, as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct FileTolerations {
    #[expect(dead_code, reason = "checked by the reader")]
    api_version: String,
    #[expect(dead_code, reason = "checked by the reader")]
    kind: String,
    #[serde(default)]
    default: Vec<FileToleration>,
    #[serde(default)]
    whitelist: Vec<FileToleration>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct FileToleration {
    #[serde(default)]
    key: String,
    #[serde(default)]
    operator: String,
    #[serde(default)]
    value: String,
    #[serde(default)]
    effect: String,
    toleration_seconds: Option<i64>,
}

/// The lists that `file` states.
///
/// # Errors
/// Its wrong fields.
pub(super) fn toleration_lists(file: FileTolerations) -> Result<TolerationLists, Faults> {
    let mut faults = Faults::default();
    let mut list = |name: &str, tolerations: Vec<FileToleration>| -> Vec<Toleration> {
        for (at, toleration) in tolerations.iter().enumerate() {
            check_toleration(toleration, &format!("{name}[{at}]"), &mut faults);
        }
        tolerations.into_iter().map(Toleration::from).collect()
    };
    let lists = TolerationLists {
        default: list("default", file.default),
        allowed: list("whitelist", file.whitelist),
    };
    faults.or(lists)
}

impl From<FileToleration> for Toleration {
    fn from(toleration: FileToleration) -> Toleration {
        let FileToleration { key, operator, value, effect, toleration_seconds: seconds } = toleration;
        Toleration { key, operator, value, effect, seconds }
    }
}

fn check_toleration(toleration: &FileToleration, field: &str, faults: &mut Faults) {
    let (operators, effects) = (["Equal", "Exists"], ["NoSchedule", "PreferNoSchedule", "NoExecute"]);
    let FileToleration { key, operator, effect, .. } = toleration;
    if !operator.is_empty() && !operators.contains(&operator.as_str()) {
        faults.not_supported(&format!("{field}.operator"), operator, &operators);
    }
    if key.is_empty() && operator != "Exists" {
        let detail =
            "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
        faults.invalid(&format!("{field}.operator"), operator, detail);
    }
    if !effect.is_empty() && !effects.contains(&effect.as_str()) {
        faults.not_supported(&format!("{field}.effect"), effect, &effects);
    }
    if toleration.toleration_seconds.is_some() && effect != "NoExecute" {
        let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
        faults.invalid(&format!("{field}.effect"), effect, detail);
    }
}
