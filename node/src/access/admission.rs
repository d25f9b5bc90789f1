//! The admission configuration: the settings of the plugins that have some.
//!
//! Owns the file's form (`AdmissionConfiguration`) and those of the documents in it or beside it, and their checks in the
//! reference's words. Unlike the reference it refuses a plugin that it does not know or that takes no configuration:
//! otherwise a wrong name would silently leave a rule out.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use orch_api::admission::standards::{
    Level, LevelVersion, Mode, Policy, Version, WRONG_LEVEL, WRONG_VERSION,
};
use orch_api::admission::{
    CACHE_SIZE, EventLimit, LimitType, NodeSelectors, PodSecuritySettings, Settings, Toleration,
    TolerationLists, dns1123_label, dns1123_subdomain, parse_node_labels,
};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::faults::{self, ConfigFileError, Faults};

/// Versions of the file.
const VERSIONS: [&str; 2] = ["v1", "v1alpha1"];
/// The key under which `PodNodeSelector` has its default, among namespaces.
const DEFAULT_SELECTOR: &str = "clusterDefaultNodeSelector";

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct File {
    #[expect(dead_code, reason = "checked by the reader")]
    api_version: String,
    #[expect(dead_code, reason = "checked by the reader")]
    kind: String,
    #[serde(default)]
    plugins: Vec<FilePlugin>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FilePlugin {
    #[serde(default)]
    name: String,
    /// A file with the configuration, beside this one if it is relative.
    #[serde(default)]
    path: PathBuf,
    configuration: Option<serde_json::Value>,
}

/// The client configurations of the plugins for webhooks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HookFiles {
    /// That of `MutatingAdmissionWebhook`.
    pub mutating: Option<PathBuf>,
    /// That of `ValidatingAdmissionWebhook`.
    pub validating: Option<PathBuf>,
}

/// The configurations of plugins that were read from the file.
struct Taken {
    settings: Settings,
    files: HookFiles,
}

/// Reads the file of `--admission-control-config-file` into `settings`, and the client configurations that it names.
///
/// # Errors
/// It, or a file that it names, cannot be read, has another form, or has wrong fields.
pub fn read(path: &Path, settings: Settings) -> Result<(Settings, HookFiles), ConfigFileError> {
    let mut taken = Taken { settings, files: HookFiles::default() };
    let text = faults::read_text(path)?;
    // The reference's older form has no head and is of one plugin.
    if serde_saphyr::from_str::<FileSelectors>(&text).is_ok() {
        configure("PodNodeSelector", &text, path, &mut taken)?;
        return Ok((taken.settings, taken.files));
    }
    let file: File = faults::parse(&text, "AdmissionConfiguration", &VERSIONS)
        .map_err(|reason| ConfigFileError::Form { path: path.to_owned(), reason })?;
    let mut seen = BTreeSet::new();
    for (at, plugin) in file.plugins.into_iter().enumerate() {
        let mut faults = Faults::default();
        let field = format!("plugins[{at}].name");
        if plugin.name.is_empty() {
            faults.required(&field, "");
        } else if !seen.insert(plugin.name.clone()) {
            faults.duplicate(&field, &plugin.name);
        } else if !CONFIGURABLE.contains(&plugin.name.as_str()) {
            faults.not_supported(&field, &plugin.name, &CONFIGURABLE);
        }
        faults.or(()).map_err(|faults| ConfigFileError::Fields { path: path.to_owned(), faults })?;
        match plugin.configuration.filter(|configuration| !configuration.is_null()) {
            Some(configuration) => configure(&plugin.name, &configuration.to_string(), path, &mut taken)?,
            None if plugin.path.as_os_str().is_empty() => {}
            None => {
                let beside = path.parent().unwrap_or(Path::new("")).join(&plugin.path);
                configure(&plugin.name, &faults::read_text(&beside)?, &beside, &mut taken)?;
            }
        }
    }
    Ok((taken.settings, taken.files))
}

/// The plugins that have a configuration.
const CONFIGURABLE: [&str; 6] =
    ["EventRateLimit", MUTATING, "PodNodeSelector", "PodSecurity", "PodTolerationRestriction", VALIDATING];

const MUTATING: &str = "MutatingAdmissionWebhook";
const VALIDATING: &str = "ValidatingAdmissionWebhook";

