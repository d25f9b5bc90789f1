//! `EventRateLimit`: bounds how many events are written, altogether, by namespace, by user, and by what an event is of.
//!
//! Owns the buckets of tokens. A bucket starts full and fills with time; a write takes one token of each limit. Of the
//! buckets of one limit those used last are kept, as many as its configuration says.
//!
//! Invariant: memory does not grow with what clients send: a bucket is found by a hash of its key.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};

use orch_rules::validate::tree::Tree;
use orch_schema::excerpt::part;
use orch_schema::value::Value;

use super::{Additions, Attributes, Operation, Plugin, Refusal, Ruling, View, rule};
use crate::ambient::{Ambient, Timestamp};
use crate::error::ApiError;

/// Buckets that a limit keeps by default, as in the reference.
pub const CACHE_SIZE: usize = 4096;

/// The events that share a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitType {
    /// All events.
    Server,
    /// Events of a namespace.
    Namespace,
    /// Events that a user writes.
    User,
    /// Events of one source about one object.
    SourceAndObject,
}

impl LimitType {
    /// Every type.
    pub const ALL: [LimitType; 4] =
        [LimitType::Server, LimitType::Namespace, LimitType::User, LimitType::SourceAndObject];

    /// Its name in a configuration.
    pub fn name(self) -> &'static str {
        match self {
            LimitType::Server => "Server",
            LimitType::Namespace => "Namespace",
            LimitType::User => "User",
            LimitType::SourceAndObject => "SourceAndObject",
        }
    }

    /// The parts of the key of an event's bucket. They stay apart: run together, the texts of an event in one namespace can be
    /// made the same as those of another's, whose bucket they would empty.
    fn key<'a>(self, attributes: &Attributes<'a>, event: &'a Value) -> Vec<&'a str> {
        match self {
            LimitType::Server => Vec::new(),
            LimitType::Namespace => vec![attributes.namespace],
            LimitType::User => vec![attributes.user.name.as_str()],
            LimitType::SourceAndObject => {
                let (source, object) = (event.at("source"), event.at("involvedObject"));
                let of_source = ["component", "host"].map(|field| source.text(field));
                let of_object =
                    ["kind", "namespace", "name", "uid", "apiVersion"].map(|field| object.text(field));
                of_source.into_iter().chain(of_object).collect()
            }
        }
    }
}

/// One limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventLimit {
    /// The events that are counted together.
    pub limit_type: LimitType,
    /// Events a second in the long run.
    pub qps: u32,
    /// Events at once.
    pub burst: u32,
    /// Buckets that are kept.
    pub cache_size: usize,
}

pub(super) struct EventRateLimit {
    limits: Vec<Enforcer>,
    ambient: Arc<dyn Ambient>,
}

impl EventRateLimit {
    pub(super) fn new(limits: &[EventLimit], ambient: Arc<dyn Ambient>) -> EventRateLimit {
        EventRateLimit { limits: limits.iter().map(|limit| Enforcer::new(*limit)).collect(), ambient }
    }
}

impl Plugin for EventRateLimit {
    fn name(&self) -> &'static str {
        "EventRateLimit"
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        attributes.is("events", &[Operation::Create, Operation::Update]) && !attributes.dry_run
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        event: Option<&'a Value>,
        _view: &'a View,
        _additions: &'a mut Additions,
    ) -> Ruling<'a> {
        let Some(event) = event else { return rule(Ok(())) };
        let now = self.ambient.now();
        let mut refusal = Ok(());
        // Each limit counts the event, even if another one refuses it.
        for enforcer in &self.limits {
            let limit_type = enforcer.limit.limit_type;
            let key = limit_type.key(attributes, event);
            if !enforcer.take(&key, now) {
                let (name, key) = (limit_type.name(), key.concat());
                let key = part(&key);
                let reason = format!("limit reached on type {name} for key {key}");
                // Final: an event that is asked about again would be counted again.
                refusal = Err(Refusal::Final(ApiError::LimitReached(reason)));
            }
        }
        rule(refusal)
    }
}

/// A limit with its buckets.
struct Enforcer {
    limit: EventLimit,
    hasher: RandomState,
    buckets: Mutex<Buckets>,
}

#[derive(Default)]
struct Buckets {
    by_key: HashMap<u64, Bucket>,
    /// Keys by the number of their last use.
    by_use: BTreeMap<u64, u64>,
    uses: u64,
}

#[derive(Clone, Copy)]
struct Bucket {
    /// Millionths of tokens at `filled`.
    microtokens: u64,
    filled: Timestamp,
    last_use: u64,
}

impl Enforcer {
    fn new(limit: EventLimit) -> Enforcer {
        Enforcer { limit, hasher: RandomState::new(), buckets: Mutex::default() }
    }

