//! The type tables of a resource, which may be made when they are first needed.
//!
//! Owns when they are made: those of built-in kinds at the start, those of a kind that is added while the node runs by the first
//! request for it. Names, verbs and the id of the root type are known without them. All versions that share a schema share its
//! tables.
//!
//! Invariant: tables are made once, on a thread for blocking work where a task asks ([`Tables::make`]). Tasks that need them meanwhile
//! wait for these and for no others; nobody else waits.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use orch_schema::Schema;
use parking_lot::Mutex;

use crate::follow::Builder;
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
    builder: Builder,
}

impl Tables {
    /// Tables that `make` makes when they are first needed, where `builder` says. What it is made from was checked before, so
    /// that it cannot fail.
    pub fn later(builder: Builder, make: impl FnOnce() -> Arc<Schema> + Send + 'static) -> Self {
        let make: Make = Box::new(make);
        let (made, making) = (OnceLock::new(), Making::default());
        Tables(Form::Later(Arc::new(Later { made, make: Mutex::new(Some(make)), making, builder })))
    }

    /// Whether they are there, so that nobody who needs them waits.
    pub fn are_made(&self) -> bool {
        match &self.0 {
            Form::Made(_) => true,
            Form::Later(later) => later.made.get().is_some(),
        }
    }

    /// Makes the tables where that has not been done, as their builder says: those of a large definition take tens of
    /// milliseconds. All that wait for them take one thread together, also where the first of them goes away.
    ///
    /// # Errors
    /// [`Unmade`]: making them has panicked, or the node stops.
    pub async fn make(&self) -> Result<(), Unmade> {
        let Form::Later(later) = &self.0 else { return Ok(()) };
        if later.made.get().is_some() {
            return Ok(());
        }
        let own = self.clone();
        match later.builder {
            Builder::BlockingThread => later.making.make_once(move || drop(own.schema().clone())).await,
            Builder::Caller => drop(own.schema().clone()),
        }
        if self.are_made() { Ok(()) } else { Err(Unmade) }
    }

    /// The schema. Where it is not made, the calling thread makes it, or waits for the one that does: requests wait by
    /// [`Tables::make`] before.
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

/// Tables that could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the tables of a kind cannot be made")]
pub struct Unmade;

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
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn tables_are_made_once_by_the_first_who_needs_them_and_shared() {
        let count = Arc::new(AtomicUsize::new(0));
        let counted = count.clone();
        let tables = Tables::later(Builder::default(), move || {
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

    #[test]
    fn tasks_that_wait_for_tables_take_one_thread_together() {
        let runtime = tokio::runtime::Builder::new_current_thread().max_blocking_threads(2).build().unwrap();
        let (release, released) = mpsc::channel::<()>();
        runtime.block_on(async {
            let tables = Tables::later(Builder::BlockingThread, move || {
                released.recv().unwrap();
                Arc::new(Schema::new(Vec::new()))
            });
            let task = || {
                let own = tables.clone();
                tokio::spawn(async move { own.make().await })
            };
            let first = task();
            let waiting: Vec<_> = (0..16).map(|_| task()).collect();
            tokio::task::yield_now().await;
            // The second thread is free.
            tokio::task::spawn_blocking(|| ()).await.unwrap();
            assert!(!tables.are_made());
            first.abort();
            release.send(()).unwrap();
            for waited in waiting {
                waited.await.unwrap().unwrap();
            }
        });
    }

    #[tokio::test]
    async fn tables_whose_making_panics_are_an_error_for_all() {
        let tables = Tables::later(Builder::BlockingThread, || panic!("the test wants it"));
        for _ in 0..2 {
            assert_eq!(tables.make().await, Err(Unmade));
        }
    }
}
