//! The configuration of `PodSecurity`.

use std::collections::BTreeSet;

use orch_api::admission::standards::{
    Level, LevelVersion, Mode, Policy, Version, WRONG_LEVEL, WRONG_VERSION,
};
use orch_api::admission::{PodSecuritySettings, dns1123_label, dns1123_subdomain};
use serde::Deserialize;

use super::super::faults::Faults;

/// The document of the plugin, as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct FileSecurity {
    #[expect(dead_code, reason = "checked by the reader")]
    api_version: String,
    #[expect(dead_code, reason = "checked by the reader")]
    kind: String,
    #[serde(default)]
    defaults: FileDefaults,
    #[serde(default)]
    exemptions: FileExemptions,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct FileDefaults {
    enforce: String,
    enforce_version: String,
    audit: String,
    audit_version: String,
    warn: String,
    warn_version: String,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct FileExemptions {
    usernames: Vec<String>,
    runtime_classes: Vec<String>,
    namespaces: Vec<String>,
}

/// The settings that `file` states.
///
/// # Errors
/// Its wrong fields.
pub(super) fn pod_security(file: FileSecurity) -> Result<PodSecuritySettings, Faults> {
    let mut faults = Faults::default();
    let FileDefaults { enforce, enforce_version, audit, audit_version, warn, warn_version } = &file.defaults;
    let mut of = |mode: Mode, level: &str, version: &str| {
        let field = format!("defaults.{}", mode.name());
        let or =
            |text: &str, default: &str| if text.is_empty() { default.to_owned() } else { text.to_owned() };
        let (level, version) =
            (or(level, Level::default().name()), or(version, &Version::default().to_string()));
        let (of_level, of_version) = (Level::named(&level), Version::named(&version));
        if of_level.is_none() {
            faults.invalid(&field, &level, WRONG_LEVEL);
        }
        if of_version.is_none() {
            faults.invalid(&format!("{field}-version"), &version, WRONG_VERSION);
        }
        LevelVersion { level: of_level.unwrap_or_default(), version: of_version.unwrap_or_default() }
    };
    let defaults = Policy {
        enforce: of(Mode::Enforce, enforce, enforce_version),
        warn: of(Mode::Warn, warn, warn_version),
        audit: of(Mode::Audit, audit, audit_version),
    };
    let FileExemptions { usernames, runtime_classes, namespaces } = file.exemptions;
    let settings = PodSecuritySettings {
        defaults,
        exempt_namespaces: exempt("namespaces", namespaces, dns1123_label, &mut faults),
        exempt_runtime_classes: exempt("runtimeClasses", runtime_classes, dns1123_subdomain, &mut faults),
        exempt_users: exempt("usernames", usernames, |_| Vec::new(), &mut faults),
    };
    faults.or(settings)
}

/// The names of one kind of exemption.
fn exempt(
    kind: &str,
    names: Vec<String>,
    check: impl Fn(&str) -> Vec<String>,
    faults: &mut Faults,
) -> BTreeSet<String> {
    let mut exempt = BTreeSet::new();
    for (at, name) in names.into_iter().enumerate() {
        let field = format!("exemptions.{kind}[{at}]");
        let wrong = check(&name);
        if !wrong.is_empty() {
            faults.invalid(&field, &name, &wrong.join(", "));
        } else if name.is_empty() {
            faults.required(&field, "");
        } else if !exempt.insert(name.clone()) {
            faults.duplicate(&field, &name);
        }
    }
    exempt
}
