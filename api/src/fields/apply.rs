//! Server-side apply: merges a configuration into an object and updates its managed fields.
//!
//! Owns the order of steps: merge the configuration, remove fields that the manager applied before and no longer does
//! (unless another manager owns them), find conflicts, and record the manager as owner of its configuration. The result
//! still has to pass decoding, defaulting and validation like any other new state.

use orch_proto::Brand;
use orch_rules::validate::errors::ERRORS_SHOWN_MAX;
use orch_schema::excerpt::part;
use orch_schema::types::{Schema, TypeId};
use orch_schema::value::{Map, Value};

use super::check::check;
use super::compare::{Comparison, compare};
use super::conflict::{Conflict, Conflicts, Owner};
use super::extract::{field_set, reconcile, with_named_fields};
use super::last_applied::{self, LAST_APPLIED_MANAGER};
use super::managed::{Managed, ManagedEntry, ManagedError, Operation, managed_fields_of};
use super::merge::{Difference, Emptied, holds, merge_into, remove};
use super::set::FieldSet;
use super::shape::{ItemError, Shape, empty_object, same};
use super::stored;
use super::unowned::unowned_fields;
use super::update::{Writer, metadata_of};
use super::versions::{Views, translated};

/// The manager of all existing fields of an object without managed fields, when it is first applied to.
pub const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// Bytes of the encoded field set of one manager: the largest object that is stored. A configuration with a larger set
/// is refused before the merge, because an object with such an owner could not be stored.
const OWNED_BYTES_MAX: usize = 3 << 19;

/// Options of an apply request.
#[derive(Clone, Copy, Debug)]
pub struct ApplyOptions {
    /// Take over conflicting fields from their owners.
    pub force: bool,
    /// The cluster's names: client-side apply keeps its last configuration in an annotation.
    pub brand: &'static Brand,
}

/// The reason why a configuration was not applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// Other managers own fields that the configuration changes (409, with a cause for each conflict).
    #[error("{0}")]
    Conflicts(Conflicts),
    /// The configuration brings its own `managedFields` (400).
    #[error("metadata.managedFields must be nil")]
    ManagedFieldsGiven,
    /// The configuration does not have the form of its type.
    #[error("failed to create typed patch object ({object}): {}", listed(.errors))]
    Typed {
        /// The object as `namespace/name; version, Kind=kind`.
        object: String,
        /// The errors as `.path: message`; at least one.
        errors: Vec<String>,
    },
    /// The manager's field set takes more bytes than the largest object that is stored.
    #[error(
        "the fields of the configuration take {0} bytes as fields of their manager; at most {OWNED_BYTES_MAX} are stored"
    )]
    TooManyFields(usize),
    /// The stored managed fields cannot be decoded.
    #[error("failed to decode managed fields: {0}")]
    Managed(#[from] ManagedError),
    /// Items of a stored list cannot be identified.
    #[error("failed to merge config: {0}")]
    Item(#[from] ItemError),
}

fn listed(errors: &[String]) -> String {
    match errors {
        [error] => error.clone(),
        errors => format!("errors:\n  {}", errors.join("\n  ")),
    }
}

/// Applies `config`, as the client sent it, to `live` (`None`: the object is created). Returns the object to store,
/// with its `managedFields`.
pub fn apply(
    schema: &Schema,
    root: TypeId,
    live: Option<Value>,
    config: &Value,
    writer: &Writer<'_>,
    options: ApplyOptions,
) -> Result<Value, ApplyError> {
    if managed_fields_of(config).is_some_and(Value::is_array) {
        return Err(ApplyError::ManagedFieldsGiven);
    }
    let errors = check(schema, root, config);
    if !errors.is_empty() {
        return Err(ApplyError::Typed { object: name_of(config), errors });
    }
    let mut base = live.unwrap_or_else(|| empty_object().clone());
    let metadata = base.get_mut("metadata").and_then(Value::as_object_mut);
    let stored = metadata.and_then(|metadata| metadata.shift_remove("managedFields"));
    let job = Job { schema, root, base, config, writer };
    let (mut object, managed) = job.outcome(stored, options)?;
    if writer.manager == LAST_APPLIED_MANAGER {
        last_applied::keep(&mut object, config, options.brand);
    }
    if let (Some(managed), Some(metadata)) = (managed, metadata_of(&mut object)) {
        metadata.insert("managedFields".to_owned(), managed);
    }
    Ok(object)
}

fn name_of(config: &Value) -> String {
    let text = |value: Option<&Value>| part(value.and_then(Value::as_str).unwrap_or_default()).into_owned();
    let metadata = |name: &str| text(config.get("metadata").and_then(|metadata| metadata.get(name)));
    let version = text(config.get("apiVersion"));
    let version = if version.contains('/') { version } else { format!("/{version}") };
    format!("{}/{}; {version}, Kind={}", metadata("namespace"), metadata("name"), text(config.get("kind")))
}

/// One apply with its input.
struct Job<'a> {
    schema: &'a Schema,
    root: TypeId,
    /// The live object without its managed fields.
    base: Value,
    config: &'a Value,
    writer: &'a Writer<'a>,
}

