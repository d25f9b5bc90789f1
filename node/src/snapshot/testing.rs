//! A small state for tests.

use std::sync::Arc;

use bytes::Bytes;
use orch_raft::member::CLUSTER_RESOURCE;
use orch_raft::{Fields, Index, Key, Operation, Put, Revision, State, Transaction};

/// The state of a cluster with `pods` pods and its own identity.
pub(crate) fn some_state(pods: u64) -> State {
    let mut state = State::default();
    let key = "5a".repeat(32);
    let fields = Fields::new([("cluster", "one"), ("brand", "orch"), ("tokenKey", &*key)]);
    put(&mut state, 2, Key::new(&Arc::from(CLUSTER_RESOURCE), "", "identity").unwrap(), fields);
    for pod in 0..pods {
        let key = Key::new(&Arc::from("pods"), "default", &format!("pod-{pod}")).unwrap();
        put(&mut state, 3 + pod, key, Fields::new([("spec.nodeName", "n1")]));
    }
    state
}

fn put(state: &mut State, revision: u64, key: Key, fields: Fields) {
    let json = Bytes::from_static(br#"{"v":"","data":"of an object"}"#);
    let put = Put { key, json, revision_at: 6, index: Index { fields, ..Index::default() } };
    let operations = vec![Operation::Put(put)];
    let transaction = Transaction { proposed_ms: 1_700_000_000_000, conditions: vec![], operations };
    state.apply(Revision(revision), &transaction);
}
