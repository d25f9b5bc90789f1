//! The phases of admission around the stages of a write: what plugins see in each, how often, and what counts of what they do.

use std::sync::Mutex;

use futures::future::Either;
use orch_raft::{Condition, Key};
use orch_rules::Action;

use super::*;
use crate::admission::{Additions, Attributes, Chain, Operation, Plugin, Refusal, Ruling, View, rule};
use crate::ambient::suffix_text;
use crate::error::ApiError;

/// The changes that a [`Scripted`] plugin makes to an object.
type Change = Box<dyn Fn(&mut Value) + Send + Sync>;

/// A plugin that notes what it is shown of writes of one resource, and does what a test says.
struct Scripted {
    storage: &'static str,
    notes: Notes,
    /// Of a new or changed object, while it mutates.
    change: Option<Change>,
    /// Whether every ruling is a future.
    waits: bool,
    /// Refusals of the reserving phase, in their order.
    reserving: Mutex<Vec<Refusal>>,
    /// Refusals of the mutating phase, in their order.
    mutating: Mutex<Vec<Refusal>>,
}

type Notes = Arc<Mutex<Vec<String>>>;

fn scripted(storage: &'static str) -> (Scripted, Notes) {
    let notes = Notes::default();
    let plugin = Scripted {
        storage,
        notes: notes.clone(),
        change: None,
        waits: false,
        reserving: Mutex::default(),
        mutating: Mutex::default(),
    };
    (plugin, notes)
}

impl Scripted {
    fn changing(mut self, change: impl Fn(&mut Value) + Send + Sync + 'static) -> Scripted {
        self.change = Some(Box::new(change));
        self
    }

    fn note(&self, phase: &str, attributes: &Attributes<'_>, object: Option<&Value>) {
        let shown = object.map_or("none".to_owned(), |object| object["metadata"].to_string());
        let Attributes { operation, name, .. } = attributes;
        self.notes.lock().unwrap().push(format!("{phase} {operation:?} {name} {shown}"));
    }

    fn ruling<'a>(&self, result: Result<(), Refusal>) -> Ruling<'a> {
        match self.waits {
            false => rule(result),
            true => Either::Right(Box::pin(async {
                tokio::task::yield_now().await;
                result
            })),
        }
    }
}

impl Plugin for Scripted {
    fn name(&self) -> &'static str {
        "Scripted"
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        *attributes.resource.storage == *self.storage
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a mut Value>,
        _view: &'a View,
        _additions: &'a mut Additions,
    ) -> Ruling<'a> {
        self.note("mutate", attributes, object.as_deref());
        if let Some(refusal) = self.mutating.lock().unwrap().pop() {
            return self.ruling(Err(refusal));
        }
        if let (Some(change), Some(object)) = (&self.change, object) {
            change(object);
        }
        self.ruling(Ok(()))
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a Value>,
        _view: &'a View,
        _additions: &'a mut Additions,
    ) -> Ruling<'a> {
        self.note("validate", attributes, object);
        self.ruling(Ok(()))
    }

    fn reserve(
        &self,
        attributes: &Attributes<'_>,
        _object: Option<&Value>,
        _view: &View,
        _additions: &mut Additions,
    ) -> Result<(), Refusal> {
        self.note("reserve", attributes, None);
        self.reserving.lock().unwrap().pop().map_or(Ok(()), Err)
    }
}

async fn server_with(plugins: Vec<Box<dyn Plugin>>) -> Server {
    let mut server = Server::new().await;
    server.pipeline.admission = Chain::new(plugins);
    server
}

fn taken(notes: &Notes) -> Vec<String> {
    std::mem::take(&mut *notes.lock().unwrap())
}

