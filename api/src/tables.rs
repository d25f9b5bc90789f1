//! The type tables of a resource, which may be made when they are first needed.
//!
//! Owns when they are made: those of built-in kinds at the start, those of a kind that is added while the node runs by the first
//! request for it. Names, verbs and the id of the root type are known without them. All versions that share a schema share its
//! tables.
//!
//! Invariant: tables are made once. Who needs them meanwhile waits for these and for no others; nobody else waits.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use orch_schema::Schema;
use parking_lot::Mutex;

use crate::making::Making;

/// The schema of a resource. It dereferences to the schema, which is made where that has not been done.
#[derive(Clone)]
pub struct Tables(Form);

#[derive(Clone)]
enum Form {
    Made(Arc<Schema>),
    Later(Arc<Later>),
}

/// Makes a schema.
type Make = Box<dyn FnOnce() -> Arc<Schema> + Send>;

struct Later {
    made: OnceLock<Arc<Schema>>,
    /// Taken by the one that makes the schema.
    make: Mutex<Option<Make>>,
    making: Making,
}

impl Tables {
    /// Tables that `make` makes when they are first needed. What it is made from was checked before, so that it cannot fail.
    pub fn later(make: impl FnOnce() -> Arc<Schema> + Send + 'static) -> Self {
        let make: Make = Box::new(make);
        let (made, making) = (OnceLock::new(), Making::default());
        Tables(Form::Later(Arc::new(Later { made, make: Mutex::new(Some(make)), making })))
    }

    /// Whether they are there, so that nobody who needs them waits.
    pub fn are_made(&self) -> bool {
        match &self.0 {
            Form::Made(_) => true,
            Form::Later(later) => later.made.get().is_some(),
        }
    }

    /// By which requests wait until the tables are made; `None`: they are.
    pub fn to_make(&self) -> Option<&Making> {
        match &self.0 {
            Form::Later(later) if later.made.get().is_none() => Some(&later.making),
            Form::Later(_) | Form::Made(_) => None,
        }
    }

    /// The schema. Where it is not made, the calling thread makes it, or waits for the one that does: requests wait by
    /// [`Tables::to_make`] before.
    ///
    /// # Panics
    /// An earlier call that made it has panicked.
    pub fn schema(&self) -> &Arc<Schema> {
        match &self.0 {
            Form::Made(schema) => schema,
            Form::Later(later) => later.made.get_or_init(|| {
                let make = later.make.lock().take().expect("it is taken once, by who makes the schema");
                make()
            }),
        }
    }
}

impl fmt::Debug for Tables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tables").field("are_made", &self.are_made()).finish()
    }
}

impl From<Arc<Schema>> for Tables {
    fn from(schema: Arc<Schema>) -> Self {
        Tables(Form::Made(schema))
    }
}

impl Deref for Tables {
    type Target = Schema;

    fn deref(&self) -> &Schema {
        self.schema()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn tables_are_made_once_by_the_first_who_needs_them_and_shared() {
        let count = Arc::new(AtomicUsize::new(0));
        let counted = count.clone();
        let tables = Tables::later(move || {
            counted.fetch_add(1, Ordering::SeqCst);
            Arc::new(Schema::new(Vec::new()))
        });
        let other = tables.clone();
        assert!(!tables.are_made() && count.load(Ordering::SeqCst) == 0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| assert_eq!(tables.len(), 0));
            }
        });
        assert!(Arc::ptr_eq(tables.schema(), other.schema()) && other.are_made());
        assert_eq!(count.load(Ordering::SeqCst), 1);
    }
}
