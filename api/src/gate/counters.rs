//! Counters of authentication and authorization, under the reference's names.
//!
//! Owns their labels. The handles are made at the first request, when the node has installed its recorder; counting
//! allocates nothing.

use std::sync::LazyLock;

use metrics::{Counter, counter};
use orch_proto::Brand;
use orch_proto::brand::{KUBERNETES, ORCH};

use crate::authn::{Unauthenticated, User};
use crate::authz::Ruling;

static COUNTERS: LazyLock<Counters> = LazyLock::new(Counters::register);

/// User names that are counted one by one, as in the reference, beside the default account of the system namespace; every
/// other is one of two kinds.
const USERNAMES: [&str; 4] = ["admin", "client", "kube_proxy", "kubelet"];

struct Counters {
    success: Counter,
    failure: Counter,
    error: Counter,
    named: Vec<(String, Counter)>,
    email: Counter,
    other: Counter,
    allowed: Counter,
    denied: Counter,
    no_opinion: Counter,
    failed: Counter,
}

impl Counters {
    fn register() -> Counters {
        let attempts = |result: &'static str| counter!("authentication_attempts", "result" => result);
        let requests = |name: String| counter!("authenticated_user_requests", "username" => name);
        let account = |brand: &Brand| format!("system:serviceaccount:{}:default", brand.system_namespace);
        let names = USERNAMES.map(str::to_owned).into_iter().chain([&ORCH, &KUBERNETES].map(account));
        let rulings = |result: &'static str| counter!("authorization_attempts_total", "result" => result);
        Counters {
            success: attempts("success"),
            failure: attempts("failure"),
            error: attempts("error"),
            named: names.map(|name| (name.clone(), requests(name))).collect(),
            email: requests("email_id".to_owned()),
            other: requests("other".to_owned()),
            allowed: rulings("allowed"),
            denied: rulings("denied"),
            no_opinion: rulings("no-opinion"),
            failed: rulings("error"),
        }
    }
}

/// Counts an attempt to authenticate.
pub(super) fn count_authentication(result: Result<&User, &Unauthenticated>) {
    let user = match result {
        Ok(user) => user,
        Err(Unauthenticated::NoCredentials) => return COUNTERS.failure.increment(1),
        Err(_) => return COUNTERS.error.increment(1),
    };
    COUNTERS.success.increment(1);
    // few: six names.
    let by_name = COUNTERS.named.iter().find(|(name, _)| *name == user.name).map(|(_, counter)| counter);
    let is_email = || user.name.bytes().any(|byte| byte == b'@');
    by_name.unwrap_or_else(|| if is_email() { &COUNTERS.email } else { &COUNTERS.other }).increment(1);
}

/// Counts a ruling about a request.
pub(super) fn count_ruling(ruling: &Ruling) {
    match ruling {
        Ruling::Allowed { .. } => COUNTERS.allowed.increment(1),
        Ruling::Denied { .. } => COUNTERS.denied.increment(1),
        Ruling::NoOpinion(_) => COUNTERS.no_opinion.increment(1),
        Ruling::Failed { .. } => COUNTERS.failed.increment(1),
    }
}
