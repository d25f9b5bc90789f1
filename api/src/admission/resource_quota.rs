//! `ResourceQuota`: writes are charged to the quotas of their namespace, in the transaction of the write.
//!
//! Owns which quotas cover an object, what a write adds to their usage and gives back, and the refusal of a write that one of
//! them has no room for. The usage stands in `status.used` of each quota; it is replaced under a condition on the quota's
//! revision, so that writes through any node count exactly, and a quota is never exceeded.
//!
//!     create    charged; refused where it does not fit
//!     update    the difference; refused where the kind's usage may grow by updates and does not fit, and where it moves the
//!               object into the scopes of a quota that has no room for it
//!     delete    given back by the transaction that removes the object
//!
//! In the reference only the loop `resourcequota-controller` gives usage back. A node that leaves this loop to another
//! program gives nothing back in its writes, either ([`Release::Elsewhere`]).
//!
//! Invariant: usage is changed only together with an object, or by the loop under a condition on the quota.

use orch_raft::object::SharedObject;
use orch_raft::{Condition, Key, Revision};
use orch_rules::Action;
use orch_rules::quota::{Amounts, Measure, Scope, amounts};
use orch_rules::validate::tree::{Tree, child_mut, set};
use orch_schema::quantity::Amount;
use orch_schema::value::Value;

use super::{Additions, Attributes, Operation, Plugin, Refusal, View};

/// Name of the plugin.
pub(crate) const NAME: &str = "ResourceQuota";

/// Storage resource of quotas.
pub(crate) const QUOTAS: &str = "resourcequotas";

/// The writer that takes back usage which objects no longer need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Release {
    /// The write that frees it.
    AtOnce,
    /// Another program, which recomputes it.
    Elsewhere,
}

#[derive(Debug)]
pub(super) struct ResourceQuota(pub(super) Release);

impl Plugin for ResourceQuota {
    fn name(&self) -> &'static str {
        NAME
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        let is_namespaced = attributes.resource.namespaced && !attributes.namespace.is_empty();
        // A review is not stored: there is nothing to count.
        is_namespaced
            && attributes.resource.review.is_none()
            && match attributes.operation {
                Operation::Create => attributes.action == Action::Object,
                Operation::Update => true,
                Operation::Delete => attributes.is_removal && self.0 == Release::AtOnce,
                Operation::Connect => false,
            }
    }

    fn reserve(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
        view: &View,
        additions: &mut Additions,
    ) -> Result<(), Refusal> {
        let quotas = view.applied().state.collection(QUOTAS);
        if quotas.is_empty() {
            return Ok(());
        }
        let own = (*attributes.resource.storage == *QUOTAS).then_some(attributes.name);
        let found = quotas.within(attributes.namespace, "").filter_map(|(path, quota)| {
            let name = path.rsplit('/').next()?;
            // A quota that limits quotas is not charged for itself.
            let value = serde_json::from_slice(&quota.json).ok().filter(|_| own != Some(name))?;
            Some(Covering { name: name.to_owned(), quota: quota.clone(), value })
        });
        let found: Vec<Covering> = found.collect();
        if found.is_empty() {
            return Ok(());
        }
        self.charge(attributes, object, view, &found, additions)
    }
}

/// A quota of the namespace.
struct Covering {
    name: String,
    quota: SharedObject,
    value: Value,
}

/// The usage of an object before and after a write.
struct Change<'a> {
    measure: Measure,
    old: Option<(&'a Value, Amounts)>,
    new: Option<(&'a Value, Amounts)>,
    /// The write is refused where a quota that covers the object has no room for it.
    is_limited: bool,
    /// The write is refused where it moves the object into a quota that has no room for it.
    limits_moves: bool,
    /// The object no longer counted, for its time was over, and is gone or ended now. Whether the loop had noticed is not
    /// known, so nothing is given back: the quota is written as it is, which makes the loop count again.
    ends_overdue: bool,
}

/// A change as one quota accounts for it.
struct Account<'a> {
    covering: &'a Covering,
    hard: Amounts,
    used: Amounts,
    /// Usage that the change adds, by the resources that the quota limits.
    more: Amounts,
    /// Usage that the change gives back.
    less: Amounts,
    covers_old: bool,
    covers_new: bool,
}

