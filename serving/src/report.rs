//! Errors as text: an error with its causes, each printed once.
//!
//! An error's `Display` does not repeat its source, so log lines and messages that need the whole chain use [`Causes`].

use std::error::Error;
use std::fmt;

/// Prints an error and its causes, outermost first, separated by `: `.
#[derive(Clone, Copy, Debug)]
pub struct Causes<'a>(pub &'a (dyn Error + 'a));

impl fmt::Display for Causes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut cause = self.0.source();
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}
