//! Conflicts of an apply: changed fields that other managers own.

use std::fmt::Write;
use std::sync::Arc;

use orch_rules::validate::errors::ERRORS_SHOWN_MAX;
use orch_schema::excerpt::{beginning, part, quoted};

use super::element::PathElement;
use super::managed::{ManagedEntry, Operation};

/// The owner of a field in conflict.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    /// Name of the owner.
    pub manager: String,
    /// Operation of the owner's entry.
    pub operation: Operation,
    /// Version of the owner's entry.
    pub api_version: String,
    /// Sub-resource of the owner's entry; empty for the main resource.
    pub subresource: String,
}

/// A conflict: a field of the configuration that another manager owns with another value. An apply may have tens of
/// thousands of conflicts, so they share their owners, and a path is formatted only where it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// Owner of the field.
    pub owner: Arc<Owner>,
    pub(super) elements: Vec<PathElement>,
}

/// All conflicts of an apply, by owner and path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflicts {
    /// At least those that a response names.
    pub(super) kept: Vec<Conflict>,
    /// Count of all conflicts.
    pub(super) count: usize,
}

impl Owner {
    pub(super) fn of(entry: &ManagedEntry) -> Arc<Owner> {
        Arc::new(Owner {
            manager: entry.manager.clone(),
            operation: entry.operation,
            api_version: entry.api_version.clone(),
            subresource: entry.subresource.clone(),
        })
    }
}

impl std::fmt::Display for Owner {
    /// The owner as messages name it: `"kubelet" with subresource "status" using v1`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&quoted(&self.manager))?;
        if !self.subresource.is_empty() {
            write!(f, " with subresource {}", quoted(&self.subresource))?;
        }
        if self.operation == Operation::Update {
            write!(f, " using {}", self.api_version)?;
        }
        Ok(())
    }
}

impl Conflict {
    /// The field, as messages print it: `.data.a`.
    pub fn path(&self) -> String {
        let mut path = String::new();
        for element in &self.elements {
            write!(path, "{element}").expect("writing to a string cannot fail");
        }
        path
    }

    /// The message of the cause in a Status; its reason is `FieldManagerConflict`, its field [`Conflict::path`].
    pub fn cause(&self) -> String {
        format!("conflict with {}", self.owner)
    }
}

impl Conflicts {
    /// The conflicts that a response names, each as one cause of the Status.
    pub fn shown(&self) -> impl Iterator<Item = &Conflict> {
        self.kept.iter().take(ERRORS_SHOWN_MAX)
    }
}

impl std::fmt::Display for Conflicts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let [conflict] = self.kept.as_slice() {
            return write!(
                f,
                "Apply failed with 1 conflict: {}: {}",
                conflict.cause(),
                part(&conflict.path())
            );
        }
        write!(f, "Apply failed with {} conflicts: ", self.count)?;
        let shown = &self.kept[..self.kept.len().min(ERRORS_SHOWN_MAX)];
        for (at, group) in shown.chunk_by(|a, b| a.owner == b.owner).enumerate() {
            if at > 0 {
                f.write_char('\n')?;
            }
            write!(f, "conflicts with {}:", group[0].owner)?;
            for conflict in group {
                write!(f, "\n- {}", beginning(&conflict.path()))?;
            }
        }
        if self.count > shown.len() {
            write!(f, "\nand {} more", self.count - shown.len())?;
        }
        Ok(())
    }
}