    /// Takes a token of the bucket of `key`. `false`: it has none.
    fn take(&self, key: &[&str], now: Timestamp) -> bool {
        const TOKEN: u64 = 1_000_000;
        let key = self.hasher.hash_one(key);
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let Buckets { by_key, by_use, uses } = &mut *buckets;
        *uses += 1;
        let full = u64::from(self.limit.burst) * TOKEN;
        let bucket = by_key.entry(key).or_insert(Bucket { microtokens: full, filled: now, last_use: 0 });
        by_use.remove(&bucket.last_use);
        by_use.insert(*uses, key);
        bucket.last_use = *uses;
        // A token a second is a millionth of one a microsecond.
        let gained = now.0.saturating_sub(bucket.filled.0).saturating_mul(u64::from(self.limit.qps));
        bucket.microtokens = bucket.microtokens.saturating_add(gained).min(full);
        // A clock that was set back gives nothing, and goes on from there: no bucket stays empty until the old time comes.
        if bucket.filled < now || bucket.filled.is_before_set_back(now) {
            bucket.filled = now;
        }
        let left = bucket.microtokens.checked_sub(TOKEN);
        bucket.microtokens = left.unwrap_or(bucket.microtokens);
        if by_key.len() > self.limit.cache_size.max(1)
            && let Some((_, oldest)) = by_use.pop_first()
        {
            by_key.remove(&oldest);
        }
        left.is_some()
    }
}

#[cfg(test)]
mod tests {
    use orch_schema::json;

    use super::*;
    use crate::admission::testing::attributes;

    fn limit(limit_type: LimitType, cache_size: usize) -> Enforcer {
        Enforcer::new(EventLimit { limit_type, qps: 2, burst: 3, cache_size })
    }

    #[test]
    fn a_bucket_starts_full_and_fills_with_time() {
        let enforcer = limit(LimitType::User, 10);
        let taken = |key: &str, micros: u64, count: usize| {
            (0..count).filter(|_| enforcer.take(&[key], Timestamp(micros))).count()
        };
        assert_eq!(taken("a", 0, 9), 3);
        assert_eq!(taken("b", 0, 9), 3, "each key has its own");
        assert_eq!(taken("a", 499_999, 9), 0);
        assert_eq!(taken("a", 500_000, 9), 1);
        assert_eq!(taken("a", 400_000, 9), 0, "a clock that goes back gives nothing");
        assert_eq!(taken("a", 60_000_000, 9), 3, "never more than the burst");
        let hour = 3_600_000_000;
        assert_eq!(taken("a", hour, 9), 3);
        assert_eq!(taken("a", 1_000_000, 9), 0, "a clock that is set back by an hour gives nothing");
        assert_eq!(taken("a", 1_500_000, 9), 1, "and goes on from there");
    }

    #[test]
    fn the_buckets_used_last_are_kept() {
        let enforcer = limit(LimitType::Namespace, 2);
        let at = Timestamp(0);
        for key in ["a", "b", "a", "a", "c"] {
            assert!(enforcer.take(&[key], at), "{key}");
        }
        assert!(!enforcer.take(&["a"], at), "it was used after b");
        (0..1000).for_each(|key: u32| {
            enforcer.take(&[&key.to_string()], at);
        });
        let buckets = enforcer.buckets.lock().unwrap();
        assert_eq!((buckets.by_key.len(), buckets.by_use.len()), (2, 2));
    }

    #[test]
    fn an_event_of_another_namespace_empties_no_bucket_by_texts_that_run_together_alike() {
        let of = |component: &str, namespace: &str, name: &str| {
            json!({
                "source": {"component": component},
                "involvedObject": {"kind": "Pod", "namespace": namespace, "name": name},
            })
        };
        // Both run together to "kubeletPodshopPodown".
        let (victim, forged) = (of("kubelet", "shop", "Podown"), of("kubeletPodsh", "own", ""));
        let forged = {
            let mut forged = forged;
            forged["involvedObject"]["kind"] = json!("opPod");
            forged
        };
        let create = attributes("events", Operation::Create);
        let keys = [&victim, &forged].map(|event| LimitType::SourceAndObject.key(&create, event));
        assert_eq!(keys[0].concat(), keys[1].concat());
        let enforcer = limit(LimitType::SourceAndObject, 10);
        (0..100).for_each(|_| {
            enforcer.take(&keys[1], Timestamp(0));
        });
        assert!(enforcer.take(&keys[0], Timestamp(0)));
    }

    #[test]
    fn keys_tell_events_apart_as_their_type_says() {
        let event = json!({
            "source": {"component": "kubelet", "host": "h"},
            "involvedObject": {"kind": "Pod", "namespace": "ns", "name": "p", "uid": "u", "apiVersion": "v1"},
        });
        let create = attributes("events", Operation::Create);
        let keys = LimitType::ALL.map(|limit_type| limit_type.key(&create, &event).concat());
        assert_eq!(keys, ["", "ns", "system:admin", "kubelethPodnspuv1"]);
        assert!(
            !EventRateLimit::new(&[], Arc::new(crate::ambient::SystemAmbient))
                .handles(&Attributes { dry_run: true, ..create })
        );
    }
}
