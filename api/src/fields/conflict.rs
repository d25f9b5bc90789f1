//! Conflicts of an apply: fields that others own and would lose.

use std::fmt::Write;

use super::element::PathElement;
use super::managed::{ManagedEntry, Operation};
use crate::validate::errors::ERRORS_SHOWN_MAX;
use crate::validate::field::{beginning, quoted};

/// One field that another manager owns with another value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// Name of the owner.
    pub manager: String,
    /// How the owner wrote it.
    pub operation: Operation,
    /// Version the owner wrote it in.
    pub api_version: String,
    /// Sub-resource it was written through; empty for the main resource.
    pub subresource: String,
    /// The field, as messages print it: `.data.a`.
    pub path: String,
    pub(super) elements: Vec<PathElement>,
}

/// All conflicts of an apply, by owner and path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflicts(pub(super) Vec<Conflict>);

impl Conflict {
    pub(super) fn new(owner: &ManagedEntry, elements: &[PathElement]) -> Self {
        let mut path = String::new();
        for element in elements {
            write!(path, "{element}").expect("writing to a string cannot fail");
        }
        Conflict {
            manager: owner.manager.clone(),
            operation: owner.operation,
            api_version: owner.api_version.clone(),
            subresource: owner.subresource.clone(),
            path,
            elements: elements.to_vec(),
        }
    }

    /// The owner as messages name it: `"kubelet" with subresource "status" using v1`.
    fn owner(&self) -> String {
        let mut out = quoted(&self.manager);
        if !self.subresource.is_empty() {
            out.push_str(" with subresource ");
            out.push_str(&quoted(&self.subresource));
        }
        if self.operation == Operation::Update {
            out.push_str(" using ");
            out.push_str(&self.api_version);
        }
        out
    }

    /// The message of the cause in a Status; its reason is `FieldManagerConflict`, its field [`Conflict::path`].
    pub fn cause(&self) -> String {
        format!("conflict with {}", self.owner())
    }
}

impl Conflicts {
    /// The conflicts that an answer names, each as one cause of the Status.
    pub fn shown(&self) -> impl Iterator<Item = &Conflict> {
        self.0.iter().take(ERRORS_SHOWN_MAX)
    }
}

impl std::fmt::Display for Conflicts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let [conflict] = self.0.as_slice() {
            return write!(f, "Apply failed with 1 conflict: {}: {}", conflict.cause(), conflict.path);
        }
        write!(f, "Apply failed with {} conflicts: ", self.0.len())?;
        let shown = &self.0[..self.0.len().min(ERRORS_SHOWN_MAX)];
        for (at, group) in shown.chunk_by(|a, b| a.owner() == b.owner()).enumerate() {
            if at > 0 {
                f.write_char('\n')?;
            }
            write!(f, "conflicts with {}:", group[0].owner())?;
            for conflict in group {
                write!(f, "\n- {}", beginning(&conflict.path))?;
            }
        }
        if self.0.len() > shown.len() {
            write!(f, "\nand {} more", self.0.len() - shown.len())?;
        }
        Ok(())
    }
}
