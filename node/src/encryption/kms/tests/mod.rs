//! A real disk with keys of a pretended plugin: starts, restarts, changes of the plugin's key, failures and hostile answers.

mod pretend;
mod reload;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use http::Request;
use orch_api::ambient::SystemAmbient;
use orch_api::authn::{AnonymousAccess, Authenticator, Peer, TokenTable};
use orch_api::gate::Gate;
use orch_api::http::Api;
use orch_api::paging::TokenKey;
use orch_api::pipeline::{Features, Pipeline};
use orch_api::registry::Registry;
use orch_proto::brand::ORCH;
use orch_proto::kms::v2::EncryptResponse;
use orch_raft::disk::cipher::RecordCipher;
use orch_raft::disk::rocks::{DataDirectory, OpenError, RocksDisk};
use orch_raft::disk::{Disk, StateBatch, StateWrite};
use orch_raft::memory::MemoryStore;
use orch_serving::Causes;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use self::pretend::{Behaviour, Pretend, healthy};
use super::Pace;
use crate::encryption::{EncryptionError, Keyring, Reload};
use crate::run::with_kms_check;

/// Longer than anything takes on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Looks at the plugin all the time, and does not wait for it at a start.
const PACE: Pace = Pace {
    healthy: Duration::from_millis(5),
    failing: Duration::from_millis(5),
    start: Duration::ZERO,
    retry: Duration::from_millis(5),
};

/// Folder of a test: configuration, socket and store.
struct Place(TempDir);