#[tokio::test]
async fn a_new_object_gets_uid_and_name_between_the_phases() {
    let (plugin, notes) = scripted("configmaps");
    let plugin = plugin.changing(|map| {
        map["metadata"]["uid"] = json!("plugin");
        map["metadata"]["deletionTimestamp"] = json!("2026-01-02T03:04:05Z");
    });
    let server = server_with(vec![Box::new(plugin)]).await;
    let sent = json!({"metadata": {"generateName": "m-", "uid": "mine", "creationTimestamp": "2001-01-01T00:00:00Z"}});
    let created = server.create(MAPS, sent).await;
    let metadata = &created["metadata"];
    let (name, uid) = (metadata["name"].as_str().unwrap(), metadata["uid"].as_str().unwrap());
    assert!(
        name.starts_with("m-") && uid.len() == 36 && metadata["deletionTimestamp"].is_null(),
        "{created}"
    );
    let noted = taken(&notes);
    assert!(noted[0].starts_with("mutate Create m- "), "{noted:?}");
    // few: two fields.
    assert!(
        ["uid", "creationTimestamp", "\"name\""].iter().all(|field| !noted[0].contains(field)),
        "{noted:?}"
    );
    assert!(noted[1].starts_with(&format!("validate Create {name} ")) && noted[1].contains(uid), "{noted:?}");
    assert_eq!(noted[2..], [format!("reserve Create {name} none")]);
}

#[tokio::test]
async fn a_plugin_may_name_a_new_object_and_moves_it_nowhere() {
    let named = |name: &'static str| {
        let (plugin, _) = scripted("configmaps");
        plugin.changing(move |map| map["metadata"]["name"] = json!(name))
    };
    let server = server_with(vec![Box::new(named("given"))]).await;
    let created = server.create(MAPS, json!({"metadata": {"generateName": "m-"}})).await;
    assert_eq!(created["metadata"]["name"], "given");
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    let applied = server.apply(&format!("{MAPS}/a"), "m", config).await;
    let text = "the name of the object (given) does not match the name on the URL (a)";
    assert_eq!(applied.refusal(), (400, text));
    let (plugin, _) = scripted("configmaps");
    let server =
        server_with(vec![Box::new(plugin.changing(|map| map["metadata"]["namespace"] = json!("elsewhere")))])
            .await;
    let text = "the namespace of the provided object does not match the namespace sent on the request";
    assert_eq!(server.post(MAPS, map("a")).await.refusal(), (400, text));
}

#[tokio::test]
async fn a_name_that_is_taken_is_drawn_again() {
    for waits in [false, true] {
        let (mut plugin, notes) = scripted("configmaps");
        plugin.waits = waits;
        let server = server_with(vec![Box::new(plugin)]).await;
        let next = server.ambient.count.load(Ordering::Relaxed);
        // The first two numbers are uid and name of the first try.
        let first = format!("m-{}", suffix_text(u128::from(next + 3)));
        server.create(MAPS, map(&first)).await;
        assert_eq!(server.ambient.count.load(Ordering::Relaxed), next + 1);
        server.ambient.count.store(next + 2, Ordering::Relaxed);
        taken(&notes);
        let created = server.create(MAPS, json!({"metadata": {"generateName": "m-"}})).await;
        assert_ne!(created["metadata"]["name"], first.as_str());
        let asked = taken(&notes);
        let mutated = asked.iter().filter(|note| note.starts_with("mutate")).count();
        // A ruling that is ready may be asked for again; one that may have had effects is not.
        assert_eq!(mutated, if waits { 1 } else { 2 }, "{asked:?}");
    }
}

#[tokio::test]
async fn a_deletion_passes_both_phases_without_an_object() {
    let (plugin, notes) = scripted("configmaps");
    let server = server_with(vec![Box::new(plugin)]).await;
    server.create(MAPS, map("a")).await;
    taken(&notes);
    assert_eq!(server.delete(&format!("{MAPS}/a"), json!({"gracePeriodSeconds": 0})).await.code, 200);
    let expected = ["mutate Delete a none", "validate Delete a none", "reserve Delete a none"];
    assert_eq!(taken(&notes), expected);
}

/// Notes the options of each write.
struct Optioned(Notes);

impl Plugin for Optioned {
    fn name(&self) -> &'static str {
        "Optioned"
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        attributes.action == Action::Object
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        _object: Option<&'a mut Value>,
        _view: &'a View,
        _additions: &'a mut Additions,
    ) -> Ruling<'a> {
        self.0.lock().unwrap().push(attributes.options().unwrap().to_string());
        rule(Ok(()))
    }
}

