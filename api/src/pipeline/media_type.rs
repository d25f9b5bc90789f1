//! The media type of a body: `application/json; charset=utf-8` without its parameters.
//!
//! Owns the grammar of `Content-Type`, as the reference reads it, and the texts of refusals. Which types a request may
//! have is decided where its body is read.

use std::collections::HashSet;

use super::Request;
use crate::error::ApiError;
use crate::request::Verb;

/// The type that HTML forms send, and `curl -d` without a header.
const FORM: &str = "application/x-www-form-urlencoded";

/// The media type in `content_type`. Malformed parameters stay part of the type, so that it is no known one.
pub(super) fn media_type(content_type: &str) -> &str {
    let (media_type, parameters) = content_type.split_once(';').unwrap_or((content_type, ""));
    if are_parameters(parameters) { media_type.trim() } else { content_type }
}

/// The media type of a patch: the text before the first semicolon, as in the reference.
pub(super) fn patch_media_type(content_type: &str) -> &str {
    content_type.split(';').next().unwrap_or_default().trim()
}

/// Media types of text.
const TEXTS: &str = "application/json, application/yaml";

/// The refusal of a body whose media type is not JSON, YAML or, where it may be that, Protobuf. As in the reference, declared kinds
/// name Protobuf, too, which options and lists of metadata may have; not so to a client that has sent an object in it.
pub(super) fn unsupported(request: Request<'_>) -> ApiError {
    let Request { content_type, user_agent, .. } = request;
    let protobuf = request.registry.brand.protobuf_media_type;
    let accepted = match media_type(content_type) == protobuf {
        true => TEXTS.to_owned(),
        false => format!("{TEXTS}, {protobuf}"),
    };
    let hint = hint(content_type, user_agent, "application/json");
    ApiError::UnsupportedMediaType(format!(
        "the body of the request was in an unknown format - accepted media types include: {accepted}{hint}"
    ))
}

/// Whether the body of the request may be Protobuf: an object of a declared kind may not, options of a deletion are of a built-in type.
pub(super) fn takes_protobuf(request: Request<'_>) -> bool {
    let is_deletion = matches!(request.verb, Verb::Delete | Verb::DeleteCollection);
    is_deletion || !request.resource.is_declared()
}

/// The refusal of a patch of an unknown type.
pub(super) fn unsupported_patch(content_type: &str, request: Request<'_>) -> ApiError {
    if request.resource.is_of_declared() {
        let accepted =
            "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";
        return ApiError::UnsupportedMediaType(format!(
            "the body of the request was in an unknown format - accepted media types include: {accepted}"
        ));
    }
    let user_agent = request.user_agent;
    let hint = hint(content_type, user_agent, "application/merge-patch+json");
    ApiError::UnsupportedMediaType(format!("415: Unsupported Media Type{hint}"))
}

/// Advice about the type that curl sends by default. Other clients get the reference's text alone.
fn hint(content_type: &str, user_agent: &str, wanted: &str) -> String {
    if patch_media_type(content_type) != FORM || !user_agent.starts_with("curl/") {
        return String::new();
    }
    format!(" (it was sent as {FORM}, as `curl -d` does by itself; add -H 'Content-Type: {wanted}')")
}

/// Whether `text`, the part behind the first semicolon, is empty or `NAME=VALUE` pairs of different names.
fn are_parameters(text: &str) -> bool {
    let mut names = HashSet::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let Some((name, after)) = rest.split_once('=') else { return false };
        let name = name.trim_end();
        let Some(after) = value_end(after).map(|end| after[end..].trim_start()) else { return false };
        if !is_token(name) || !names.insert(name) {
            return false;
        }
        rest = match after.strip_prefix(';') {
            Some(next) => next.trim_start(),
            None if after.is_empty() => after,
            None => return false,
        };
    }
    true
}

/// The length of the value at the start of `text`: a token, or a text in quotes.
fn value_end(text: &str) -> Option<usize> {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find(|c: char| !is_token_char(c)).unwrap_or(text.len());
        return Some(end).filter(|end| *end > 0);
    };
    let mut is_escaped = false;
    // once: for each parameter.
    let end = quoted.char_indices().find(|(_, c)| {
        let ends = *c == '"' && !is_escaped;
        is_escaped = *c == '\\' && !is_escaped;
        ends
    });
    // Both quotes belong to the value.
    end.map(|(at, _)| at + 2)
}

fn is_token(text: &str) -> bool {
    !text.is_empty() && text.chars().all(is_token_char)
}

fn is_token_char(c: char) -> bool {
    c.is_ascii_graphic() && !r#"()<>@,;:\"/[]?="#.contains(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A megabyte of headers holds as many: comparing each with all before it would take minutes.
    #[test]
    fn many_parameters_are_told_apart_by_hash() {
        let many: String = (0..150_000).map(|at| format!(";p{at}=1")).collect();
        let different = format!("application/json{many}");
        assert_eq!(media_type(&different), "application/json");
        let repeated = format!("{different};p7=1");
        assert_eq!(media_type(&repeated), repeated);
    }

    #[test]
    fn parameters_are_pairs_or_the_type_is_unknown() {
        for text in [
            "application/json",
            "application/json;",
            "application/json ; charset=utf-8",
            "application/json; a=b; c=\"d;\\\"e\" ;",
        ] {
            assert_eq!(media_type(text), "application/json", "{text}");
        }
        for text in [
            "application/json;charset",
            "application/json;=x",
            "application/json;a=",
            "application/json;a=b;a=c",
            "application/json;a=\"b",
            "application/json;a=b c",
            "application/json;;",
        ] {
            assert_eq!(media_type(text), text);
            assert_eq!(patch_media_type(text), "application/json", "{text}");
        }
    }
}
