//! Texts and exit codes of the command.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Parser;

use super::*;
use crate::cli::{Cli, Command, PolicyCommand};

const POLICY: &str = r#"# Replicas are few.
apiVersion: GROUP/v1
kind: ValidatingAdmissionPolicy
metadata: {name: replicas}
spec:
  paramKind: {apiVersion: v1, kind: ConfigMap}
  matchConstraints:
    resourceRules:
    - {apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [deployments]}
  validations:
  - expression: object.spec.replicas <= int(params.data.most)
    messageExpression: "'at most ' + params.data.most"
  - expression: oldObject == null || oldObject.spec.replicas >= object.spec.replicas
---
apiVersion: GROUP/v1
kind: MutatingAdmissionPolicy
metadata: {name: labels}
spec:
  reinvocationPolicy: Never
  matchConstraints:
    resourceRules:
    - {apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [deployments]}
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration: {expression: "Object{metadata: Object.metadata{labels: {'seen': 'yes'}}}"}
"#;

/// The policies, under the group of the usual brand.
fn policies() -> String {
    POLICY.replace("GROUP", &ORCH.group("admissionregistration"))
}

const PARAMS: &str =
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: limits, namespace: default}\ndata: {most: '3'}\n";

fn deployment(replicas: u8) -> String {
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: web, namespace: shop}}\nspec:\n  replicas: {replicas}\n  \
         selector: {{matchLabels: {{a: b}}}}\n  template:\n    metadata: {{labels: {{a: b}}}}\n    spec: {{containers: [{{name: c, \
         image: i}}]}}\n"
    )
}

/// Runs the command with these flags in `folder`: its exit code, or its error, and what it printed.
fn run_in(folder: &Path, flags: &[&str]) -> (Result<ExitCode, String>, String) {
    let at = |flag: &&str| match flag.contains(".yaml") {
        true => folder.join(flag).display().to_string(),
        false => (*flag).to_owned(),
    };
    let arguments: Vec<String> =
        ["orch", "policy", "test"].map(str::to_owned).into_iter().chain(flags.iter().map(at)).collect();
    let Command::Policy(PolicyCommand::Test(arguments)) = Cli::try_parse_from(arguments).unwrap().command
    else {
        panic!("another command");
    };
    let mut out = Vec::new();
    let code = test(&arguments, &mut out).map_err(|error| format!("{error:#}"));
    (code, String::from_utf8(out).unwrap())
}

fn folder(files: &[(&str, String)]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let path = folder.path().to_owned();
    (folder, path)
}

fn is(code: &Result<ExitCode, String>, expected: u8) -> bool {
    code.as_ref().is_ok_and(|code| format!("{code:?}") == format!("{:?}", ExitCode::from(expected)))
}

#[test]
fn a_policy_without_a_binding_is_tried_with_its_parameter_and_the_exit_code_tells_the_outcome() {
    let files = [
        ("p.yaml", policies()),
        ("params.yaml", PARAMS.to_owned()),
        ("few.yaml", deployment(2)),
        ("many.yaml", deployment(9)),
    ];
    let (_folder, path) = folder(&files);
    let of = |flags: &[&str]| run_in(&path, &[&["p.yaml", "--params", "params.yaml"], flags].concat());
    let (code, text) = of(&["--object", "few.yaml"]);
    assert!(is(&code, 0), "{code:?} {text}");
    for part in [
        "create Deployment shop/web as system:admin",
        "ValidatingAdmissionPolicy replicas, binding replicas, parameter default/limits",
        "validations[0]   holds    cost ",
        "MutatingAdmissionPolicy labels, binding labels",
        "mutations[0]     made     cost ",
        r#""seen":"yes""#,
        "  admitted",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let (code, text) = of(&["--object", "many.yaml"]);
    assert!(
        is(&code, 3) && text.contains("violated") && text.contains("denied request: at most 3"),
        "{code:?} {text}"
    );
    assert!(is(&of(&["--object", "many.yaml", "--expect", "deny"]).0, 0));
    assert!(is(&of(&["--object", "few.yaml", "--expect", "deny"]).0, 3));
    let (code, text) = of(&["--object", "few.yaml", "--old-object", "many.yaml"]);
    assert!(is(&code, 0) && text.starts_with("update "), "{code:?} {text}");
    let (code, text) =
        of(&["--object", "few.yaml", "--old-object", "many.yaml", "--operation", "delete", "--user", "ann"]);
    assert!(
        is(&code, 0) && text.contains("delete Deployment shop/web as ann\n  no policy is about it"),
        "{code:?} {text}"
    );
}

#[test]
fn the_json_has_what_the_text_has() {
    let files = [("p.yaml", policies()), ("params.yaml", PARAMS.to_owned()), ("many.yaml", deployment(9))];
    let (_folder, path) = folder(&files);
    let (_, text) =
        run_in(&path, &["p.yaml", "--params", "params.yaml", "--object", "many.yaml", "-o", "json"]);
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    let write = &value["writes"][0];
    assert_eq!(
        (&write["admitted"], &write["code"], &write["refusedBy"]),
        (&false.into(), &422.into(), &"policy".into()),
        "{text}"
    );
    let validating = write["evaluations"]
        .as_array()
        .unwrap()
        .iter()
        .find(|of| of["kind"] == "ValidatingAdmissionPolicy")
        .unwrap();
    assert_eq!(validating["expressions"][0]["outcome"], "violated", "{text}");
    assert_eq!(validating["expressions"][1]["outcome"], "holds", "{text}");
    assert!(validating["cost"].as_u64().unwrap() > 0 && validating["actions"][0] == "Deny", "{text}");
}

#[test]
fn input_that_cannot_be_used_is_an_error_that_names_its_place() {
    let broken = policies().replace("oldObject == null", "oldObject == nothing");
    let files = [
        ("p.yaml", broken),
        ("good.yaml", policies()),
        ("params.yaml", PARAMS.to_owned()),
        ("few.yaml", deployment(2)),
        ("wrong.yaml", deployment(2).replace("containers", "vessels")),
        ("none.yaml", "# nothing\n".to_owned()),
    ];
    let (_folder, path) = folder(&files);
    for (flags, reason) in [
        (&["p.yaml", "--object", "few.yaml"][..], "undeclared reference to 'nothing'"),
        (&["p.yaml", "--object", "few.yaml"], "p.yaml"),
        (&["good.yaml", "params.yaml", "--object", "wrong.yaml"], "spec.template.spec.containers"),
        (&["good.yaml", "--object", "none.yaml"], "the files of --object hold no object"),
        (&["absent.yaml", "--object", "few.yaml"], "cannot read"),
    ] {
        let (code, _) = run_in(&path, flags);
        let error = code.unwrap_err();
        assert!(error.contains(reason), "{reason}: {error}");
    }
}
