//! Writes that pass a dead webhook, and those that do not: heartbeats, the webhook's own pods, and the bypass.

use super::*;

fn lease(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"holderIdentity": name, "leaseDurationSeconds": 40}})
}

fn user(name: &str, groups: &[&str]) -> User {
    let groups = groups.iter().map(|group| (*group).to_owned()).collect();
    User { name: name.to_owned(), groups, ..User::default() }
}

#[tokio::test]
async fn heartbeats_and_elections_pass_beside_a_dead_webhook_and_nothing_else_does() {
    let (server, _) = served(|_| unreachable()).await;
    let (nodes, system) = (ORCH.node_lease_namespace, ORCH.system_namespace);
    for namespace in [nodes, system] {
        server.create("/api/v1/namespaces", json!({"metadata": {"name": namespace}})).await;
    }
    let rules = json!([{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}]);
    configure(&server, VALIDATING, "v", vec![webhook("v", "/v", json!({"rules": rules}))]).await;
    let leases = |namespace: &str| format!("/apis/coordination.orch.io/v1/namespaces/{namespace}/leases");
    let post = async |user: &User, namespace: &str, name: &str| {
        server.send_as(user, Method::POST, &leases(namespace), JSON, &lease(name).to_string()).await.code
    };
    let node = user("system:node:n1", &["system:nodes"]);
    let scheduler = user("system:orch-scheduler", &[]);
    assert_eq!(post(&node, nodes, "n1").await, 500, "it is not known to be dead");
    assert_eq!(post(&scheduler, system, "s").await, 500);
    assert_eq!(server.post(MAPS, map("m")).await.code, 500);
    assert_eq!(post(&node, nodes, "n1").await, 201);
    assert_eq!(post(&scheduler, system, "s").await, 201);
    let account = user(&format!("system:serviceaccount:{system}:loops"), &[]);
    assert_eq!(post(&account, system, "loops").await, 201);
    let foreign = user("system:serviceaccount:ns:loops", &[]);
    let joining = user("system:bootstrap:abcdef", &["system:bootstrappers"]);
    let named = user("system:node:n1", &[]);
    for (user, namespace, name) in
        [(&foreign, system, "a"), (&foreign, nodes, "b"), (&named, system, "c"), (&joining, system, "d")]
    {
        assert_eq!(post(user, namespace, name).await, 500, "{} {namespace}/{name}", user.name);
    }
    assert_eq!(server.post(MAPS, map("m")).await.code, 500);
}

/// A server whose dead webhook on everything in `ns` is the service `hook` there, with the passages that its annotation names.
async fn with_dead_webhook(passes: &str) -> Server {
    let (server, _) = served(|_| unreachable()).await;
    let service = json!({
        "metadata": {"name": "hook"}, "spec": {"type": "ExternalName", "externalName": "hook.example", "selector": {"app": "hook"}},
    });
    server.create("/api/v1/namespaces/ns/services", service).await;
    let rules =
        json!([{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}]);
    let client = json!({"service": {"namespace": "ns", "name": "hook"}});
    let of_service = webhook("v", "/", json!({"rules": rules, "clientConfig": client}));
    let metadata = json!({"name": "v", "annotations": {"lockout.admission.orch.io/passes": passes}});
    server.create(VALIDATING, json!({"metadata": metadata, "webhooks": [of_service]})).await;
    for _ in 0..3 {
        assert_eq!(server.post(MAPS, map("m")).await.code, 500);
    }
    server
}

fn labelled_pod(name: &str, app: &str) -> Value {
    let mut pod = pod(name);
    pod["metadata"]["labels"] = json!({"app": app});
    pod
}