impl Place {
    fn new() -> Place {
        let place = Place(tempfile::tempdir().unwrap());
        place.configure(&[&place.plugin("2s")]);
        place
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn plugin(&self, timeout: &str) -> String {
        plugin_in(self.path(), timeout)
    }

    fn configure(&self, providers: &[&str]) {
        let head = "apiVersion: apiserver.config.orch.io/v1\nkind: EncryptionConfiguration\n";
        let text =
            format!("{head}resources:\n- resources: [secrets]\n  providers: [{}]\n", providers.join(", "));
        std::fs::write(self.path().join("keys.yaml"), text).unwrap();
    }

    fn load(&self, pace: Pace) -> Arc<Keyring> {
        Arc::new(Keyring::load_with(&self.path().join("keys.yaml"), pace).unwrap())
    }

    fn open_with(&self, keys: &Arc<Keyring>) -> Result<RocksDisk, OpenError> {
        let cipher: Arc<dyn RecordCipher> = keys.clone();
        RocksDisk::open_locked(DataDirectory::lock(&self.path().join("store"))?, Some(cipher))
    }

    fn open(&self) -> Result<(Arc<Keyring>, RocksDisk), OpenError> {
        let keys = self.load(PACE);
        let disk = self.open_with(&keys)?;
        Ok((keys, disk))
    }

    /// The message of a start that is refused.
    fn refusal(&self) -> String {
        Causes(&self.open().map(drop).unwrap_err()).to_string()
    }
}

/// The configuration of the plugin whose socket is in `folder`.
fn plugin_in(folder: &Path, timeout: &str) -> String {
    let socket = folder.join("kms.sock");
    format!(
        "{{kms: {{apiVersion: v2, name: vault, endpoint: 'unix://{}', timeout: {timeout}}}}}",
        socket.display()
    )
}

fn write(disk: &RocksDisk, name: &str) {
    let (sender, told) = channel();
    let record = Some(Bytes::from(format!("content of {name}")));
    let write = StateWrite { resource: "secrets".into(), path: name.into(), record };
    let generation = disk.generation().unwrap();
    let batch = StateBatch { generation, writes: vec![write], ..StateBatch::default() };
    disk.write_state(batch, Box::new(move |done| drop(sender.send(done))));
    told.recv().unwrap().unwrap();
}

fn names(disk: &RocksDisk) -> Vec<String> {
    let mut found = BTreeMap::new();
    disk.read_state(&mut |_, path, record| drop(found.insert(path.to_owned(), record))).unwrap();
    assert!(found.iter().all(|(name, record)| *record == format!("content of {name}")));
    found.into_keys().collect()
}

fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn writing_key(keys: &Keyring) -> String {
    keys.writing_key(&["secrets"]).unwrap().to_string()
}

#[test]
fn a_restart_asks_once_and_no_record_asks() {
    let place = Place::new();
    let plugin = Pretend::start(place.path(), "one");
    let (keys, disk) = place.open().unwrap();
    let key = writing_key(&keys);
    assert!(key.starts_with("kms:vault:") && keys.plugins_are_healthy());
    (0..50).for_each(|number| write(&disk, &number.to_string()));
    assert_eq!(names(&disk).len(), 50);
    drop((disk, keys));
    let (keys, disk) = place.open().unwrap();
    assert_eq!((writing_key(&keys), names(&disk).len()), (key, 50), "the stored data key is used again");
    write(&disk, "more");
    drop((disk, keys));
    let Behaviour { encrypts, decrypts, .. } = plugin.stop();
    assert_eq!((encrypts, decrypts), (1, 2), "sealed, opened to see that it can be, and opened at the start");
}

#[test]
fn a_new_key_of_the_plugin_gets_new_records_and_a_rewrite_frees_the_old_one() {
    let place = Place::new();
    let plugin = Pretend::start(place.path(), "one");
    let (keys, disk) = place.open().unwrap();
    write(&disk, "old");
    let old = writing_key(&keys);
    plugin.behaviour.lock().turn_to("two and more");
    wait_until("a new data key", || writing_key(&keys) != old);
    write(&disk, "new");
    let new = writing_key(&keys);
    drop((disk, keys));

    let (keys, disk) = place.open().unwrap();
    assert_eq!(names(&disk), ["new", "old"]);
    assert_eq!(writing_key(&keys), new);
    let done = disk.rewrite(&mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!((done.progress.rewritten, done.unneeded), (1, vec![old]));
    drop((disk, keys));
    plugin.behaviour.lock().keys.remove("one");
    let (_, disk) = place.open().unwrap();
    assert_eq!(names(&disk), ["new", "old"]);
}

#[test]
fn without_its_plugin_a_node_does_not_start_and_names_it() {
    let place = Place::new();
    let told = place.refusal();
    assert!(
        told.contains("KMS plugin vault (unix:///") && told.contains("kms.sock): Status failed"),
        "{told}"
    );
    let plugin = Pretend::start(place.path(), "one");
    let (keys, disk) = place.open().unwrap();
    write(&disk, "a");
    let key = writing_key(&keys);
    drop((disk, keys));
    let behaviour = plugin.stop();
    let told = place.refusal();
    assert!(told.contains(&format!("key {key} cannot be used")), "{told}");

    // A plugin that starts together with the node is waited for.
    let patient = place.load(Pace { start: PATIENCE, ..PACE });
    std::thread::scope(|scope| {
        let opened = scope.spawn(|| place.open_with(&patient).map(|disk| names(&disk)));
        let plugin = Pretend::start_as(place.path(), behaviour);
        assert_eq!(opened.join().unwrap().unwrap(), ["a"]);
        drop(plugin);
    });
}

#[test]
fn a_running_node_goes_on_without_its_plugin() {
    let place = Place::new();
    let plugin = Pretend::start(place.path(), "one");
    let (keys, disk) = place.open().unwrap();
    write(&disk, "a");
    let behaviour = plugin.stop();
    wait_until("an unhealthy plugin", || !keys.plugins_are_healthy());
    write(&disk, "b");
    assert_eq!(names(&disk), ["a", "b"]);
    let plugin = Pretend::start_as(place.path(), behaviour);
    wait_until("a healthy plugin", || keys.plugins_are_healthy());
    assert_eq!(plugin.stop().encrypts, 1, "the data key stays");
}

/// The code of a health check over HTTP.
fn check(router: &Router, path: &str) -> u16 {
    let address = ([127, 0, 0, 1], 1).into();
    let peer = Arc::new(Peer { address, certificate: None, local_admin: true, is_front_proxy: false });
    let request = Request::builder().uri(path).extension(peer).body(Body::empty()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(router.clone().oneshot(request)).unwrap().status().as_u16()
}

#[test]
fn a_failing_plugin_makes_its_node_unready_and_keeps_it_alive() {
    let place = Place::new();
    let plugin = Pretend::start(place.path(), "one");
    let (keys, _disk) = place.open().unwrap();
    let authenticator = Authenticator::new(&ORCH, TokenTable::default(), AnonymousAccess::Refused);
    let pipeline = Pipeline::new(
        MemoryStore::default(),
        Registry::builtin(&ORCH),
        TokenKey::new([0; 32]),
        Arc::new(SystemAmbient),
        Features::default(),
        Gate::builtin(&ORCH, authenticator),
    );
    let api = Api::new(Arc::new(pipeline), CancellationToken::new());
    let router = with_kms_check(api, Some(&keys), false).router();
    let code = |endpoint: &str| check(&router, &format!("/{endpoint}/kms-providers"));
    wait_until("ready", || code("readyz") == 200);
    let behaviour = plugin.stop();
    wait_until("unready", || code("readyz") == 500);
    assert_eq!((code("healthz"), code("livez")), (500, 404), "a restart mends no plugin");
    // No loop makes the first objects here.
    let rest = [
        "start-system-namespaces-controller",
        "rbac/bootstrap-roles",
        "scheduling/bootstrap-system-priority-classes",
        "priority-and-fairness-config-producer",
    ];
    let rest = rest.map(|hook| format!("exclude=poststarthook/{hook}")).join("&");
    assert_eq!(check(&router, &format!("/readyz?{rest}")), 500);
    assert_eq!(check(&router, &format!("/livez?{rest}")), 200);
    let _plugin = Pretend::start_as(place.path(), behaviour);
    wait_until("ready again", || check(&router, &format!("/readyz?{rest}")) == 200);
}

#[test]
fn a_plugin_that_lost_its_key_or_opens_another_is_refused_by_the_name_of_the_data_key() {
    let place = Place::new();
    let plugin = Pretend::start(place.path(), "one");
    let (keys, disk) = place.open().unwrap();
    write(&disk, "a");
    let key = writing_key(&keys);
    drop((disk, keys));
    for (opened, fault) in [
        (vec![1; 32], "it opened the key to another one"),
        (vec![1; 31], "it opened the key to 31 bytes, not 32"),
    ] {
        plugin.behaviour.lock().opened = Some(opened);
        let told = place.refusal();
        assert!(told.contains(&key) && told.contains(fault), "{told}");
    }
    plugin.behaviour.lock().opened = None;
    plugin.behaviour.lock().keys.clear();
    let told = place.refusal();
    assert!(told.contains(&key) && told.contains("there is no such key"), "{told}");
    place.configure(&["{identity: {}}"]);
    let told = place.refusal();
    assert!(
        told.contains(&format!("encrypted with key {key}, which the encryption configuration lacks")),
        "{told}"
    );
}

#[test]
fn hostile_answers_are_refused() {
    let status = |change: &dyn Fn(&mut Behaviour)| {
        let mut behaviour = Behaviour::default();
        behaviour.turn_to("one");
        change(&mut behaviour);
        behaviour
    };
    let sealed = |change: &dyn Fn(&mut EncryptResponse)| {
        let mut answer = EncryptResponse {
            ciphertext: vec![1; 40],
            key_id: "one".to_owned(),
            ..EncryptResponse::default()
        };
        change(&mut answer);
        status(&|behaviour| behaviour.sealed = Some(answer.clone()))
    };
    let annotation = |name: &str, bytes| BTreeMap::from([(name.to_owned(), vec![0; bytes])]);
    for (behaviour, fault) in [
        (status(&|it| it.status.version = "v1".to_owned()), "expected KMS API version v2, got \"v1\""),
        (status(&|it| it.status.healthz = "sick".to_owned()), "got unexpected healthz status: \"sick\""),
        (status(&|it| it.status.healthz = "x".repeat(100_000)), "Status failed"),
        (status(&|it| it.status = healthy("")), "the key id is empty"),
        (status(&|it| it.status = healthy(&"k".repeat(1025))), "the key id has 1025 bytes"),
        (status(&|it| it.delay = Duration::from_secs(600)), "Status had no answer within 200ms"),
        (sealed(&|it| it.ciphertext = Vec::new()), "a sealed key of 0 bytes"),
        (sealed(&|it| it.ciphertext = vec![0; 1025]), "a sealed key of 1025 bytes"),
        (sealed(&|it| it.ciphertext = vec![0; 8 << 20]), "Encrypt failed"),
        (sealed(&|it| it.key_id = "other".to_owned()), "it seals with another key than its status names"),
        (
            sealed(&|it| it.annotations = annotation("pretend.example.com", 0)),
            "it does not open the data key that it has sealed",
        ),
        (status(&|it| it.opened = Some(vec![7; 32])), "it does not open the data key that it has sealed"),
        (status(&|it| it.opened = Some(Vec::new())), "it does not open the data key that it has sealed"),
        (status(&|it| it.opened = Some(vec![0; 8 << 20])), "Decrypt failed"),
        (status(&|it| it.keys.clear()), "there is no such key"),
        (sealed(&|it| it.annotations = annotation("no domain", 1)), "is no fully qualified domain name"),
        (sealed(&|it| it.annotations = annotation("a.b", 40_000)), "annotations have 40003 bytes"),
    ] {
        let place = Place::new();
        place.configure(&[&place.plugin("200ms")]);
        let plugin = Pretend::start_as(place.path(), behaviour);
        let told = place.refusal();
        assert!(told.contains("KMS plugin vault") && told.contains(fault), "{fault}: {told}");
        assert!(told.len() < 1000, "{told}");
        drop(plugin);
    }
}

#[test]
fn a_plugin_that_names_a_new_key_each_time_fills_no_memory() {
    let place = Place::new();
    let plugin = Pretend::start(place.path(), "one");
    plugin.behaviour.lock().is_fickle = true;
    let (keys, disk) = place.open().unwrap();
    write(&disk, "a");
    wait_until("too many keys", || !keys.plugins_are_healthy());
    let last = writing_key(&keys);
    write(&disk, "b");
    assert_eq!((names(&disk).len(), writing_key(&keys)), (2, last));
    let encrypts = plugin.stop().encrypts;
    assert!((200..300).contains(&encrypts), "{encrypts} data keys");
}

#[test]
fn a_socket_that_speaks_no_grpc_is_refused() {
    use std::io::Write as _;

    let place = Place::new();
    place.configure(&[&place.plugin("500ms")]);
    let listener = std::os::unix::net::UnixListener::bind(place.path().join("kms.sock")).unwrap();
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            // The other side may have closed already.
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\ngarbage");
        }
    });
    let told = place.refusal();
    assert!(told.contains("KMS plugin vault") && told.contains("Status"), "{told}");
}

