//! Configurations of admission plugins that are refused, by field, and some that are not.

use orch_api::admission::standards::Mode;
use orch_api::admission::{CACHE_SIZE, EventLimit, LimitType};

use super::*;

const HEAD: &str = "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n";

fn read_text(text: &str) -> Result<Settings, String> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("admission.yaml");
    std::fs::write(&path, text).unwrap();
    std::fs::write(
        directory.path().join("limits.yaml"),
        "apiVersion: eventratelimit.admission.k8s.io/v1alpha1\nkind: Configuration\nlimits:\n- {type: Server, qps: 5, burst: \
         9}\n",
    )
    .unwrap();
    let shown = directory.path().display().to_string();
    let read = read(&path, Settings::default()).map(|(settings, _)| settings);
    read.map_err(|fault| fault.to_string().replace(&shown, "D"))
}

/// A file with one plugin, whose configuration is `text` in one line.
fn with(name: &str, text: &str) -> Result<Settings, String> {
    read_text(&format!("{HEAD}- name: {name}\n  configuration: {text}\n"))
}

fn security(text: &str) -> Result<Settings, String> {
    let head = "apiVersion: pod-security.admission.config.k8s.io/v1, kind: PodSecurityConfiguration";
    with("PodSecurity", &format!("{{{head}, {text}}}"))
}

fn limits(text: &str) -> Result<Settings, String> {
    let head = "apiVersion: eventratelimit.admission.k8s.io/v1alpha1, kind: Configuration";
    with("EventRateLimit", &format!("{{{head}, limits: [{text}]}}"))
}

#[test]
fn each_plugin_takes_its_document() {
    let settings = security(
        "defaults: {enforce: baseline, enforce-version: v1.30, warn: restricted}, exemptions: {usernames: [ann], namespaces: \
         [kube-system], runtimeClasses: [gvisor]}",
    )
    .unwrap()
    .pod_security;
    let defaults = Mode::ALL.map(|mode| settings.defaults.of_mode(mode).to_string());
    assert_eq!(defaults, ["baseline:v1.30", "privileged:latest", "restricted:latest"]);
    assert!(settings.exempt_users.contains("ann") && settings.exempt_namespaces.contains("kube-system"));
    let expected = EventLimit { limit_type: LimitType::User, qps: 1, burst: 2, cache_size: CACHE_SIZE };
    assert_eq!(limits("{type: User, qps: 1, burst: 2}").unwrap().event_limits, [expected]);
    let beside =
        read_text(&format!("{HEAD}- {{name: EventRateLimit, path: limits.yaml}}\n")).unwrap().event_limits;
    assert_eq!(
        beside,
        [EventLimit { limit_type: LimitType::Server, qps: 5, burst: 9, cache_size: CACHE_SIZE }]
    );
    let selectors = "podNodeSelectorPluginConfig: {clusterDefaultNodeSelector: 'a=b', ns: 'c=d,e=f'}";
    let versioned = with("PodNodeSelector", &format!("{{{selectors}}}")).unwrap().node_selectors;
    assert_eq!((versioned.default["a"].as_str(), versioned.allowed["ns"]["e"].as_str()), ("b", "f"));
    assert_eq!(read_text(selectors).unwrap().node_selectors, versioned, "the older form");
    let tolerations = with(
        "PodTolerationRestriction",
        "{apiVersion: podtolerationrestriction.admission.k8s.io/v1alpha1, kind: Configuration, default: [{key: k, operator: \
         Exists}], whitelist: [{operator: Exists, effect: NoExecute, tolerationSeconds: 5}]}",
    )
    .unwrap()
    .tolerations;
    assert_eq!((tolerations.default[0].key.as_str(), tolerations.allowed[0].seconds), ("k", Some(5)));
    assert_eq!(read_text(&format!("{HEAD}- name: PodSecurity\n")), Ok(Settings::default()));
}

#[test]
fn plugins_for_webhooks_name_their_client_configurations() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("admission.yaml");
    let of = |plugin: &str, file: &str| {
        let head = "apiVersion: apiserver.config.k8s.io/v1, kind: WebhookAdmissionConfiguration";
        let text = format!("{HEAD}- name: {plugin}\n  configuration: {{{head}, kubeConfigFile: '{file}'}}\n");
        std::fs::write(&path, text).unwrap();
        read(&path, Settings::default()).map(|(_, files)| files)
    };
    let files = of("MutatingAdmissionWebhook", "/etc/hooks.conf").unwrap();
    assert_eq!((files.mutating, files.validating), (Some("/etc/hooks.conf".into()), None));
    let files = of("ValidatingAdmissionWebhook", "/etc/hooks.conf").unwrap();
    assert_eq!(files.validating, Some("/etc/hooks.conf".into()));
    for file in ["hooks.conf", ""] {
        let fault = of("ValidatingAdmissionWebhook", file).unwrap_err().to_string();
        assert!(fault.contains("kubeConfigFile: Invalid value") && fault.contains("absolute"), "{fault}");
    }
}

#[test]
fn faults_are_told_by_their_fields() {
    for (told, expected) in [
        (
            security("defaults: {enforce: odd}"),
            "defaults.enforce: Invalid value: \"odd\": must be one of privileged",
        ),
        (
            security("defaults: {warn-version: v2}"),
            "defaults.warn-version: Invalid value: \"v2\": must be \"latest\" or",
        ),
        (security("exemptions: {usernames: ['']}"), "exemptions.usernames[0]: Required value"),
        (security("exemptions: {namespaces: [a, a]}"), "exemptions.namespaces[1]: Duplicate value: \"a\""),
        (
            security("exemptions: {namespaces: [A_]}"),
            "exemptions.namespaces[0]: Invalid value: \"A_\": a lowercase RFC",
        ),
        (security("exempt: {}"), "exempt"),
        (limits(""), "limits: Invalid value: \"\": must not be empty"),
        (
            limits("{type: Odd, qps: 0, burst: 1}"),
            "[limits[0].type: Unsupported value: \"Odd\": supported values: \"Server\"",
        ),
        (
            limits("{type: User, qps: 1, burst: 1, cacheSize: -1}"),
            "limits[0].cacheSize: Invalid value: \"-1\"",
        ),
        (
            with("PodNodeSelector", "{podNodeSelectorPluginConfig: {ns: odd}}"),
            "podNodeSelectorPluginConfig[ns]: Invalid",
        ),
        (
            with("PodSecurity", "{apiVersion: v1, kind: Pod}"),
            "a document of kind PodSecurityConfiguration and version v1 or",
        ),
        (
            with("LimitRanger", "{}"),
            "plugins[0].name: Unsupported value: \"LimitRanger\": supported values: \"EventRateL",
        ),
        (
            read_text(&format!("{HEAD}- name: PodSecurity\n- name: PodSecurity\n")),
            "plugins[1].name: Duplicate value",
        ),
        (read_text(&format!("{HEAD}- {{name: PodSecurity, path: none.yaml}}\n")), "cannot read D/none.yaml"),
        (
            read_text("kind: Odd"),
            "a document of kind AdmissionConfiguration and version v1 or v1alpha1 is expected",
        ),
    ] {
        let told = told.unwrap_err();
        assert!(told.contains(expected), "{told:?} does not say {expected:?}");
    }
}