#[tokio::test]
async fn plugins_see_the_options_of_each_write() {
    let notes = Notes::default();
    let server = server_with(vec![Box::new(Optioned(notes.clone()))]).await;
    let path = format!("{MAPS}/a");
    server.create(&format!("{MAPS}?fieldValidation=Strict"), map("a")).await;
    let replaced = server.put(&format!("{path}?fieldManager=me&dryRun=All"), map("a")).await;
    assert_eq!(replaced.code, 200);
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    assert_eq!(server.apply(&format!("{path}?force=true"), "ap", config).await.code, 200);
    let options = json!({"propagationPolicy": "Background"});
    assert_eq!(server.delete(&format!("{path}?gracePeriodSeconds=0"), options).await.code, 200);
    let of = |kind: &str, more: &str| format!(r#"{{"kind":"{kind}","apiVersion":"meta.orch.io/v1"{more}}}"#);
    assert_eq!(
        taken(&notes),
        [
            of("CreateOptions", r#","fieldValidation":"Strict""#),
            of("UpdateOptions", r#","dryRun":["All"],"fieldManager":"me""#),
            of("UpdateOptions", r#","fieldManager":"ap""#),
            of("DeleteOptions", r#","propagationPolicy":"Background","gracePeriodSeconds":0"#),
        ]
    );
}

#[tokio::test]
async fn rights_are_judged_of_a_role_as_plugins_left_it() {
    let (plugin, _) = scripted("roles.rbac.authorization");
    let plugin = plugin.changing(|role| {
        role["rules"] = json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]);
    });
    let server = server_with(vec![Box::new(plugin)]).await;
    let user = User { name: "ann".to_owned(), ..User::default() };
    let roles = "/apis/rbac.authorization.orch.io/v1/namespaces/ns/roles";
    let harmless = json!({"metadata": {"generateName": "r-"}, "rules": []}).to_string();
    let refused = server.send_as(&user, Method::POST, roles, JSON, &harmless).await;
    assert_eq!(refused.code, 403, "{}", refused.json);
    let told = refused.refusal().1;
    assert!(told.starts_with("roles.rbac.authorization.orch.io is forbidden: user \"ann\""), "{told}");
    let stored = server.create(roles, json!({"metadata": {"name": "r"}, "rules": []})).await;
    assert_eq!(stored["rules"][0]["verbs"], json!(["*"]), "the administrator may");
    let patch = json!({"metadata": {"labels": {"a": "b"}}}).to_string();
    let patched = server.send_as(&user, Method::PATCH, &format!("{roles}/r"), MERGE, &patch).await;
    assert_eq!(patched.code, 403, "a change is judged with its label: {}", patched.json);
}

#[tokio::test]
async fn reviews_pass_admission_and_tell_nothing_of_namespaces() {
    let (plugin, notes) = scripted("localsubjectaccessreviews.authorization");
    let mut server = server_with(vec![Box::new(plugin)]).await;
    let path = "/apis/authorization.orch.io/v1/namespaces/absent/localsubjectaccessreviews";
    let attributes = json!({"namespace": "absent", "verb": "get", "resource": "pods"});
    let review = json!({"spec": {"user": "ann", "resourceAttributes": attributes}});
    let answered = server.post(path, review.clone()).await;
    assert_eq!(
        (answered.code, &answered.json["status"]["allowed"]),
        (201, &json!(false)),
        "{}",
        answered.json
    );
    let phases: Vec<String> = taken(&notes).iter().map(|note| note[..6].to_owned()).collect();
    assert_eq!(phases, ["mutate", "valida", "reserv"]);
    server.pipeline.admission = Chain::builtin();
    assert_eq!(server.post(path, review).await.code, 201, "there is no such namespace");
    let (refusing, _) = scripted("tokenreviews.authentication");
    refusing.reserving.lock().unwrap().push(Refusal::Final(ApiError::BadRequest("no".to_owned())));
    server.pipeline.admission = Chain::new(vec![Box::new(refusing)]);
    let reviews = "/apis/authentication.orch.io/v1/tokenreviews";
    assert_eq!(server.post(reviews, json!({"spec": {"token": "t"}})).await.refusal(), (400, "no"));
    let empty = server.post(reviews, json!({"spec": {}})).await;
    assert_eq!(empty.refusal(), (400, "token is required for TokenReview in authentication"));
}

#[tokio::test(start_paused = true)]
async fn reserving_is_refused_at_once_looked_at_once_more_or_waited_for() {
    let secrets = "/api/v1/namespaces/ns/secrets";
    for (first, code, tries) in [
        (Refusal::Final(ApiError::BadRequest("no".to_owned())), 400, 1),
        (Refusal::Forbidden("no".to_owned()), 201, 2),
        (Refusal::Awaited("no".to_owned()), 201, 2),
    ] {
        let (plugin, notes) = scripted("configmaps");
        plugin.reserving.lock().unwrap().push(first.clone());
        let server = server_with(vec![Box::new(plugin)]).await;
        // The view of the first try is not the newest one that there is.
        server.create(secrets, json!({"metadata": {"name": "s"}})).await;
        let barriers = || server.pipeline.store.lag.barriers.load(Ordering::Relaxed);
        let before = barriers();
        assert_eq!(server.post(MAPS, map("a")).await.code, code, "{first:?}");
        let reserved = taken(&notes).iter().filter(|note| note.starts_with("reserve")).count();
        assert_eq!(reserved, tries, "{first:?}");
        assert_eq!(barriers() > before, code == 201, "{first:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_waits_while_what_it_reserves_is_made() {
    let (plugin, notes) = scripted("configmaps");
    let server = server_with(vec![Box::new(plugin)]).await;
    server.create(MAPS, map("a")).await;
    let (refusing, _) = scripted("configmaps");
    let awaited = Refusal::Awaited("not yet".to_owned());
    *refusing.reserving.lock().unwrap() = vec![awaited; 3];
    drop(taken(&notes));
    let mut server = server;
    server.pipeline.admission = Chain::new(vec![Box::new(refusing)]);
    let began = tokio::time::Instant::now();
    assert_eq!(server.merge(&format!("{MAPS}/a"), json!({"data": {"k": "w"}})).await.code, 200);
    assert!(began.elapsed() >= std::time::Duration::from_millis(100), "it paused between the looks");
}

/// Changes the object in the first round and asks for a second one, as often as it is asked.
struct Insistent(Notes);

impl Plugin for Insistent {
    fn name(&self) -> &'static str {
        "Insistent"
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        attributes.is("configmaps", &[Operation::Create])
    }

    fn mutate<'a>(
        &'a self,
        _attributes: &'a Attributes<'a>,
        _object: Option<&'a mut Value>,
        _view: &'a View,
        additions: &'a mut Additions,
    ) -> Ruling<'a> {
        let (is_second, before) = (additions.is_second_round(), additions.remembered::<usize>());
        self.0.lock().unwrap().push(format!("second {is_second}, remembers {before:?}"));
        additions.remember(before.map_or(1, |before| *before + 1));
        additions.ask_again();
        rule(Ok(()))
    }
}

#[tokio::test]
async fn a_plugin_that_asks_for_it_has_the_whole_chain_asked_twice_and_never_a_third_time() {
    let ((first, notes), (last, after), own) =
        (scripted("configmaps"), scripted("configmaps"), Notes::default());
    first.mutating.lock().unwrap().push(Refusal::Forbidden("stale".to_owned()));
    let server = server_with(vec![Box::new(first), Box::new(Insistent(own.clone())), Box::new(last)]).await;
    server.create("/api/v1/namespaces/ns/secrets", json!({"metadata": {"name": "s"}})).await;
    server.create(MAPS, map("a")).await;
    assert_eq!(taken(&own), ["second false, remembers None", "second true, remembers Some(1)"]);
    let mutations = |notes: &Notes| taken(notes).iter().filter(|note| note.starts_with("mutate")).count();
    assert_eq!((mutations(&notes), mutations(&after)), (3, 2), "one more in view of the newest state");
}

#[tokio::test]
async fn the_builtin_plugins_change_nothing_in_a_second_round() {
    let mut server = Server::new().await;
    let selection = crate::admission::PluginSelection::default();
    let account = json!({"metadata": {"name": "default"}});
    server.create("/api/v1/namespaces/ns/serviceaccounts", account).await;
    let ranges = "/api/v1/namespaces/ns/limitranges";
    let limits = json!([{"type": "Container", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "1"}}]);
    server.create(ranges, json!({"metadata": {"name": "r"}, "spec": {"limits": limits}})).await;
    server.pipeline.admission = Chain::selected(&selection);
    let once = server.create(&format!("{PODS}?dryRun=All"), pod("p")).await;
    let twice = Notes::default();
    server.pipeline.admission = crate::admission::testing::selected_twice(&selection, twice.clone());
    let again = server.create(&format!("{PODS}?dryRun=All"), pod("p")).await;
    assert_eq!(taken(&twice).len(), 2, "two rounds");
    let comparable = |pod: &Value| {
        let mut pod = pod.clone();
        let volume = pod["spec"]["volumes"][0]["name"].as_str().unwrap().to_owned();
        pod["metadata"]["uid"] = json!("u");
        pod.to_string().replace(&volume, "volume")
    };
    assert_eq!(comparable(&once), comparable(&again));
}

/// A condition that does not hold as long as the object is absent.
fn exists(name: &str) -> Condition {
    Condition::Exists(Key::new(&"secrets".into(), "ns", name).unwrap())
}

/// Requires a secret in the reserving phase of config maps, and makes it in the second view.
struct Late(Mutex<usize>);

impl Plugin for Late {
    fn name(&self) -> &'static str {
        "Late"
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        attributes.operation == Operation::Delete && !attributes.dry_run
    }

    fn reserve(
        &self,
        _attributes: &Attributes<'_>,
        _object: Option<&Value>,
        _view: &View,
        additions: &mut Additions,
    ) -> Result<(), Refusal> {
        let mut views = self.0.lock().unwrap();
        *views += 1;
        if *views < 3 {
            additions.require(exists("never"));
        }
        Ok(())
    }
}

