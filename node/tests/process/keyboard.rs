//! Work at the keyboard: a small cluster of commands in a shell, and texts of the program. The guides' own commands are run
//! in `cluster-tests/tests/processes/guides.rs`.

use super::*;

/// Starts three members on one machine and founds their cluster, as docs/guides/one-machine.md does.
const START: &str = "\
orch certs init --dir certs --member a=127.0.0.1 --member b=127.0.0.2 --member c=127.0.0.3
CLUSTER=a=127.0.0.1:6444,b=127.0.0.2:6444,c=127.0.0.3:6444
orch serve --name a --certs-dir certs --data-dir data-a --bind-address 127.0.0.1 --initial-cluster $CLUSTER 2> a.log &
orch serve --name b --certs-dir certs --data-dir data-b --bind-address 127.0.0.2 --initial-cluster $CLUSTER 2> b.log &
orch serve --name c --certs-dir certs --data-dir data-c --bind-address 127.0.0.3 --initial-cluster $CLUSTER 2> c.log &
export KUBECONFIG=certs/admin.conf
orch cluster found";

/// Ends the last one, and looks from another, whose exit code says that something is to be done.
const END: &str = "kill $! && wait $!
orch cluster status && exit 9 || test $? -eq 3";

/// The lines of `text` from the one that contains `mark` up to the next such line.
fn part<'a>(text: &'a str, mark: &str) -> &'a str {
    text.split(&format!("== {mark}\n"))
        .nth(1)
        .unwrap_or_else(|| panic!("no {mark} in {text}"))
        .split("== ")
        .next()
        .unwrap()
}

/// Runs `script` in `directory` with this program as `orch`. Returns what it printed; its background jobs are ended.
fn shell(directory: &Path, script: &str) -> String {
    let programs = Path::new(env!("CARGO_BIN_EXE_orch")).parent().unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let script =
        format!("set -eu\ntrap 'kill $(jobs -p) 2>/dev/null || true; wait || true' EXIT\n{script}\n");
    let mut command = Command::new("bash");
    let output = command
        .args(["-c", &script])
        .current_dir(directory)
        .env("PATH", path)
        .env_remove("KUBECONFIG")
        .output();
    let output = output.unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{printed}\n{errors}");
    printed
}

#[test]
fn three_members_on_one_machine_lose_one_and_are_asked_through_each() {
    // Other tests run on this machine: a network of the loopback interface of their own.
    let own = format!("127.{}.{}.", 100 + std::process::id() % 100, 1 + std::process::id() / 100 % 250);
    let (start, end) = (START.replace("127.0.0.", &own), END);
    let (a, b) = (format!("--server {own}1:6443"), format!("--server {own}2:6443"));
    let directory = tempfile::tempdir().unwrap();
    let script = format!(
        "{start}\necho == again\norch cluster found {a}\norch cluster add b {own}2:6444 {a}\necho == dead\n{end}\necho == from b\norch cluster status {b} || test $? -eq 3\n\
         echo == removed c\norch cluster remove c\n\
         echo == removed b\norch cluster remove b {b}\n\
         echo == passed over\norch cluster status {b} {a}\n"
    );
    let printed = shell(directory.path(), &script);
    assert!(printed.contains("founded the cluster of a, b, c"), "{printed}");
    // A member says that it serves when it does, on a slow machine in the middle of what another program prints.
    let again: String = part(&printed, "again")
        .lines()
        .filter(|line| !line.starts_with("member "))
        .fold(String::new(), |text, line| text + line + "\n");
    assert!(again.starts_with("there is a cluster already: a, b, c; nothing was done\n"), "{again}");
    assert!(again.contains("\nb is a member already (voter)\n"), "{again}");
    let state_of = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(&format!("{name} "))).map(str::to_owned);
        line.map(|line| line.split_whitespace().nth(2).unwrap_or_default().to_owned())
    };
    for place in ["dead", "from b"] {
        let text = part(&printed, place);
        let states = ["a", "b", "c"].map(|name| state_of(text, name).unwrap_or_default());
        assert_eq!(states, ["up", "up", "down"], "{text}");
        assert!(text.contains(" ! c is down") && text.contains("LAST HEARD  time since"), "{text}");
    }
    assert!(
        part(&printed, "dead").contains("b has applied") || part(&printed, "dead").contains("a has applied")
    );
    assert!(part(&printed, "from b").contains("b has applied"), "{printed}");
    let text = part(&printed, "removed c");
    assert!(text.starts_with("removed c\n") && state_of(text, "c").is_none(), "{text}");
    let text = part(&printed, "removed b");
    assert!(text.starts_with("removed b\n") && state_of(text, "b").is_none(), "{text}");
    assert_eq!(state_of(text, "a").as_deref(), Some("up"), "{text}");
    let text = part(&printed, "passed over");
    assert!(text.contains("a has applied") && state_of(text, "b").is_none(), "{text}");
}