impl ResourceQuota {
    fn charge(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
        view: &View,
        quotas: &[Covering],
        additions: &mut Additions,
    ) -> Result<(), Refusal> {
        let Some(change) = Change::of(attributes, object) else { return Ok(()) };
        let is_ending = view.is_terminating(attributes.namespace) == Some(true);
        if is_ending && change.new.is_none() {
            // The quotas go with their namespace: its objects are not removed one after the other.
            return Ok(());
        }
        let accounts: Vec<Account<'_>> =
            quotas.iter().map(|covering| Account::of(covering, &change)).collect();
        // few: the quotas of a namespace.
        let is_limited = change.is_limited || accounts.iter().any(|account| account.is_entered(&change));
        if !is_limited && self.0 == Release::Elsewhere {
            return Ok(());
        }
        let limited = || accounts.iter().filter(|account| account.is_limited(&change));
        for account in limited() {
            account.check_measurable(&change).map_err(Refusal::Forbidden)?;
        }
        if attributes.action != Action::Status {
            for account in limited() {
                account.check_room().map_err(Refusal::Forbidden)?;
            }
        }
        if attributes.dry_run {
            return Ok(());
        }
        for account in accounts {
            self.book(attributes, account, &change, additions);
        }
        Ok(())
    }

    /// Adds the new usage of a quota to the write.
    fn book(
        &self,
        attributes: &Attributes<'_>,
        account: Account<'_>,
        change: &Change<'_>,
        additions: &mut Additions,
    ) {
        let covering = account.covering;
        let revision: Revision = covering.quota.revision;
        let Ok(key) = Key::new(&QUOTAS.into(), attributes.namespace, &covering.name) else { return };
        let mut value = covering.value.clone();
        let used = child_mut(child_mut(&mut value, "status"), "used");
        let mut is_changed = false;
        for (name, before) in &account.used {
            let more = account.more.get(name).copied().unwrap_or(Amount::ZERO);
            let less = account.less.get(name).copied().filter(|_| self.0 == Release::AtOnce);
            let after = before.plus(more).minus(less.unwrap_or(Amount::ZERO));
            // The loop repairs usage that lacked what is given back here.
            let after = if after.quantity().is_negative() { Amount::ZERO } else { after };
            if after.quantity() != before.quantity() {
                set(used, name, after.to_string());
                is_changed = true;
            }
        }
        if is_changed || change.ends_overdue && account.covers_old {
            additions.replace(key, revision, value);
        } else if self.0 == Release::AtOnce && account.waits_for_usage(change) {
            // The loop is about to add up the usage: this write is in the sum, or is tried again and charged.
            additions.require(Condition::AtRevision(key, revision));
        }
    }
}

impl<'a> Change<'a> {
    /// `None`: no quota counts the object, or the write changes nothing that is counted.
    fn of(attributes: &'a Attributes<'_>, object: Option<&'a Value>) -> Option<Change<'a>> {
        let resource = attributes.resource;
        let measure = Measure::of(attributes.brand, &resource.storage, &resource.plural, &resource.group)?;
        let is_update = attributes.operation == Operation::Update;
        if is_update && !attributes.is_removal && !measure.varies() {
            return None;
        }
        let now = i64::try_from(attributes.now.millis() / 1000).unwrap_or(i64::MAX);
        let measured = |object: &'a Value| (object, measure.usage(object, now));
        let old = attributes.old.map(measured);
        let new = object.filter(|_| !attributes.is_removal).map(measured);
        let is_limited = match attributes.operation {
            Operation::Create => true,
            Operation::Update => {
                !attributes.is_removal && measure.limits_updates(attributes.action.is_resize())
            }
            Operation::Delete | Operation::Connect => false,
        };
        let ends_overdue = old.as_ref().is_some_and(|old| ends_overdue(&measure, old, new.as_ref()));
        // A status tells what happened: it is charged, and not refused.
        let limits_moves = is_update && !attributes.is_removal && attributes.action != Action::Status;
        Some(Change { measure, old, new, is_limited, limits_moves, ends_overdue })
    }

    /// The usage of an object, where the quota with these scopes covers it.
    fn covered<'b>(
        &self,
        side: &'b Option<(&'a Value, Amounts)>,
        scopes: &[Scope<'_>],
    ) -> Option<&'b Amounts> {
        let (object, usage) = side.as_ref()?;
        self.measure.is_in(scopes, object).then_some(usage)
    }
}