#[tokio::test]
async fn the_pods_of_a_dead_webhook_come_back_where_its_configuration_says_so() {
    let replicas = user("system:serviceaccount:orch-system:replicaset-controller", &[]);
    let post = async |server: &Server, user: &User, path: &str, object: &Value| {
        server.send_as(user, Method::POST, path, JSON, &object.to_string()).await.code
    };
    let off = with_dead_webhook("clean-up").await;
    assert_eq!(post(&off, &replicas, PODS, &labelled_pod("own", "hook")).await, 500, "it is off by default");
    let server = with_dead_webhook("clean-up, own-service").await;
    assert_eq!(post(&server, &replicas, PODS, &labelled_pod("other", "other")).await, 500);
    assert_eq!(post(&server, &replicas, PODS, &labelled_pod("own", "hook")).await, 201);
    assert_eq!(post(&server, &User::server(), PODS, &labelled_pod("own2", "hook")).await, 201);
    let node = user("system:node:n", &["system:nodes"]);
    assert_ne!(post(&server, &node, PODS, &labelled_pod("static", "hook")).await, 201);
    // A pod does not become the service's by an update.
    let labels = |app: &str| json!({"metadata": {"labels": {"app": app}}}).to_string();
    let path = format!("{PODS}/own2");
    let patch =
        async |app: &str| server.send_as(&replicas, Method::PATCH, &path, MERGE, &labels(app)).await.code;
    assert_eq!(patch("other").await, 200);
    assert_eq!(patch("hook").await, 500);
}

/// Makes objects, each under the path of its collection, while the dead webhook is bypassed.
async fn make_bypassed(server: &Server, objects: impl IntoIterator<Item = (String, Value)>) {
    let bypass = async |seconds: u64| {
        let time = Timestamp(server.ambient.now().0 + seconds * 1_000_000).seconds_text();
        let until = json!({"metadata": {"annotations": {"lockout.admission.orch.io/bypass-until": time}}});
        server.merge(&format!("{VALIDATING}/v"), until).await.object();
    };
    bypass(60).await;
    for (path, object) in objects {
        let made = server.send_as(&User::server(), Method::POST, &path, JSON, &object.to_string()).await;
        assert_eq!(made.code, 201, "{object}");
    }
    bypass(0).await;
    for _ in 0..3 {
        assert_eq!(server.post(MAPS, map("m")).await.code, 500);
    }
}

/// The binding of the pod `name` to the node `n`.
fn binding(name: &str) -> Value {
    json!({"metadata": {"name": name}, "target": {"apiVersion": "v1", "kind": "Node", "name": "n"}})
}

fn node(name: &str) -> (String, Value) {
    ("/api/v1/nodes".to_owned(), json!({"metadata": {"name": name}}))
}

#[tokio::test]
async fn the_pods_of_a_dead_webhook_are_bound_started_and_told_of() {
    let mut server = with_dead_webhook("own-service").await;
    let authenticator = Authenticator::new(&ORCH, TokenTable::default(), AnonymousAccess::Refused);
    server.pipeline.gate = Gate::with_service_accounts(&ORCH, authenticator, Arc::new(accounts(elliptic())));
    let sources = json!([{"serviceAccountToken": {"path": "token", "audience": "a"}}]);
    let pods = [("own", "hook"), ("own2", "hook"), ("other", "other")].map(|(name, app)| {
        let mut pod = labelled_pod(name, app);
        pod["spec"]["serviceAccountName"] = json!("robot");
        pod["spec"]["volumes"] = json!([{"name": "v", "projected": {"sources": sources.clone()}}]);
        (PODS.to_owned(), pod)
    });
    let bound = (format!("{PODS}/other/binding"), binding("other"));
    let robot = (ACCOUNTS.to_owned(), json!({"metadata": {"name": "robot"}}));
    make_bypassed(&server, pods.into_iter().chain([node("n"), bound, robot])).await;

    let (scheduler, kubelet) = (user("system:orch-scheduler", &[]), user("system:node:n", &["system:nodes"]));
    let zoe = user("zoe", &["system:masters"]);
    let send = async |user: &User, (method, kind): (Method, &str), path: &str, object: Value| {
        let reply = server.send_as(user, method, path, kind, &object.to_string()).await;
        let is_refused = reply.json.to_string().contains("failed calling webhook");
        assert_eq!(is_refused, reply.code == 500, "{}", reply.json);
        !is_refused
    };
    let bind = async |user: &User, path: &str, name: &str| {
        send(user, (Method::POST, JSON), &format!("/api/v1/namespaces/ns/{path}"), binding(name)).await
    };
    assert!(!bind(&scheduler, "pods/other/binding", "other").await);
    assert!(!bind(&scheduler, "bindings", "other").await);
    assert!(!bind(&zoe, "pods/own/binding", "own").await);
    assert!(bind(&scheduler, "pods/own/binding", "own").await);
    assert!(bind(&scheduler, "bindings", "own2").await);

    let run = async |user: &User, name: &str| {
        let phase = json!({"status": {"phase": "Running"}});
        send(user, (Method::PATCH, MERGE), &format!("{PODS}/{name}/status"), phase).await
    };
    assert!(run(&kubelet, "own").await);
    assert!(!run(&kubelet, "other").await && !run(&zoe, "own").await);

    let token = async |user: &User, pod: &str| {
        let uid = server.get(&format!("{PODS}/{pod}")).await.json["metadata"]["uid"].clone();
        let bound = json!({"kind": "Pod", "apiVersion": "v1", "name": pod, "uid": uid});
        let asked = json!({"spec": {"audiences": ["a"], "boundObjectRef": bound}});
        send(user, (Method::POST, JSON), &format!("{ACCOUNTS}/robot/token"), asked).await
    };
    assert!(token(&kubelet, "own").await);
    assert!(!token(&kubelet, "other").await && !token(&zoe, "own").await);

    let remove = async |user: &User, name: &str| {
        let now = json!({"gracePeriodSeconds": 0});
        send(user, (Method::DELETE, JSON), &format!("{PODS}/{name}"), now).await
    };
    assert!(!remove(&kubelet, "other").await && !remove(&zoe, "own").await);
    assert!(remove(&kubelet, "own").await && remove(&User::server(), "own2").await);
}

