//! The options of writes, checked.
//!
//! Owns reading `dryRun`, `fieldManager`, `fieldValidation` and `force` from the query. Their rules stand in
//! `validate::options`.

use orch_raft::Store;
use orch_rules::validate::{WriteKind, WriteOptions, validate_patch_options, validate_write_options};

use super::{Pipeline, Request};
use crate::error::ApiError;
use crate::fields::manager_of;
use crate::request::Verb;

/// Level of field validation: the treatment of unknown and duplicate fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldValidation {
    /// Dropped silently.
    Ignore,
    /// Dropped, with a warning each.
    Warn,
    /// Refused.
    Strict,
}

/// Checked options of a write.
#[derive(Clone, Debug)]
pub(super) struct Options {
    /// Run every stage, store nothing.
    pub dry_run: bool,
    /// Level of field validation.
    pub field_validation: FieldValidation,
    /// The field manager.
    pub manager: String,
    /// Apply takes over fields that other managers own.
    pub force: bool,
}

impl<S: Store> Pipeline<S> {
    /// The options of a create, update or patch.
    pub(super) fn write_options(&self, request: Request<'_>, write: WriteKind) -> Result<Options, ApiError> {
        let query = request.query;
        let dry_run: Vec<&str> = query.values("dryRun").collect();
        let given = WriteOptions {
            field_manager: query.text("fieldManager"),
            dry_run: &dry_run,
            field_validation: query.text("fieldValidation"),
        };
        let force = query.optional_flag("force");
        let (kind, errors) = match request.verb {
            Verb::Patch => ("PatchOptions", validate_patch_options(given, write, force)),
            Verb::Update => ("UpdateOptions", validate_write_options(given)),
            _ => ("CreateOptions", validate_write_options(given)),
        };
        if !errors.is_empty() {
            return Err(ApiError::Invalid { subject: request.options_subject(kind), errors });
        }
        let field_validation = match given.field_validation {
            _ if !self.features.field_validation => FieldValidation::Ignore,
            "Ignore" => FieldValidation::Ignore,
            "Strict" => FieldValidation::Strict,
            _ => FieldValidation::Warn,
        };
        Ok(Options {
            dry_run: !dry_run.is_empty(),
            field_validation,
            manager: manager_of(Some(given.field_manager), Some(request.user_agent)),
            force: force.unwrap_or(false),
        })
    }
}