#[tokio::test]
async fn plugins_are_asked_about_each_version_of_a_budget_once() {
    let (mut budgets, notes) = scripted("poddisruptionbudgets.policy");
    budgets.waits = true;
    let mut server = Server::new().await;
    server.evictable("p").await;
    server.pipeline.admission = Chain::new(vec![Box::new(budgets), Box::new(Late(Mutex::new(0)))]);
    let evict = |query: &str| {
        let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}});
        let path = format!("{PODS}/p/eviction{query}");
        let server = &server;
        async move { server.post(&path, eviction).await }
    };
    assert_eq!(evict("?dryRun=All").await.code, 201);
    assert_eq!(taken(&notes), [""; 0], "a dry run writes no budget");
    let evicted = evict("").await;
    assert_eq!(evicted.code, 201, "{}", evicted.json);
    let phases: Vec<String> = taken(&notes).iter().map(|note| note[..6].to_owned()).collect();
    assert_eq!(phases, ["mutate", "valida", "reserv", "reserv", "reserv"], "one version, three views");
}

#[tokio::test]
async fn a_final_refusal_of_a_budget_ends_the_eviction_at_once() {
    let (budgets, notes) = scripted("poddisruptionbudgets.policy");
    let no = Refusal::Final(ApiError::BadRequest("no".to_owned()));
    *budgets.mutating.lock().unwrap() = vec![no; 2];
    let mut server = Server::new().await;
    server.evictable("p").await;
    server.pipeline.admission = Chain::new(vec![Box::new(budgets)]);
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}});
    assert_eq!(server.post(&format!("{PODS}/p/eviction"), eviction).await.refusal(), (400, "no"));
    assert_eq!(taken(&notes).len(), 1);
    assert_eq!(server.get(&format!("{PODS}/p")).await.code, 200);
}
