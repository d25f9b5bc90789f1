//! Options of list and watch: which combinations of version, match, token and initial events are allowed.
//!
//! Owns the matrix of parameters in the spec's section 9. The pipeline refuses tokens and versions that do not parse.

use crate::validate::errors::FieldErrors;
use crate::validate::field::{FieldError, Path};

/// The options of a list or a watch, as parsed from the query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListOptions<'a> {
    /// The request is a watch.
    pub watch: bool,
    /// `resourceVersion`; empty when not given.
    pub resource_version: &'a str,
    /// `resourceVersionMatch`; empty when not given.
    pub resource_version_match: &'a str,
    /// `continue`; empty when not given.
    pub continue_token: &'a str,
    /// `sendInitialEvents`, if given.
    pub send_initial_events: Option<bool>,
}

const EXACT: &str = "Exact";
const NOT_OLDER_THAN: &str = "NotOlderThan";
const NEEDS_VERSION: &str = "resourceVersionMatch is forbidden unless resourceVersion is provided";
const NO_CONTINUE: &str = "resourceVersionMatch is forbidden when continue is provided";
const NO_EXACT_ZERO: &str = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
const INITIAL_NEEDS_MATCH: &str = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
const WATCH_NEEDS_INITIAL: &str =
    "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";

impl ListOptions<'_> {
    /// Fills in the defaults of a watch: without a version or from "0" it sends initial events, and is checked
    /// accordingly.
    #[must_use]
    pub fn with_defaults(self) -> Self {
        let unset = self.send_initial_events.is_none() && self.resource_version_match.is_empty();
        if self.watch && unset && matches!(self.resource_version, "" | "0") {
            return ListOptions {
                send_initial_events: Some(true),
                resource_version_match: NOT_OLDER_THAN,
                ..self
            };
        }
        self
    }
}

/// Rules for the options of a list or a watch. The defaults of a watch are filled in here.
pub fn validate_list_options(options: ListOptions<'_>) -> FieldErrors {
    let options = options.with_defaults();
    if options.watch { validate_watch(options) } else { validate_list(options) }
}

fn validate_list(options: ListOptions<'_>) -> FieldErrors {
    let path = Path::new("resourceVersionMatch");
    let wanted = options.resource_version_match;
    let mut errors = FieldErrors::new();
    if !wanted.is_empty() {
        if options.resource_version.is_empty() {
            errors.push(FieldError::forbidden(path.clone(), NEEDS_VERSION));
        }
        if !options.continue_token.is_empty() {
            errors.push(FieldError::forbidden(path.clone(), NO_CONTINUE));
        }
        if wanted != EXACT && wanted != NOT_OLDER_THAN {
            errors.push(FieldError::not_supported(path.clone(), wanted, &[EXACT, NOT_OLDER_THAN, ""]));
        }
        if wanted == EXACT && options.resource_version == "0" {
            errors.push(FieldError::forbidden(path, NO_EXACT_ZERO));
        }
    }
    if options.send_initial_events.is_some() {
        let detail = "sendInitialEvents is forbidden for list";
        errors.push(FieldError::forbidden(Path::new("sendInitialEvents"), detail));
    }
    errors
}

fn validate_watch(options: ListOptions<'_>) -> FieldErrors {
    let path = Path::new("resourceVersionMatch");
    let wanted = options.resource_version_match;
    let mut errors = FieldErrors::new();
    if options.send_initial_events.is_some() && wanted != NOT_OLDER_THAN {
        errors.push(FieldError::forbidden(path.clone(), INITIAL_NEEDS_MATCH));
    }
    if !wanted.is_empty() {
        if options.send_initial_events.is_none() {
            errors.push(FieldError::forbidden(path.clone(), WATCH_NEEDS_INITIAL));
        }
        if wanted != NOT_OLDER_THAN {
            errors.push(FieldError::not_supported(path.clone(), wanted, &[NOT_OLDER_THAN]));
        }
        if !options.continue_token.is_empty() {
            errors.push(FieldError::forbidden(path, NO_CONTINUE));
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    // (watch, resourceVersion, match, continue, sendInitialEvents) and the messages.
    type Case = ((bool, &'static str, &'static str, &'static str, Option<bool>), &'static [&'static str]);

    const CASES: &[Case] = &[
        ((false, "", "", "", None), &[]),
        ((false, "7", "Exact", "", None), &[]),
        ((false, "0", "NotOlderThan", "", None), &[]),
        ((false, "", "Exact", "", None), &[NEEDS_VERSION]),
        ((false, "", "NotOlderThan", "", None), &[NEEDS_VERSION]),
        ((false, "0", "Exact", "", None), &[NO_EXACT_ZERO]),
        ((false, "", "NotOlderThan", "t", None), &[NEEDS_VERSION, NO_CONTINUE]),
        ((false, "7", "Exact", "t", None), &[NO_CONTINUE]),
        ((false, "", "", "", Some(true)), &["sendInitialEvents is forbidden for list"]),
        ((true, "", "", "", None), &[]),
        ((true, "5", "", "", None), &[]),
        ((true, "5", "", "t", None), &[]),
        ((true, "", "", "x", None), &[NO_CONTINUE]),
        ((true, "", "", "", Some(true)), &[INITIAL_NEEDS_MATCH]),
        ((true, "", "NotOlderThan", "", Some(true)), &[]),
    ];

    #[test]
    fn the_matrix_of_versions() {
        for ((watch, version, wanted, token, initial), expected) in CASES {
            let options = ListOptions {
                watch: *watch,
                resource_version: version,
                resource_version_match: wanted,
                continue_token: token,
                send_initial_events: *initial,
            };
            let messages: Vec<String> =
                validate_list_options(options).into_iter().map(|e| e.message).collect();
            let expected: Vec<String> = expected.iter().map(|text| format!("Forbidden: {text}")).collect();
            assert_eq!(messages, expected, "{options:?}");
        }
    }

    #[test]
    fn unknown_matches_name_the_known_ones() {
        let list =
            ListOptions { resource_version: "1", resource_version_match: "Sometimes", ..Default::default() };
        assert_eq!(
            validate_list_options(list)[0].to_string(),
            "resourceVersionMatch: Unsupported value: \"Sometimes\": supported values: \"Exact\", \"NotOlderThan\", \"\""
        );
        let watch = ListOptions { watch: true, resource_version_match: "Exact", ..list };
        let messages: Vec<String> = validate_list_options(watch).into_iter().map(|e| e.message).collect();
        assert_eq!(
            messages,
            [
                format!("Forbidden: {WATCH_NEEDS_INITIAL}"),
                "Unsupported value: \"Exact\": supported values: \"NotOlderThan\"".to_owned()
            ]
        );
    }
}
