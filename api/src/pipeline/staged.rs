//! The conversion stage: objects of declared kinds between the state and the renderer, and between the rules and the store.
//!
//! Owns which objects are converted, in batches of which size, and what is checked and completed around it, as in the
//! reference: an object gets the defaults of its own version before it is converted, is pruned afterwards, and gets those of
//! the other version only where it is stored in that. Objects whose bytes are current pass undecoded; those of built-in kinds
//! pass untouched. `answer` converts the answers of requests, `completed` checks and completes converted objects.
//!
//! Invariant: behind the stage an object has the identity and the revision that it had before it.
//! Invariant: no thread that serves compiles tables here: the conversion waits until they are made.

mod answer;
mod completed;

use std::sync::Arc;

use futures::future::{BoxFuture, Either, FutureExt, Ready, ready};
use orch_raft::object::SharedObject;
use orch_raft::{Object, WrittenAs};
use orch_schema::budget::{Budget, count_step};
use orch_schema::value::Value;
use orch_spans::ActiveSpan;

use self::completed::{Defaults, Identity, Job, completed, with_value};
use super::Request;
use super::stored::tree_of;
use crate::conversion::{Batch, Converted, Known, Piece, Staged};
use crate::error::ApiError;
use crate::registry::{Resource, Tables};
use crate::waiting::waited;

pub(super) use self::answer::{shown, shown_list};

/// Objects that a converter is asked about at once: ten questions for the largest lists that are common, of 10,000 objects. More are
/// asked about one batch after another, so that the trees of one batch alone are in memory.
pub(crate) const BATCH_OBJECTS_MAX: usize = 1000;

/// Bytes of the JSON of a batch, of which a larger object has one of its own: 1000 objects of usual size, some two kilobytes, and
/// half of what one decoded body may hold.
pub(crate) const BATCH_BYTES_MAX: usize = 2 << 20;

/// Objects behind the stage: ready, or a future that waits for another server.
pub(crate) type Staging<T> =
    Either<Ready<Result<Vec<T>, ApiError>>, BoxFuture<'static, Result<Vec<T>, ApiError>>>;

/// The form that objects are converted to.
#[derive(Clone, Copy)]
enum Target {
    /// That of the resource's version.
    Shown,
    /// That in which objects are written now.
    Stored,
}

/// Whether the bytes of `object` are those that `resource` shows, as far as this stage is concerned.
pub(crate) fn is_current(resource: &Resource, object: &Object) -> bool {
    resource.staged().is_none_or(|staged| is_shown(staged, object))
}

fn is_shown(staged: &Staged, object: &Object) -> bool {
    object.index.written_as.as_ref() == Some(&staged.shown)
}

/// Begins the conversion of `objects`, all of them, to the version of `resource`, which is of a declared kind, as a part of `trace`.
pub(crate) fn begin(
    resource: &Arc<Resource>,
    staged: &Staged,
    objects: Vec<SharedObject>,
    trace: Option<&ActiveSpan>,
) -> Staging<SharedObject> {
    let mut pieces = Vec::with_capacity(objects.len());
    for object in &objects {
        match tree_of(object) {
            Ok(tree) => pieces.push((form_of(staged, object.index.written_as.as_ref()), tree)),
            Err(error) => return Either::Left(ready(Err(error))),
        }
    }
    let (of, form) = (resource.clone(), staged.shown.clone());
    map(convert(resource, staged, Target::Shown, pieces, trace), move |values| {
        let shown = objects.iter().zip(values).map(|(object, value)| with_value(&of, &form, object, &value));
        shown.collect()
    })
}

/// [`begin`] for a watch. Objects that were converted for other requests are not converted again, and a question that is under way for
/// others is waited for: a change is asked about once for all watches of a form, and the question is a part of no trace.
pub(crate) fn begin_shared(
    resource: &Arc<Resource>,
    staged: &Staged,
    objects: Vec<SharedObject>,
) -> Staging<SharedObject> {
    let Some(kept) = staged.converter.kept() else { return begin(resource, staged, objects, None) };
    let known = kept.claim(&staged.shown, &objects, |unknown| {
        let (resource, staged) = (resource.clone(), staged.clone());
        // Lazy: `claim` holds a lock, and nothing is converted before it is released.
        async move { begin(&resource, &staged, unknown, None).await }.boxed()
    });
    let shown = |known: &Known| match known {
        Known::Shown(object) => Some(object.clone()),
        Known::Asked(..) => None,
    };
    if let Some(all) = known.iter().map(shown).collect() {
        return Either::Left(ready(Ok(all)));
    }
    let waiting = async move {
        let mut all = Vec::with_capacity(known.len());
        for known in known {
            all.push(match known {
                Known::Shown(object) => object,
                Known::Asked(asking, at) => {
                    let answered = asking.await?;
                    answered.get(at).cloned().ok_or(ApiError::DeadlineExceeded)?
                }
            });
        }
        Ok(all)
    };
    Either::Right(waiting.boxed())
}