#[tokio::test]
async fn a_node_that_returns_says_so_past_a_dead_webhook() {
    let server = with_dead_webhook("own-service").await;
    make_bypassed(&server, [node("n"), node("n2")]).await;
    let (kubelet, zoe) = (user("system:node:n", &["system:nodes"]), user("zoe", &["system:masters"]));
    let patch = async |user: &User, path: &str, document: Value| {
        let path = format!("/api/v1/nodes/{path}");
        server.send_as(user, Method::PATCH, &path, MERGE, &document.to_string()).await.code
    };
    let ready = || json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    let labels = || json!({"metadata": {"labels": {"a": "b"}}});
    assert_eq!(patch(&kubelet, "n/status", ready()).await, 200);
    assert_ne!(patch(&kubelet, "n2/status", ready()).await, 200);
    assert_eq!(patch(&zoe, "n/status", ready()).await, 500);
    assert_eq!(patch(&kubelet, "n", labels()).await, 500);
    assert_eq!(patch(&zoe, "n", labels()).await, 500);
    // Taints: pods are bound to no node that is taken for lost.
    assert_eq!(patch(&User::server(), "n", json!({"spec": {"taints": []}})).await, 200);
}

#[tokio::test]
async fn an_editor_of_a_dead_webhooks_namespace_writes_nothing_past_it_directly() {
    let server = with_dead_webhook("own-service").await;
    let editor = user("zoe", &["system:masters"]);
    let account = user("system:serviceaccount:ns:hook", &["system:masters"]);
    let post = async |user: &User, path: &str, object: Value| {
        server.send_as(user, Method::POST, path, JSON, &object.to_string()).await.code
    };
    let core = |resource: &str| format!("/api/v1/namespaces/ns/{resource}");
    let leases = "/apis/coordination.orch.io/v1/namespaces/ns/leases";
    let slices = "/apis/discovery.orch.io/v1/namespaces/ns/endpointslices";
    let slice = |name: &str| {
        let metadata = json!({"name": name, "labels": {"orch.io/service-name": name}});
        json!({"metadata": metadata, "addressType": "IPv4", "endpoints": []})
    };
    let named = |name: &str| json!({"metadata": {"name": name}});
    let token = json!({
        "metadata": {"name": "t", "annotations": {"orch.io/service-account.name": "admin"}},
        "type": "orch.io/service-account-token",
    });
    for user in [&editor, &account] {
        assert_eq!(post(user, PODS, labelled_pod("p", "hook")).await, 500, "{}", user.name);
        assert_eq!(post(user, &core("endpoints"), named("hook")).await, 500, "{}", user.name);
        assert_eq!(post(user, slices, slice("hook")).await, 500, "{}", user.name);
        assert_eq!(post(user, &core("secrets"), token.clone()).await, 500, "{}", user.name);
        // The selector stays the one that the webhook saw.
        let selector = json!({"spec": {"selector": {"app": "other"}}}).to_string();
        let path = core("services/hook");
        assert_eq!(server.send_as(user, Method::PATCH, &path, MERGE, &selector).await.code, 500);
        assert_eq!(server.send_as(user, Method::DELETE, &path, JSON, "").await.code, 500);
    }
    assert_eq!(post(&editor, &core("secrets"), named("s")).await, 500);
    assert_eq!(post(&account, &core("secrets"), named("s")).await, 201, "its certificate");
    assert_eq!(post(&account, leases, lease("l")).await, 201, "its election");
    assert_eq!(server.send_as(&account, Method::DELETE, &core("secrets/s"), JSON, "").await.code, 500);
    let loops = User::server();
    assert_eq!(post(&loops, slices, slice("hook")).await, 201);
    assert_eq!(post(&loops, slices, slice("other")).await, 500);
    assert_eq!(post(&loops, &core("endpoints"), named("hook")).await, 201);
}

