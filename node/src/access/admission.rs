//! The admission configuration: the settings of the plugins that have some.
//!
//! Owns the file's form (`AdmissionConfiguration`) and those of the documents in it or beside it, and their checks in the
//! reference's words. Unlike the reference it refuses a plugin that it does not know or that takes no configuration:
//! otherwise a wrong name would silently leave a rule out.

mod event_limits;
mod pod_security;
#[cfg(test)]
mod tests;
mod tolerations;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use orch_api::admission::{NodeSelectors, Settings, parse_node_labels};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use self::event_limits::{FileLimits, event_limits};
use self::pod_security::{FileSecurity, pod_security};
use self::tolerations::{FileTolerations, toleration_lists};
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
