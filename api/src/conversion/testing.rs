//! Converters for tests: one that renames a field, at once or when the test lets it, and fails when the test says so.
//!
//! Owns what the test sees: the sizes of the batches that it was asked about.

use std::sync::Arc;

use futures::future::{Either, FutureExt};
use orch_raft::{Revision, WrittenAs};
use orch_rules::kinds::defined::table_columns;
use orch_schema::ResourceType;
use orch_schema::value::Value;
use orch_spans::ActiveSpan;
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use super::{Batch, Converted, Converter, Converting, Failure, Kept, Piece, converted};
use crate::registry::{DeclaredKind, DeclaredVersion, End, Registry, Stage};

/// The entry of `data` that the version `v1` has in the place of [`OLD`].
pub(crate) const NEW: &str = "color";
/// The entry of `data` that the version `v1beta1` has in the place of [`NEW`].
pub(crate) const OLD: &str = "colour";

/// Renames an entry of `data` between `v1beta1` and `v1`. Clones share the handle.
#[derive(Clone, Debug)]
pub(crate) struct Renaming {
    /// `None`: it is ready at once. Else a permit lets one batch through.
    answers: Option<Arc<Semaphore>>,
    asked: Arc<Mutex<Vec<usize>>>,
    /// The message of every conversion, while it is set.
    fails: Arc<Mutex<Option<String>>>,
    kept: Option<Arc<Kept>>,
}

impl Renaming {
    /// A converter that is ready at once.
    pub(crate) fn ready() -> Renaming {
        Renaming { answers: None, asked: Arc::default(), fails: Arc::default(), kept: None }
    }

    /// A converter that waits for [`Renaming::answer`].
    pub(crate) fn waiting() -> Renaming {
        Renaming { answers: Some(Arc::new(Semaphore::new(0))), ..Renaming::ready() }
    }

    /// A converter that is ready at once, and whose results are kept.
    pub(crate) fn keeping() -> Renaming {
        Renaming { kept: Some(Arc::default()), ..Renaming::ready() }
    }

    /// A converter that waits for [`Renaming::answer`], and whose results are kept.
    pub(crate) fn keeping_and_waiting() -> Renaming {
        Renaming { kept: Some(Arc::default()), ..Renaming::waiting() }
    }

    /// Lets the next `count` batches be answered.
    pub(crate) fn answer(&self, count: usize) {
        self.answers.iter().for_each(|answers| answers.add_permits(count));
    }

    /// Makes every conversion from now on fail with `message`; `None`: succeed.
    pub(crate) fn fail(&self, message: Option<&str>) {
        *self.fails.lock() = message.map(str::to_owned);
    }

    /// The sizes of the batches that it was asked about.
    pub(crate) fn asked(&self) -> Vec<usize> {
        self.asked.lock().clone()
    }
}

impl Converter for Renaming {
    fn convert(&self, batch: Batch, to: &Arc<WrittenAs>, _: Option<&ActiveSpan>) -> Converting {
        self.asked.lock().push(batch.len());
        let (fails, to) = (self.fails.clone(), to.clone());
        let result = move || match fails.lock().clone() {
            Some(message) => Err(Failure(message)),
            None => Ok(batch.into_iter().map(|piece| renamed(piece, &to)).collect::<Converted>()),
        };
        match self.answers.clone() {
            None => converted(result()),
            Some(answers) => Either::Right(
                async move {
                    answers.acquire().await.expect("the test keeps it").forget();
                    result()
                }
                .boxed(),
            ),
        }
    }

    fn asks_others(&self) -> bool {
        self.answers.is_some()
    }

    fn kept(&self) -> Option<&Arc<Kept>> {
        self.kept.as_ref()
    }
}

fn renamed(piece: Piece, to: &WrittenAs) -> Value {
    let Piece { written_as, mut object } = piece;
    assert_ne!(written_as.version, to.version, "objects of the version are not asked about");
    let (from, to) = if &*to.version == "v1" { (OLD, NEW) } else { (NEW, OLD) };
    if let Some(data) = object.get_mut("data").and_then(Value::as_object_mut)
        && let Some(value) = data.shift_remove(from)
    {
        data.insert(to.to_owned(), value);
    }
    object
}

/// Versions of the kind [`widgets`] declares.
pub(crate) const V1: &str = "/apis/stable.example.com/v1/namespaces/ns/widgets";
/// The older one.
pub(crate) const V1BETA1: &str = "/apis/stable.example.com/v1beta1/namespaces/ns/widgets";

/// Widgets: config maps as data, under a name of their own, in the versions `v1` and `v1beta1`. `stored` is the one that is
/// stored, `since` the revision of the definition that declares both schemas.
pub(crate) fn widgets(registry: &Registry, converter: &Renaming, stored: &str, since: u64) -> DeclaredKind {
    let maps = registry.find("", "v1", "configmaps").expect("config maps are built in");
    let version = |version: &str| {
        let mut definition = ResourceType {
            group: "stable.example.com".to_owned(),
            version: version.to_owned(),
            plural: "widgets".to_owned(),
            singular: "widget".to_owned(),
            kind: "Widget".to_owned(),
            list_kind: "WidgetList".to_owned(),
            short_names: Vec::new(),
            columns: table_columns(&[]),
            ..(*maps.definition).clone()
        };
        definition.rules.conditional_update = true;
        DeclaredVersion {
            definition,
            schema: registry.schema.clone().into(),
            since: Revision(since),
            deprecation: None,
            end: End::default(),
            published: None,
            constraints: None,
        }
    };
    DeclaredKind {
        versions: vec![version("v1"), version("v1beta1")],
        stored: Arc::new(WrittenAs { version: stored.into(), definition: Revision(since) }),
        stored_type: maps.type_id,
        stored_schema: registry.schema.clone().into(),
        converter: Arc::new(converter.clone()),
        record: None,
        stage: Stage::Established,
    }
}