#[tokio::test]
async fn a_bypass_ends_by_itself() {
    let (server, caller) = served(|_| unreachable()).await;
    configure(&server, VALIDATING, "v", vec![webhook("v", "/v", json!({}))]).await;
    assert_eq!(server.post(MAPS, map("a")).await.code, 500);
    let until = |seconds: u64| {
        let time = Timestamp(server.ambient.now().0 + seconds * 1_000_000).seconds_text();
        json!({"metadata": {"annotations": {"lockout.admission.orch.io/bypass-until": time}}})
    };
    server.merge(&format!("{VALIDATING}/v"), until(600)).await.object();
    server.create(MAPS, map("a")).await;
    server.advance(601);
    assert_eq!(server.post(MAPS, map("b")).await.code, 500);
    server.merge(&format!("{VALIDATING}/v"), until(100_000)).await.object();
    assert_eq!(server.post(MAPS, map("b")).await.code, 500, "a day is the longest");
    assert_eq!(caller.calls().len(), 3);
}

#[tokio::test]
async fn deletions_by_the_loops_that_clean_up_pass_a_dead_webhook_where_its_configuration_says_so() {
    let (off, on) =
        (with_dead_webhook("own-service").await, with_dead_webhook("own-service, clean-up").await);
    let account =
        |namespace: &str, name: &str| user(&format!("system:serviceaccount:{namespace}:{name}"), &[]);
    let cleaners = [
        account(ORCH.system_namespace, "generic-garbage-collector"),
        account(ORCH.system_namespace, "namespace-controller"),
        User::server(),
    ];
    let others = [
        user("zoe", &["system:masters"]),
        account("ns", "generic-garbage-collector"),
        account(ORCH.system_namespace, "replicaset-controller"),
    ];
    for server in [&off, &on] {
        make_bypassed(server, (0..3).map(|at| (MAPS.to_owned(), map(&format!("m{at}"))))).await;
    }
    let code = async |server: &Server, user: &User, method: Method, at: usize, body: &str| {
        let kind = if method == Method::PATCH { MERGE } else { JSON };
        server.send_as(user, method, &format!("{MAPS}/m{at}"), kind, body).await.code
    };
    for user in &others {
        assert_eq!(code(&on, user, Method::DELETE, 0, "").await, 500, "{}", user.name);
    }
    for (at, user) in cleaners.iter().enumerate() {
        let change = r#"{"data": {"k": "changed"}}"#;
        assert_eq!(code(&on, user, Method::PATCH, at, change).await, 500, "{}", user.name);
        assert_eq!(code(&off, user, Method::DELETE, at, "").await, 500, "{}", user.name);
        assert_eq!(code(&on, user, Method::DELETE, at, "").await, 200, "{}", user.name);
    }
}
