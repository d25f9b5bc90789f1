//! Measurements of this API, under the metric names of the reference.
//!
//! Owns the series of requests, of stored objects and of the loops, with their text: they come and go with the kinds that are served. All
//! other values go to the recorder of the process (crate `metrics`), which the program installs, and their text comes from an
//! [`Exposition`] that is handed in.
//!
//! Invariant: no label holds a client's text but the names of a definition, while it is served. Verbs, resources and
//! sub-resources that are not served are `other`, so that the number of series is bounded by what is served.

mod codes;
#[cfg(test)]
mod held;
mod histogram;
mod loops;
mod requests;
mod series;
mod table;

pub(crate) use self::loops::{LoopFigures, QueueFigures};
pub use self::requests::Measured;
pub(crate) use self::requests::{Ended, InFlight, LongRunning, RequestMetrics};

/// The content type of Prometheus's text format.
pub const TEXT_FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Writes all series of the process in the text format of Prometheus.
pub trait Exposition: Send + Sync + 'static {
    /// The text.
    fn render(&self) -> String;

    /// The lines before the series called `name`, of a `kind` such as `histogram`, which are written beside those of the text.
    fn head(&self, name: &str, kind: &str) -> String {
        format!("# TYPE {name} {kind}\n")
    }
}

/// Appends the lines that `write` makes, behind the head of the series called `name`; nothing where there are none.
fn write_series(
    text: &mut String,
    head: &impl Fn(&str, &str) -> String,
    (name, kind): (&str, &str),
    write: impl FnOnce(&mut String, &str),
) {
    let before = text.len();
    text.push_str(&head(name, kind));
    let begun = text.len();
    write(text, name);
    if text.len() == begun {
        text.truncate(before);
    }
}