#[test]
fn a_reload_changes_the_first_key_and_keeps_what_stored_records_need() {
    let place = Place::new();
    let local =
        |name: &str| format!("{{secretbox: {{keys: [{{name: {name}, secret: {}=}}]}}}}", "A".repeat(43));
    place.configure(&[&local("old")]);
    let (keys, disk) = place.open().unwrap();
    write(&disk, "a");
    let reload = || keys.reload(|| disk.needed_keys());
    assert_eq!(reload().unwrap(), Reload::Unchanged);

    // Without the old key, with a broken file, or with a plugin that is down, the keys in use stay.
    place.configure(&[&local("new")]);
    let error = reload().unwrap_err();
    assert!(matches!(&error, EncryptionError::StillNeeded(key) if key == "secretbox:old"), "{error}");
    place.configure(&["{kms: {}}"]);
    assert!(matches!(reload(), Err(EncryptionError::Config(_))));
    place.configure(&[&place.plugin("1s"), &local("old")]);
    assert!(matches!(reload(), Err(EncryptionError::Plugin(_))));
    assert_eq!(writing_key(&keys), "secretbox:old");

    let plugin = Pretend::start(place.path(), "one");
    assert_eq!(reload().unwrap(), Reload::Taken);
    assert!(writing_key(&keys).starts_with("kms:vault:"));
    write(&disk, "b");
    assert_eq!(names(&disk), ["a", "b"]);
    let done = disk.rewrite(&mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!(done.unneeded, ["secretbox:old"]);
    let kms = writing_key(&keys);
    place.configure(&[&place.plugin("2s")]);
    assert_eq!(reload().unwrap(), Reload::Taken, "with another time-out, and without the old key");
    assert_eq!(writing_key(&keys), kms, "the data keys are kept");
    assert_eq!(names(&disk), ["a", "b"]);
    drop((disk, plugin));
}