/// Takes in the document of one plugin, which stands in the file at `path`.
fn configure(name: &str, text: &str, path: &Path, taken: &mut Taken) -> Result<(), ConfigFileError> {
    let Taken { settings, files } = taken;
    let of_fields = |faults| ConfigFileError::Fields { path: path.to_owned(), faults };
    match name {
        "EventRateLimit" => {
            let file: FileLimits =
                document(text, path, "eventratelimit.admission.", "Configuration", &["v1alpha1"])?;
            settings.event_limits = event_limits(&file).map_err(of_fields)?;
        }
        MUTATING => files.mutating = Some(hook_file(text, path)?),
        VALIDATING => files.validating = Some(hook_file(text, path)?),
        "PodNodeSelector" => {
            let file: FileSelectors = form(serde_saphyr::from_str(text), path)?;
            settings.node_selectors = node_selectors(&file).map_err(of_fields)?;
        }
        "PodTolerationRestriction" => {
            let stem = "podtolerationrestriction.admission.";
            let file: FileTolerations = document(text, path, stem, "Configuration", &["v1alpha1"])?;
            settings.tolerations = toleration_lists(file).map_err(of_fields)?;
        }
        _ => {
            let (stem, versions) = ("pod-security.admission.config.", ["v1", "v1beta1", "v1alpha1"]);
            let file: FileSecurity = document(text, path, stem, "PodSecurityConfiguration", &versions)?;
            settings.pod_security = pod_security(file).map_err(of_fields)?;
        }
    }
    Ok(())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct FileHooks {
    #[expect(dead_code, reason = "checked by the reader")]
    api_version: String,
    #[expect(dead_code, reason = "checked by the reader")]
    kind: String,
    #[serde(default)]
    kube_config_file: PathBuf,
}

/// The client configuration of a plugin for webhooks.
fn hook_file(text: &str, path: &Path) -> Result<PathBuf, ConfigFileError> {
    let file: FileHooks =
        document(text, path, "apiserver.config.", "WebhookAdmissionConfiguration", &["v1"])?;
    let mut faults = Faults::default();
    if !file.kube_config_file.is_absolute() {
        let given = file.kube_config_file.display().to_string();
        faults.invalid("kubeConfigFile", &given, "must be an absolute file path");
    }
    faults
        .or(file.kube_config_file)
        .map_err(|faults| ConfigFileError::Fields { path: path.to_owned(), faults })
}

fn document<T: DeserializeOwned>(
    text: &str,
    path: &Path,
    stem: &str,
    kind: &str,
    versions: &[&str],
) -> Result<T, ConfigFileError> {
    faults::parse_in(stem, text, kind, versions)
        .map_err(|reason| ConfigFileError::Form { path: path.to_owned(), reason })
}

fn form<T>(parsed: Result<T, serde_saphyr::Error>, path: &Path) -> Result<T, ConfigFileError> {
    parsed.map_err(|error| ConfigFileError::Form {
        path: path.to_owned(),
        reason: error.without_snippet().to_string(),
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct FileLimits {
    #[expect(dead_code, reason = "checked by the reader")]
    api_version: String,
    #[expect(dead_code, reason = "checked by the reader")]
    kind: String,
    #[serde(default)]
    limits: Vec<FileLimit>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct FileLimit {
    #[serde(default, rename = "type")]
    limit_type: String,
    #[serde(default)]
    qps: i64,
    #[serde(default)]
    burst: i64,
    #[serde(default)]
    cache_size: i64,
}

fn event_limits(file: &FileLimits) -> Result<Vec<EventLimit>, Faults> {
    let mut faults = Faults::default();
    if file.limits.is_empty() {
        faults.invalid("limits", "", "must not be empty");
    }
    let mut limits = Vec::new();
    for (at, limit) in file.limits.iter().enumerate() {
        let field = |name: &str| format!("limits[{at}].{name}");
        let limit_type = LimitType::ALL.into_iter().find(|known| known.name() == limit.limit_type);
        if limit_type.is_none() {
            faults.not_supported(&field("type"), &limit.limit_type, &LimitType::ALL.map(LimitType::name));
        }
        let mut positive = |name: &str, value: i64| {
            let number = u32::try_from(value).ok().filter(|number| *number > 0);
            if number.is_none() {
                faults.invalid(&field(name), &value.to_string(), "must be positive");
            }
            number
        };
        let (burst, qps) = (positive("burst", limit.burst), positive("qps", limit.qps));
        // The bound of one limit's memory: some ten megabytes.
        let cache_size = usize::try_from(limit.cache_size).ok().filter(|size| *size <= CACHE_SIZE_MAX);
        if cache_size.is_none() {
            let detail = format!("must not be negative, and at most {CACHE_SIZE_MAX}");
            faults.invalid(&field("cacheSize"), &limit.cache_size.to_string(), &detail);
        }
        if let (Some(limit_type), Some(burst), Some(qps), Some(cache_size)) =
            (limit_type, burst, qps, cache_size)
        {
            let cache_size = if cache_size == 0 { CACHE_SIZE } else { cache_size };
            limits.push(EventLimit { limit_type, qps, burst, cache_size });
        }
    }
    faults.or(limits)
}

/// Largest number of buckets of a limit.
const CACHE_SIZE_MAX: usize = 100_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileSelectors {
    #[serde(rename = "podNodeSelectorPluginConfig")]
    selectors: BTreeMap<String, String>,
}

fn node_selectors(file: &FileSelectors) -> Result<NodeSelectors, Faults> {
    let (mut selectors, mut faults) = (NodeSelectors::default(), Faults::default());
    for (namespace, text) in &file.selectors {
        match parse_node_labels(text) {
            Ok(labels) if namespace == DEFAULT_SELECTOR => selectors.default = labels,
            Ok(labels) => {
                selectors.allowed.insert(namespace.clone(), labels);
            }
            Err(fault) => faults.invalid(&format!("podNodeSelectorPluginConfig[{namespace}]"), text, &fault),
        }
    }
    faults.or(selectors)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct FileTolerations {
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

fn toleration_lists(file: FileTolerations) -> Result<TolerationLists, Faults> {
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

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct FileSecurity {
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

fn pod_security(file: FileSecurity) -> Result<PodSecuritySettings, Faults> {
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

#[cfg(test)]
mod tests;