#[tokio::test]
async fn a_controller_manager_beside_it_finds_the_rights_that_it_needs() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = ["dev", "--brand=kubernetes", "--secure-port=0", "--no-scheduler"];
    let node = Process::start(directory.path(), &arguments);
    let pki = directory.path().join("pki");
    let (authority, certificate, key) =
        (pki.join("ca.crt"), pki.join("controller-manager.crt"), pki.join("controller-manager.key"));
    let own = Some((certificate.as_path(), key.as_path()));
    assert!(directory.path().join("controller-manager.conf").exists());
    let (status, body) = node.ask_ready("/readyz", &authority, own).await;
    assert_eq!(status, 200, "{body}");
    let lease = r#"{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"kube-controller-manager","namespace":"kube-system"},"spec":{"holderIdentity":"x"}}"#;
    let account = r#"{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"deployment-controller","namespace":"kube-system"}}"#;
    let token = r#"{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{}}"#;
    let review = r#"{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","spec":{"user":"x","nonResourceAttributes":{"path":"/","verb":"get"}}}"#;
    let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
    let accounts = "/api/v1/namespaces/kube-system/serviceaccounts";
    let mut made = String::new();
    for (method, path, body, expected) in [
        (Method::GET, "/healthz", "", 200),
        (Method::POST, leases, lease, 201),
        (
            Method::GET,
            "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-controller-manager",
            "",
            200,
        ),
        (Method::GET, "/apis/apps/v1/deployments", "", 200),
        (Method::GET, "/api/v1/pods?watch=true&timeoutSeconds=1", "", 200),
        (Method::POST, "/apis/authorization.k8s.io/v1/subjectaccessreviews", review, 201),
        (Method::POST, accounts, account, 201),
        (Method::POST, "/apis/apps/v1/namespaces/default/replicasets", "{}", 403),
        (
            Method::POST,
            "/api/v1/namespaces/kube-system/serviceaccounts/deployment-controller/token",
            token,
            201,
        ),
    ] {
        let (status, body) = node.send_as(method.clone(), path, &authority, own, "", body).await;
        assert_eq!(status, expected, "{method} {path}: {body}");
        made = body;
    }
    let made: Value = serde_json::from_str(&made).unwrap();
    let token = made["status"]["token"].as_str().unwrap();
    let set = r#"{"apiVersion":"apps/v1","kind":"ReplicaSet","metadata":{"name":"r"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}"#;
    let sets = "/apis/apps/v1/namespaces/default/replicasets";
    let (status, body) = node.send_as(Method::POST, sets, &authority, None, token, set).await;
    assert_eq!(status, 201, "the loop's account does what the loop does: {body}");
    assert_eq!(node.stop().0, Some(0));
}

#[test]
fn http_on_the_https_port_is_told_in_words() {
    let directory = tempfile::tempdir().unwrap();
    let node = dev(directory.path());
    let url = node.endpoints().unwrap()["https"].as_str().unwrap().to_owned();
    let port = url.rsplit(':').next().unwrap().parse().unwrap();
    let answer = answer(port, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_eq!(answer, "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n");
    assert_eq!(node.stop().0, Some(0));
}

#[test]
fn a_log_of_json_holds_no_plain_line() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let lines = |text: &str| {
        for line in text.lines() {
            let event: Result<Value, _> = serde_json::from_str(line);
            assert!(event.is_ok(), "{line:?} is no JSON in {text}");
        }
        text.lines().count()
    };
    let node = Process::start(&data, &["dev", "--secure-port=0", "--log-format=json"]);
    let taken = node.endpoints().unwrap()["https"].as_str().unwrap().rsplit(':').next().unwrap().to_owned();
    let port = format!("--secure-port={taken}");
    let other = orch(&directory.path().join("other"), &["dev", &port, "--log-format=json"]).output().unwrap();
    assert_eq!(other.status.code(), Some(1));
    let error = String::from_utf8(other.stderr).unwrap();
    assert!(lines(&error) > 0 && error.contains("cannot listen on"), "{error}");
    let (code, printed, logged) = node.stop();
    assert_eq!((code, printed.as_str()), (Some(0), ""), "both outputs of a process may go to one log");
    assert!(lines(&logged) > 3 && logged.contains("serving") && logged.contains("listening"), "{logged}");
}