/// Whether `old` no longer counted because its time was over, and `new` would not count even before that.
fn ends_overdue(measure: &Measure, old: &(&Value, Amounts), new: Option<&(&Value, Amounts)>) -> bool {
    let (object, counted) = old;
    if !object.at("metadata").has("deletionTimestamp") {
        return false;
    }
    let in_time = |object: &Value| measure.usage(object, i64::MIN);
    let usage = in_time(object);
    *counted != usage && new.is_none_or(|(new, _)| in_time(new) != usage)
}

impl<'a> Account<'a> {
    fn of(covering: &'a Covering, change: &Change<'_>) -> Account<'a> {
        let status = covering.value.at("status");
        let mut hard = amounts(status, "hard");
        // once: the limits of one quota.
        hard.retain(|name, _| change.measure.counts(name));
        let mut used = amounts(status, "used");
        // set: `hard` is a map.
        used.retain(|name, _| hard.contains_key(name));
        let scopes = Scope::of_spec(covering.value.at("spec"));
        let (old, new) = (change.covered(&change.old, &scopes), change.covered(&change.new, &scopes));
        let (covers_old, covers_new) = (old.is_some(), new.is_some());
        let (more, less) = (Amounts::new(), Amounts::new());
        let mut account = Account { covering, hard, used, more, less, covers_old, covers_new };
        for name in account.hard.keys() {
            let of = |usage: Option<&Amounts>| usage.and_then(|usage| usage.get(name)).copied();
            let (before, after) = (of(old).unwrap_or(Amount::ZERO), of(new).unwrap_or(Amount::ZERO));
            let difference = after.minus(before);
            if difference.quantity().is_negative() {
                account.less.insert(name.clone(), before.minus(after));
            } else if !difference.quantity().is_zero() {
                account.more.insert(name.clone(), difference);
            }
        }
        account
    }

    /// Whether the change moves the object into the scopes of the quota, which then has to have room for all of it.
    fn is_entered(&self, change: &Change<'_>) -> bool {
        change.limits_moves && self.covers_new && !self.covers_old
    }

    /// Whether the quota may refuse the change.
    fn is_limited(&self, change: &Change<'_>) -> bool {
        self.covers_new && change.is_limited || self.is_entered(change)
    }

    /// Whether the quota limits what the change uses, and its usage is not yet known.
    fn waits_for_usage(&self, change: &Change<'_>) -> bool {
        if !self.covers_old && !self.covers_new {
            return false;
        }
        let is_known = |name: &str| self.hard.contains_key(name) && self.used.contains_key(name);
        let spec = self.covering.value.at("spec");
        // once: the limits of one quota.
        spec.entries("hard").iter().any(|(name, _)| change.measure.counts(name) && !is_known(name))
    }

    /// The reason why the object cannot be charged.
    fn check_measurable(&self, change: &Change<'_>) -> Result<(), String> {
        let Some((object, _)) = &change.new else { return Ok(()) };
        let (name, limited) = (&self.covering.name, || self.hard.keys().map(|name| &**name));
        change
            .measure
            .check(limited(), object)
            .map_err(|reason| format!("failed quota: {name}: {reason}"))?;
        if limited().all(|name| self.used.contains_key(name)) {
            return Ok(());
        }
        let resources: Vec<&str> = limited().collect();
        Err(format!("status unknown for quota: {name}, resources: {}", resources.join(",")))
    }

    /// Refuses usage beyond the limits.
    fn check_room(&self) -> Result<(), String> {
        let of = |amounts: &Amounts, name: &str| amounts.get(name).copied().unwrap_or(Amount::ZERO);
        let exceeded: Vec<(&str, Amount)> = self
            .more
            .iter()
            .map(|(name, more)| (&**name, *more))
            .filter(|(name, more)| {
                of(&self.used, name).plus(*more).quantity() > of(&self.hard, name).quantity()
            })
            .collect();
        if exceeded.is_empty() {
            return Ok(());
        }
        let list = |amount: &dyn Fn(&str, Amount) -> Amount| {
            let texts = exceeded.iter().map(|(name, more)| format!("{name}={}", amount(name, *more)));
            texts.collect::<Vec<_>>().join(",")
        };
        Err(format!(
            "exceeded quota: {}, requested: {}, used: {}, limited: {}",
            self.covering.name,
            list(&|_, more| more),
            list(&|name, _| of(&self.used, name)),
            list(&|name, _| of(&self.hard, name))
        ))
    }
}