/// Puts `objects` into the form of `resource`'s version, for a request with this budget and trace.
///
/// # Errors
/// `Unconverted`; `Internal` for stored bytes that cannot be read.
pub(crate) async fn convert_all(
    resource: &Arc<Resource>,
    objects: &mut [SharedObject],
    budget: &Budget,
    trace: Option<&ActiveSpan>,
) -> Result<(), ApiError> {
    let Some(staged) = resource.staged() else { return Ok(()) };
    let mut rest = 0;
    loop {
        let places = next_batch(staged, objects, &mut rest);
        if places.is_empty() {
            return Ok(());
        }
        let batch: Vec<SharedObject> = places.iter().map(|at| objects[*at].clone()).collect();
        let converted = waited(begin(resource, staged, batch.clone(), trace), budget).await?;
        // The conversion of a stopped request is not whole.
        budget.check()?;
        let converted = checked(staged, places.len(), converted);
        if let Some(kept) = staged.converter.kept() {
            kept.keep(&staged.shown, &batch, &converted);
        }
        for (at, shown) in places.into_iter().zip(converted) {
            objects[at] = shown;
        }
    }
}

/// The objects that a conversion of `count` objects, which was not stopped, has made of them.
pub(super) fn checked(staged: &Staged, count: usize, converted: Vec<SharedObject>) -> Vec<SharedObject> {
    assert!(converted.len() == count, "a conversion that was not stopped has every object");
    // once: one pass over a batch.
    let is_whole = converted.iter().all(|object| is_shown(staged, object));
    assert!(is_whole, "an object behind the stage is of the request's form");
    converted
}

/// The places of the next objects that have to be converted, from `rest` on, which is moved behind them.
fn next_batch(staged: &Staged, objects: &[SharedObject], rest: &mut usize) -> Vec<usize> {
    let (mut places, mut bytes) = (Vec::new(), 0);
    while let Some(object) = objects.get(*rest) {
        if !is_shown(staged, object) {
            bytes += object.json.len();
            let is_full = places.len() >= BATCH_OBJECTS_MAX || bytes > BATCH_BYTES_MAX;
            if is_full && !places.is_empty() {
                break;
            }
            places.push(*rest);
        }
        *rest += 1;
    }
    places
}

/// Whether another server is asked about an object that it has converted before.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Asking {
    /// Asked again: where one object is shown, or removed by its name.
    Anew,
    /// Not asked again: where a change begins, as in the reference, and where objects of a list are removed.
    Once,
}

/// The tree of a stored object in the form that the rules of its kind apply to: of a declared kind that of the request's
/// version, of a built-in kind the stored one.
pub(super) async fn tree_for_rules(
    resource: &Arc<Resource>,
    object: &SharedObject,
    asking: Asking,
    Request { budget, exchange, .. }: Request<'_>,
) -> Result<Value, ApiError> {
    if is_current(resource, object) {
        return tree_of(object);
    }
    let kept = resource.staged().filter(|_| asking == Asking::Once);
    let kept = kept.and_then(|staged| staged.converter.kept()?.find(&staged.shown, object));
    if let Some(shown) = kept {
        return tree_of(&shown);
    }
    let mut objects = [object.clone()];
    Box::pin(convert_all(resource, &mut objects, budget, exchange.onward())).await?;
    tree_of(&objects[0])
}

/// `value`, which the rules of its kind have passed, in the form in which it is stored; `None` where it is in that form.
pub(super) async fn tree_for_store(
    resource: &Arc<Resource>,
    value: &Value,
    Request { budget, exchange, .. }: Request<'_>,
) -> Result<Option<Value>, ApiError> {
    let Some(staged) = resource.staged().filter(|staged| !staged.is_stored()) else { return Ok(None) };
    let pieces = vec![(staged.shown.clone(), value.clone())];
    let stored = waited(convert(resource, staged, Target::Stored, pieces, exchange.onward()), budget).await?;
    budget.check()?;
    Ok(stored.into_iter().next())
}