impl Job<'_> {
    fn shape(&self) -> Shape<'_> {
        Shape::of_type(self.schema, self.root)
    }

    /// The new object and its encoded `managedFields`. `stored`: the `managedFields` before.
    fn outcome(
        mut self,
        mut stored: Option<Value>,
        options: ApplyOptions,
    ) -> Result<(Value, Option<Value>), ApplyError> {
        let mut set = field_set(self.schema, self.root, self.config)?;
        set.subtract_below(&self.writer.reset_set());
        set.subtract(unowned_fields());
        let bytes = set.wire_len();
        if bytes > OWNED_BYTES_MAX {
            return Err(ApplyError::TooManyFields(bytes));
        }
        if let Some(Value::Array(list)) = &mut stored
            && list.len() == 1
            && stored::own_place(list, &set, self.writer).is_some()
        {
            // There is no other owner, so there can be no conflict, and the object is merged in place.
            let shape = Shape::of_type(self.schema, self.root);
            let difference = merge_into(self.schema, shape, &mut self.base, self.config)?;
            if difference.is_some_and(|difference| !same(&difference.old, &difference.new)) {
                stored::renew(list, 0, self.writer);
            }
            return Ok((self.base, stored));
        }
        if stored.is_none() && self.base.as_object().is_some_and(Map::is_empty) {
            return Ok(self.created(set));
        }
        // Mostly nothing changes: then the object is not copied. Otherwise only the difference is compared.
        let mut merged = None;
        let mut difference = None;
        if !holds(self.schema, self.shape(), &self.base, self.config) {
            let object = merged.insert(self.base.clone());
            difference = merge_into(self.schema, self.shape(), object, self.config)?;
        }
        let stored = match self.settled(stored, &set, difference)? {
            Ok(list) => return Ok((merged.unwrap_or(self.base), Some(list))),
            Err(stored) => stored,
        };
        let merged = merged.unwrap_or_else(|| self.base.clone());
        let managed = Managed::decode(stored.as_ref())?;
        let ran = match self.writer.manager == LAST_APPLIED_MANAGER && !options.force {
            true => self.take_over_from_client(managed, set, merged, options)?,
            false => self.run(managed, set, merged, options.force)?,
        };
        Ok((ran.0, ran.1.encode()))
    }

    /// A new object: it equals the configuration, and has one manager.
    fn created(&self, set: FieldSet) -> (Value, Option<Value>) {
        let mut entry = self.writer.entry(Operation::Apply, set);
        entry.time.take_if(|_| same(&self.base, self.config));
        let mut managed = Managed { entries: vec![entry] };
        managed.drop_empty();
        (self.config.clone(), managed.encode())
    }

    /// The fast path: the manager applies the same fields as last time, or applies for the first time, and conflicts
    /// with no other manager. Then only a time or an entry is added to the stored list, and no field set is decoded.
    /// Otherwise `Err` returns the list.
    fn settled(
        &self,
        stored: Option<Value>,
        set: &FieldSet,
        difference: Option<Difference>,
    ) -> Result<Result<Value, Option<Value>>, ItemError> {
        let Some(Value::Array(mut list)) = stored else { return Ok(Err(stored)) };
        let own = stored::own_place(&list, set, self.writer);
        let joins = || {
            stored::is_newcomer(&list, set, self.writer)
                && stored::are_current(self.schema, self.shape(), &list)
        };
        if own.is_none() && !joins() {
            return Ok(Err(Some(Value::Array(list))));
        }
        let mut changes = false;
        if let Some(Difference { old, new }) = difference {
            let Comparison { changed, removed } = self.comparison(&old, &new)?;
            if stored::touches_others(&list, own, &changed, &removed) {
                return Ok(Err(Some(Value::Array(list))));
            }
            changes = !same(&old, &new);
        }
        match own {
            Some(at) if changes => stored::renew(&mut list, at, self.writer),
            Some(_) => {}
            None => stored::join(&mut list, set, changes, self.writer),
        }
        Ok(Ok(Value::Array(list)))
    }

    /// An apply by `kubectl`, which may take over fields that its last client-side configuration explains.
    fn take_over_from_client(
        &self,
        managed: Managed,
        set: FieldSet,
        merged: Value,
        options: ApplyOptions,
    ) -> Result<(Value, Managed), ApplyError> {
        match self.run(managed.clone(), set.clone(), merged.clone(), false) {
            Err(ApplyError::Conflicts(conflicts)) => {
                let Job { schema, root, base, writer, .. } = self;
                match last_applied::unexplained_conflicts(
                    schema,
                    *root,
                    base,
                    conflicts,
                    writer,
                    options.brand,
                ) {
                    Some(conflicts) => Err(ApplyError::Conflicts(conflicts)),
                    None => self.run(managed, set, merged, true),
                }
            }
            result => result,
        }
    }

    fn run(
        &self,
        managed: Managed,
        set: FieldSet,
        merged: Value,
        force: bool,
    ) -> Result<(Value, Managed), ApplyError> {
        let mut managed = self.tracked(managed)?;
        for entry in managed.entries.iter_mut().filter(|entry| entry.api_version == self.writer.api_version) {
            reconcile(self.schema, self.shape(), &mut entry.set);
        }
        let mut entry = self.writer.entry(Operation::Apply, set);
        let previous = managed.take(&entry);
        entry.time = previous.as_ref().and_then(|previous| previous.time.clone());
        managed.entries.push(entry);
        let object = match &previous {
            Some(previous) => self.pruned(merged, previous, &managed)?,
            None => merged,
        };
        self.take_over(&mut managed, &object, force)?;
        let recorded = managed.entries.last_mut().filter(|_| !same(&self.base, &object));
        if let Some(recorded) = recorded {
            recorded.time = Some(self.writer.now.to_owned());
        }
        managed.drop_empty();
        Ok((object, managed))
    }

    /// The difference between `old` and `new`, without the fields that the endpoint resets.
    fn comparison(&self, old: &Value, new: &Value) -> Result<Comparison, ItemError> {
        let Comparison { mut changed, mut removed } = compare(self.schema, self.root, old, new)?;
        let reset = self.writer.reset_set();
        changed.subtract_below(&reset);
        removed.subtract_below(&reset);
        Ok(Comparison { changed, removed })
    }

    /// `merged` without the fields that left the configuration since `previous`. The manager's new entry is the last
    /// one.
    fn pruned(&self, merged: Value, previous: &ManagedEntry, managed: &Managed) -> Result<Value, ItemError> {
        let last = translated(self.schema, self.root, &merged, previous, self.writer)?;
        let is_kept = managed.entries.last().is_some_and(|entry| last.is_within(&entry.set));
        if is_kept { Ok(merged) } else { self.prune(&merged, &last, managed) }
    }

    /// The managers; of an object without any, [`BEFORE_FIRST_APPLY`] as owner of all its fields.
    fn tracked(&self, mut managed: Managed) -> Result<Managed, ApplyError> {
        if !managed.entries.is_empty() {
            return Ok(managed);
        }
        let Comparison { mut changed, .. } = compare(self.schema, self.root, empty_object(), &self.base)?;
        changed.subtract_below(&self.writer.reset_set());
        let before = Writer { manager: BEFORE_FIRST_APPLY, ..*self.writer };
        managed.entries.push(before.entry(Operation::Update, changed));
        managed.drop_empty();
        Ok(managed)
    }

    /// `merged` without the fields that the manager applied last time and does not apply now, except those that other
    /// managers own and those that were not the manager's. The identity of the object stays although no manager owns it,
    /// and so does an object of which only the members are given up.
    fn prune(&self, merged: &Value, last: &FieldSet, managed: &Managed) -> Result<Value, ItemError> {
        let (schema, shape) = (self.schema, self.shape());
        let named = |set: &FieldSet| with_named_fields(schema, Some(shape), set);
        let fields = |value: &Value| Ok::<_, ItemError>(named(&field_set(schema, self.root, value)?));
        let last = named(last);
        let all = fields(merged)?;
        let mut held = FieldSet::EMPTY;
        for entry in &managed.entries {
            held.gather(translated(schema, self.root, merged, entry, self.writer)?.into_owned());
        }
        held.seal();
        let pruned = remove(schema, shape, merged, &last, Emptied::Null);
        let mut owned = fields(&pruned)?;
        owned.gather(named(&held));
        owned.gather(unowned_fields().clone());
        owned.seal();
        let mut unowned = all.clone();
        unowned.subtract(&owned);
        let pruned = remove(schema, shape, merged, &unowned, Emptied::Null);
        let mut gone = all;
        gone.subtract(&fields(&pruned)?);
        let gone = gone.intersection(&last);
        match remove(schema, shape, merged, &gone, Emptied::Gone { held: &held }) {
            Value::Null => Ok(Value::Object(Map::new())),
            object => Ok(object),
        }
    }

    /// Takes the fields that the apply changes or removes from their other owners, which are all entries but the last.
    /// Without `force` a changed field of another owner is a conflict.
    fn take_over(&self, managed: &mut Managed, object: &Value, force: bool) -> Result<(), ApplyError> {
        let others = managed.entries.len().saturating_sub(1);
        if others == 0 {
            return Ok(());
        }
        let Comparison { changed, removed } = self.comparison(&self.base, object)?;
        let (mut conflicts, mut count) = (Vec::new(), 0);
        // Conflicts of `kubectl` are compared with its last configuration afterwards, so all of them are kept.
        let kept_max =
            if self.writer.manager == LAST_APPLIED_MANAGER { usize::MAX } else { ERRORS_SHOWN_MAX };
        let mut views = Views::new(self.schema, self.writer, &self.base, object);
        for entry in managed.entries.iter_mut().take(others) {
            let lost = if entry.api_version == self.writer.api_version {
                let lost = entry.set.intersection(&changed);
                entry.set.subtract(&lost);
                entry.set.subtract(&removed);
                lost
            } else if let Some(lost) = views.lose(entry)? {
                lost
            } else {
                entry.set = FieldSet::EMPTY;
                FieldSet::EMPTY
            };
            if !lost.is_empty() && !force {
                let (owner, before) = (Owner::of(entry), count);
                lost.for_each(&mut |path| {
                    if count - before < kept_max {
                        conflicts.push(Conflict { owner: owner.clone(), elements: path.to_vec() });
                    }
                    count += 1;
                });
            }
        }
        if !conflicts.is_empty() {
            // Stable: the paths of one owner stay in order.
            conflicts.sort_by(|a, b| a.owner.cmp(&b.owner));
            return Err(ApplyError::Conflicts(Conflicts { kept: conflicts, count }));
        }
        Ok(())
    }
}
