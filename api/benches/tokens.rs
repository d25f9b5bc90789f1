//! The cost of a service account token: making one, verifying one that is new to the node, and one that is cached.
//!
//! Prints one line for each figure, the median of many short runs. Run with `make microbench`. Nothing is asserted: figures
//! of one machine and one moment.

#![expect(clippy::print_stdout, reason = "a benchmark prints, and measures real time")]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use orch_api::ambient::Timestamp;
use orch_api::authn::Moment;
use orch_api::authn::service_account::{
    Claims, Curve, Keys, ObjectRef, PublicKey, ServiceAccounts, Settings, Signer, SigningFailed, VerifyingKey,
};
use orch_api::exchange::Exchange;
use orch_api::follow::Applied;
use orch_proto::brand::{API_AUDIENCE, ORCH};
use orch_raft::memory::MemoryStore;
use orch_raft::{Index, Key, Operation, Put, Store, Transaction};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};

/// The server's allocator.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Number of runs, of which the median is reported.
const RUNS: usize = 201;

/// Calls in a run.
const CALLS: u64 = 20;

/// Seconds since 1970 at which tokens are made and verified.
const NOW: u64 = 1_767_322_145;

#[derive(Debug)]
struct Pair {
    public: VerifyingKey,
    pair: EcdsaKeyPair,
}

impl Signer for Pair {
    fn key(&self) -> &VerifyingKey {
        &self.public
    }

    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, SigningFailed> {
        let signature = self.pair.sign(&SystemRandom::new(), message).map_err(|_| SigningFailed)?;
        Ok(signature.as_ref().to_vec())
    }
}

fn main() {
    let (random, algorithm) = (SystemRandom::new(), &ECDSA_P256_SHA256_FIXED_SIGNING);
    let encoded = EcdsaKeyPair::generate_pkcs8(algorithm, &random).expect("a random generator");
    let pair = EcdsaKeyPair::from_pkcs8(algorithm, encoded.as_ref(), &random).expect("a key made above");
    let point = pair.public_key().as_ref().to_vec();
    let public = VerifyingKey::new(&point, PublicKey::Elliptic { curve: Curve::P256, point: point.clone() });
    let own = || vec![API_AUDIENCE.to_owned()];
    let settings = Settings {
        issuers: own(),
        audiences: own(),
        keys_url: String::new(),
        life_s_max: None,
        extends_mounted: true,
    };
    let keys = Keys::new(Some(Arc::new(Pair { public, pair })), Vec::new());
    let accounts = ServiceAccounts::new(&ORCH, settings, keys);
    let (applied, exchange) = (stored(), Exchange::internal());
    let now = Moment { applied: &applied, now: Timestamp(NOW * 1_000_000), remarks: &exchange };
    let issue = |at: u64| accounts.issue(&claims(at)).expect("a key that signs");
    report("make a token (ES256)", |at| issue(at).len());
    let tokens: Vec<String> = (0..RUNS as u64 * CALLS).map(issue).collect();
    let verify = |token: &str| {
        let user = accounts.user(token.as_bytes(), now).expect("a good token");
        user.map_or(0, |user| user.groups.len())
    };
    let at = |at: u64| &tokens[usize::try_from(at).expect("a small number") % tokens.len()];
    report("verify a token that is new", |count| verify(at(count)));
    report("verify a token that is cached", |_| verify(&tokens[0]));
}

fn reference(name: &str) -> ObjectRef {
    ObjectRef { name: name.to_owned(), uid: "0f6c1d1e-0000-4000-8000-000000000001".to_owned() }
}

/// A token of a pod; `at` makes it another one.
fn claims(at: u64) -> Claims {
    Claims {
        audiences: vec![API_AUDIENCE.to_owned()],
        issued_at: NOW,
        expires_at: NOW + 3600 + at,
        id: "5b1d7a1e-0000-4000-8000-000000000001".to_owned(),
        namespace: "team-a".to_owned(),
        account: reference("default"),
        pod: Some(reference("frontend-7d9c5b6f4-x2x7q")),
        node: Some(reference("node-1")),
        ..Claims::default()
    }
}

/// A state with the account and the pod of the tokens, and what surrounds them.
fn stored() -> Applied {
    let store = MemoryStore::default();
    let put = |resource: &str, name: &str| {
        let key = Key::new(&resource.into(), "team-a", name).expect("a good name");
        let uid = reference("").uid;
        let json = format!(r#"{{"metadata":{{"resourceVersion":"","name":"{name}","uid":"{uid}"}}}}"#);
        let put = Put { key, json: json.into(), revision_at: 32, index: Index::default() };
        let transaction =
            Transaction { proposed_ms: 0, conditions: Vec::new(), operations: vec![Operation::Put(put)] };
        futures::executor::block_on(store.propose(transaction)).expect("a store in memory");
    };
    for at in 0..1000 {
        put("pods", &format!("other-{at}"));
    }
    put("serviceaccounts", "default");
    put("pods", "frontend-7d9c5b6f4-x2x7q");
    Applied::of(&store)
}

/// Prints the median time of a call of `work`, which gets a running number.
fn report<T>(name: &str, mut work: impl FnMut(u64) -> T) {
    let mut count = 0;
    let mut times: Vec<f64> = (0..RUNS)
        .map(|_| {
            let began = Instant::now();
            for _ in 0..CALLS {
                black_box(work(black_box(count)));
                count += 1;
            }
            began.elapsed().as_secs_f64() * 1e6 / CALLS as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    println!("{name:40} {:8.2} us", times[RUNS / 2]);
}
