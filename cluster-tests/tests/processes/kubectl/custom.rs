//! Kinds that a definition declares, by the program: what people do with them from the definition to its end.

use super::{Session, in_session};

const DEFINITION: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: crontabs.stable.example.com
spec:
  group: stable.example.com
  scope: Namespaced
  names: {plural: crontabs, singular: crontab, kind: CronTab, shortNames: [ct], categories: [all]}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        description: A timetable.
        properties:
          spec:
            type: object
            required: [schedule]
            properties:
              schedule: {type: string, pattern: '^[*0-9 ]+$', description: When it runs.}
              replicas: {type: integer, minimum: 0, default: 1}
          status:
            type: object
            properties:
              replicas: {type: integer}
              selector: {type: string}
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas, labelSelectorPath: .status.selector}
    selectableFields:
    - jsonPath: .spec.schedule
    additionalPrinterColumns:
    - {name: Schedule, type: string, jsonPath: .spec.schedule}
    - {name: Replicas, type: integer, jsonPath: .spec.replicas}
    - {name: Age, type: date, jsonPath: .metadata.creationTimestamp}
"#;

fn crontab(schedule: &str) -> String {
    format!(
        "apiVersion: stable.example.com/v1\nkind: CronTab\nmetadata:\n  name: a\n  namespace: default\nspec:\n  schedule: {schedule:?}\n"
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_defines_describes_and_removes_a_kind() {
    in_session(define_and_remove).await;
}

fn define_and_remove(session: &Session) {
    let definition = session.file("definition.yaml", DEFINITION);
    session.text(&["apply", "--server-side", "-f", &definition]);
    session.text(&[
        "wait",
        "--for=condition=Established",
        "--timeout=30s",
        "crd/crontabs.stable.example.com",
    ]);
    // Applied again in the other form, which reads the published schema.
    session.text(&["apply", "-f", &definition]);
    describe(session);
    use_objects(session);
    session.text(&["delete", "crd", "crontabs.stable.example.com", "--timeout=30s"]);
    let gone = session.refused(&["get", "--raw", "/apis/stable.example.com/v1/crontabs"]);
    assert!(gone.contains("NotFound") || gone.contains("could not find"), "{gone}");
}

fn describe(session: &Session) {
    let resources = session.text(&["api-resources", "--api-group=stable.example.com"]);
    let line = resources.lines().find(|line| line.starts_with("crontabs ")).unwrap_or_default();
    let words: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(words, ["crontabs", "ct", "stable.example.com/v1", "true", "CronTab"], "{resources}");
    for version in ["plaintext", "plaintext-openapiv2"] {
        let output = format!("--output={version}");
        let explained = session.text(&["explain", "crontabs.spec.schedule", &output]);
        assert!(explained.contains("When it runs."), "{version}: {explained}");
    }
    let metadata = session.text(&["explain", "crontabs", "--recursive"]);
    assert!(metadata.contains("annotations\t<map[string]string>"), "{metadata}");
}

fn use_objects(session: &Session) {
    let file = session.file("a.yaml", &crontab("* * 1"));
    session.text(&["apply", "-f", &file]);
    let changed = session.file("b.yaml", &crontab("* * 2"));
    let difference = session.run(&["diff", "-f", &changed]);
    let shown = String::from_utf8_lossy(&difference.stdout);
    assert_eq!(difference.status.code(), Some(1), "{difference:?}");
    assert!(shown.contains("+  schedule: '* * 2'") || shown.contains("+  schedule: \"* * 2\""), "{shown}");
    session.text(&["apply", "-f", &changed]);
    session.text(&["apply", "--server-side", "--force-conflicts", "-f", &file]);
    let table = session.text(&["get", "ct"]);
    let lines: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["NAME", "SCHEDULE", "REPLICAS", "AGE"], "{table}");
    assert_eq!(lines[1][..5], ["a", "*", "*", "1", "1"], "{table}");
    session.text(&["scale", "crontab/a", "--replicas=3"]);
    assert_eq!(session.text(&["get", "crontab", "a", "-o", "jsonpath={.spec.replicas}"]), "3");
    let selected = session.text(&["get", "crontabs", "--field-selector=spec.schedule=* * 1", "-o", "name"]);
    assert_eq!(selected.trim(), "crontab.stable.example.com/a");
    let described = session.text(&["describe", "crontab", "a"]);
    assert!(described.contains("Schedule:") && described.contains("CronTab"), "{described}");
    let all = session.text(&["get", "all"]);
    assert!(all.contains("crontab.stable.example.com/a"), "{all}");
    let bad = session.file("bad.yaml", &crontab("never"));
    assert!(session.refused(&["apply", "-f", &bad]).contains("spec.schedule"));
    let unknown = session.file("unknown.yaml", &crontab("* * 1").replace("spec:", "spec:\n  nope: 1"));
    assert!(session.refused(&["apply", "-f", &unknown]).contains("nope"));
    session.text(&[
        "patch",
        "crontab",
        "a",
        "--subresource=status",
        "--type=merge",
        "-p",
        r#"{"status":{"replicas":3}}"#,
    ]);
    session.text(&["wait", "--for=jsonpath={.status.replicas}=3", "--timeout=10s", "crontab/a"]);
    session.text(&["delete", "crontab", "a"]);
    assert!(session.refused(&["get", "crontab", "a"]).contains("(NotFound)"));
}