/// The form of an object that says `written_as`. One that was written before objects said it is of the stored version, under
/// a definition that is no longer in force.
fn form_of(staged: &Staged, written_as: Option<&Arc<WrittenAs>>) -> Arc<WrittenAs> {
    written_as.unwrap_or(&staged.stored).clone()
}

/// Begins the conversion of `pieces` to `target`, once the tables of that form are made: never on the thread that asks.
fn convert(
    resource: &Arc<Resource>,
    staged: &Staged,
    target: Target,
    pieces: Vec<(Arc<WrittenAs>, Value)>,
    trace: Option<&ActiveSpan>,
) -> Staging<Value> {
    let target_tables = match target {
        Target::Shown => &resource.schema,
        Target::Stored => &staged.stored_schema,
    };
    // once: one pass over the pieces.
    let has_older = pieces.iter().any(|(written_as, _)| staged.is_older(written_as));
    let needed = std::iter::once(target_tables).chain(has_older.then_some(&staged.stored_schema));
    let missing: Vec<Tables> = needed.filter(|tables| !tables.are_made()).cloned().collect();
    if missing.is_empty() {
        return convert_with_tables(resource, staged, target, pieces, trace);
    }
    let (resource, staged, trace) = (resource.clone(), staged.clone(), trace.cloned());
    let converting = async move {
        for tables in missing {
            let made = tables.make().await;
            made.map_err(|error| ApiError::Internal(format!("{resource:?}: {error}")))?;
        }
        convert_with_tables(&resource, &staged, target, pieces, trace.as_ref()).await
    };
    Either::Right(converting.boxed())
}

/// [`convert`] once the tables are made. Pieces of the target's version are completed alone, without the converter.
fn convert_with_tables(
    resource: &Arc<Resource>,
    staged: &Staged,
    target: Target,
    pieces: Vec<(Arc<WrittenAs>, Value)>,
    trace: Option<&ActiveSpan>,
) -> Staging<Value> {
    let (to, schema, type_id, of_converted) = match target {
        Target::Shown => (&staged.shown, &resource.schema, resource.type_id, Defaults::Absent),
        Target::Stored => (&staged.stored, &staged.stored_schema, staged.stored_type, Defaults::Applied),
    };
    let mut job = Job {
        resource: resource.clone(),
        schema: schema.clone(),
        type_id,
        of_converted,
        values: Vec::with_capacity(pieces.len()),
        sent: Vec::new(),
    };
    let mut batch = Batch::new();
    for (at, (written_as, object)) in pieces.into_iter().enumerate().take_while(|_| count_step()) {
        if written_as.version == to.version {
            job.values.push(object);
            continue;
        }
        // It may lack defaults of a definition that came later.
        let object = match staged.is_older(&written_as) {
            true => match completed(&staged.stored_schema, staged.stored_type, object, Defaults::Applied) {
                Ok(object) => object,
                Err(error) => return Either::Left(ready(Err(error))),
            },
            false => object,
        };
        job.values.push(Value::Null);
        job.sent.push((at, Identity::of(&object)));
        batch.push(Piece { written_as, object });
    }
    // Of a stopped request objects are missing, or not whole: no other server is told of them.
    if !count_step() {
        return Either::Left(ready(Err(ApiError::DeadlineExceeded)));
    }
    if batch.is_empty() {
        return Either::Left(ready(job.finish(Ok(Converted::new()))));
    }
    match staged.converter.convert(batch, to, trace) {
        Either::Left(converted) => Either::Left(ready(job.finish(converted.into_inner()))),
        Either::Right(pending) => Either::Right(pending.map(|converted| job.finish(converted)).boxed()),
    }
}

fn map<T: Send + 'static, U: Send + 'static>(
    staging: Staging<T>,
    then: impl FnOnce(Vec<T>) -> Result<Vec<U>, ApiError> + Send + 'static,
) -> Staging<U> {
    match staging {
        Either::Left(known) => Either::Left(ready(known.into_inner().and_then(then))),
        Either::Right(pending) => Either::Right(pending.map(|done| done.and_then(then)).boxed()),
    }
}
