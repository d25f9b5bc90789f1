//! Definitions of the field, applied by the program through one member of three and used at once through the others, to the end
//! of their objects on all.

use orch_cluster_tests::client::Client;
use orch_cluster_tests::cluster::{Cluster, Options};
use serde_json::{Value, json};

use super::{KUBECTL, Session};

/// Projects of the corpus with samples that were accepted, and several definitions in all.
const PROJECTS: [&str; 4] = ["external-dns", "medik8s", "node-feature-discovery", "sealed-secrets"];

/// Path of definitions.
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// The files of a project: definitions, and the first sample that the reference took.
struct Published {
    definitions: Vec<Value>,
    /// The collection of the sample, and the sample.
    sample: (String, Value),
}

impl Published {
    fn of(scenario: &Value) -> Published {
        let steps = scenario["steps"].as_array().unwrap();
        let posts = |path: &str| steps.iter().find(|step| step["do"] == format!("POST {path}"));
        assert!(posts(DEFINITIONS).is_some(), "{} has definitions", scenario["name"]);
        let is_definition = |step: &&Value| step["do"] == format!("POST {DEFINITIONS}");
        let definitions = steps.iter().filter(is_definition).map(|step| step["body"].clone()).collect();
        let sample = steps.iter().find_map(|step| {
            let path = step["do"].as_str()?.strip_prefix("POST ")?.split('?').next()?;
            let is_taken =
                step["expect"]["status"] == 201 && path.starts_with("/apis/") && path != DEFINITIONS;
            is_taken.then(|| (path.to_owned(), step["body"].clone()))
        });
        Published { definitions, sample: sample.unwrap() }
    }

    fn all() -> Vec<Published> {
        let text = include_str!("../../../corpus/corpus.json");
        let scenarios: Vec<Value> = serde_json::from_str(text).unwrap();
        let chosen = scenarios.iter().filter(|found| PROJECTS.contains(&found["name"].as_str().unwrap()));
        let published: Vec<Published> = chosen.map(Published::of).collect();
        assert_eq!(published.len(), PROJECTS.len());
        published
    }

    /// The namespace of the sample.
    fn namespace(&self) -> Option<&str> {
        self.sample.0.split("/namespaces/").nth(1)?.split('/').next()
    }

    /// The path of all objects of the sample's kind.
    fn collection(&self) -> String {
        let (path, _) = &self.sample;
        match (path.split_once("/namespaces/"), path.rsplit_once('/')) {
            (Some((version, _)), Some((_, plural))) => format!("{version}/{plural}"),
            _ => path.clone(),
        }
    }

    fn name(&self) -> &str {
        self.sample.1["metadata"]["name"].as_str().unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn definitions_of_the_field_are_in_force_on_every_member_and_end_with_their_objects() {
    if std::process::Command::new(KUBECTL).args(["version", "--client"]).output().is_err() {
        eprintln!("SKIPPED: {KUBECTL} is not installed");
        return;
    }
    let cluster = Cluster::start(Options { brand: "kubernetes", ..Options::nodes(3) }).await.unwrap();
    let clients: Vec<Client> = (0..3).map(|node| cluster.client(node).unwrap()).collect();
    let sessions: Vec<Session> = (0..3).map(|node| Session::through(&cluster, node)).collect();
    let published = Published::all();
    let namespaces: std::collections::BTreeSet<&str> =
        published.iter().filter_map(Published::namespace).filter(|name| *name != "default").collect();
    for name in namespaces {
        let namespace = json!({"metadata": {"name": name}});
        clients[0].post("/api/v1/namespaces", &namespace).await.unwrap().success().unwrap();
    }
    let definitions: Vec<&Value> = published.iter().flat_map(|published| &published.definitions).collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": definitions});
    let file = sessions[0].file("definitions.json", &list.to_string());
    sessions[0].text(&["apply", "--server-side", "-f", &file]);

    // In force where names are accepted, five seconds before it is told to everyone as `Established`.
    sessions[0].text(&["wait", "--for=condition=NamesAccepted", "--timeout=60s", "-f", &file]);
    use_at_once(&clients, &published).await;
    sessions[0].text(&["wait", "--for=condition=Established", "--timeout=60s", "-f", &file]);
    for (at, project) in published.iter().enumerate() {
        let (through, other) = (&sessions[1 + at % 2], &sessions[1 + (at + 1) % 2]);
        show(through, other, project);
    }
    sessions[1].text(&["delete", "--timeout=60s", "-f", &file]);
    are_gone(&clients, &published).await;

    // Made again through another member, no kind has an object of before.
    sessions[2].text(&["apply", "--server-side", "-f", &file]);
    sessions[2].text(&["wait", "--for=condition=NamesAccepted", "--timeout=60s", "-f", &file]);
    for project in &published {
        for client in &clients {
            let found = client.get(&project.collection()).await.unwrap().success().unwrap();
            assert_eq!(found["items"], json!([]), "{}", project.collection());
        }
    }
}

/// Lists by the other members no older than the definitions, and creates the samples through them.
async fn use_at_once(clients: &[Client], published: &[Published]) {
    let newest = clients[0].get(DEFINITIONS).await.unwrap().success().unwrap();
    let version = newest["metadata"]["resourceVersion"].as_str().unwrap();
    for (at, project) in published.iter().enumerate() {
        let (first, second) = (&clients[1 + at % 2], &clients[1 + (at + 1) % 2]);
        let path = format!("{}?resourceVersion={version}", project.collection());
        let empty = first.get(&path).await.unwrap().success().unwrap();
        assert_eq!(empty["items"], json!([]), "{path}");
        let (collection, sample) = &project.sample;
        second.post(collection, sample).await.unwrap().success().unwrap();
        let object = format!("{collection}/{}", project.name());
        first.get(&object).await.unwrap().success().unwrap();
    }
}

/// Applies a sample once more through one member, and shows it through another.
fn show(through: &Session, other: &Session, project: &Published) {
    let (name, namespace) = (project.name(), project.namespace().unwrap_or("default"));
    let file = through.file("sample.json", &project.sample.1.to_string());
    through.text(&["apply", "--server-side", "--force-conflicts", "-n", namespace, "-f", &file]);
    let shown = other.text(&["get", "-n", namespace, "-f", &file, "-o", "name"]);
    assert!(shown.trim().ends_with(&format!("/{name}")), "{shown}");
}

/// No member serves the kinds any more, or shows one of their definitions.
async fn are_gone(clients: &[Client], published: &[Published]) {
    for client in clients {
        let left = client.get(DEFINITIONS).await.unwrap().success().unwrap();
        assert_eq!(left["items"], json!([]), "through {}", client.endpoint());
        for project in published {
            let path = project.collection();
            assert_eq!(client.get(&path).await.unwrap().status, 404, "{path} through {}", client.endpoint());
        }
    }
}
