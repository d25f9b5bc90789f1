//! Questions about rights, and an authorizer that answers both evaluators.
//!
//! Owns how a question is put together, by the definition of the steps: each names one thing more, and the last one asks.

use std::sync::Arc;

use super::calls::{Called, tenths};
use super::plain::Plain;
use crate::{Decision, Decisions, Question, ResourceTarget, Target};

/// The fault of a question that has no answer yet. Nothing forgives it.
pub(super) const UNDECIDED: &str = "undecided";
/// Cost of asking.
const CHECK_COST: u64 = 350_000;

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    allowed: bool,
    reason: String,
    error: String,
}

/// The answer to a question: some are allowed, and those with the verb `later` have none.
fn answer(verb: &str, named: &[String]) -> Option<Answer> {
    let letters: usize = named.iter().map(|name| name.chars().count()).sum();
    let error = if verb == "broken" { "it broke" } else { "" };
    let found = Answer { allowed: letters % 2 == 0, reason: named.join("/"), error: error.to_owned() };
    (verb != "later").then_some(found)
}

/// The authorizer of the fast evaluator.
#[derive(Debug)]
pub(super) struct Authorizer;

impl Decisions for Authorizer {
    fn answer(&self, question: &Question) -> Option<Arc<Decision>> {
        let account = question.service_account.as_ref();
        let account = account.map_or_else(String::new, |(namespace, name)| format!("{namespace}:{name}"));
        let named = match &question.target {
            Target::Path(path) => vec![account, path.to_string()],
            Target::Resource(of) => {
                let selector = |text: &Option<Arc<str>>| text.as_deref().unwrap_or_default().to_owned();
                let parts = [&of.group, &of.resource, &of.subresource, &of.namespace, &of.name];
                let parts = parts.map(|part| part.to_string());
                let selectors = [selector(&of.field_selector), selector(&of.label_selector)];
                [vec![account], parts.to_vec(), selectors.to_vec()].concat()
            }
        };
        let Answer { allowed, reason, error } = answer(&question.verb, &named)?;
        Some(Arc::new(Decision { allowed, reason, error }))
    }
}

/// The question that nothing was named for yet.
pub(super) fn start() -> Plain {
    Plain::Check("authorizer", vec![String::new()])
}

/// Group, resource, subresource, namespace and name of the request of a policy.
const REQUEST: [&str; 5] = ["apps", "deployments", "", "n", "o"];

/// The question about the resource of the request.
pub(super) fn of_request() -> Plain {
    let mut named = vec![String::new()];
    named.extend(REQUEST.map(str::to_owned));
    named.resize(8, String::new());
    Plain::Check("resource", named)
}

/// The same for the fast evaluator.
pub(super) fn target_of_request() -> ResourceTarget {
    let [group, resource, subresource, namespace, name] = REQUEST.map(Arc::from);
    ResourceTarget { group, resource, subresource, namespace, name, ..ResourceTarget::default() }
}

/// A label, or labels between dots.
fn is_name(text: &str, has_dots: bool) -> bool {
    let is_label = |part: &str| {
        let is_inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        !part.is_empty() && part.chars().all(is_inner) && !part.starts_with('-') && !part.ends_with('-')
    };
    if has_dots { text.split('.').all(is_label) } else { is_label(text) }
}

/// Calls about rights.
pub(super) fn call(name: &str, arguments: &[Plain]) -> Option<Called> {
    let is_blank = |text: &str| text.chars().all(char::is_whitespace);
    let next = |stage, named: Vec<String>| Ok((Plain::Check(stage, named), 1));
    let with = |named: &[String], place: usize, text: &str| {
        let mut named = named.to_vec();
        text.clone_into(&mut named[place]);
        named
    };
    Some(match (name, arguments) {
        ("path", [Plain::Check("authorizer", _), Plain::Text(path)]) if is_blank(path) => {
            Err("path must not be empty".to_owned())
        }
        ("path", [Plain::Check("authorizer", named), Plain::Text(path)]) => {
            next("path", vec![named[0].clone(), path.clone()])
        }
        ("serviceAccount", [Plain::Check("authorizer", _), Plain::Text(namespace), Plain::Text(name)]) => {
            match (is_name(name, true), is_name(namespace, false)) {
                (false, _) => Err("Invalid service account name".to_owned()),
                (_, false) => Err("Invalid service account namespace".to_owned()),
                _ => next("authorizer", vec![format!("{namespace}:{name}")]),
            }
        }
        ("group", [Plain::Check("authorizer", named), Plain::Text(group)]) => {
            let mut named = vec![named[0].clone(), group.clone()];
            named.resize(8, String::new());
            next("group", named)
        }
        ("resource", [Plain::Check("group", _), Plain::Text(resource)]) if is_blank(resource) => {
            Err("resource must not be empty".to_owned())
        }
        ("resource", [Plain::Check("group", named), Plain::Text(resource)]) => {
            next("resource", with(named, 2, resource))
        }
        ("subresource", [Plain::Check("resource", named), Plain::Text(text)]) => {
            next("resource", with(named, 3, text))
        }
        ("namespace", [Plain::Check("resource", named), Plain::Text(text)]) => {
            next("resource", with(named, 4, text))
        }
        ("name", [Plain::Check("resource", named), Plain::Text(text)]) => {
            next("resource", with(named, 5, text))
        }
        ("fieldSelector" | "labelSelector", [Plain::Check("resource", named), Plain::Text(text)]) => {
            let size = crate::length(text.chars().count());
            let cost = 10 + tenths(size, 1) + 50 * tenths(size, 5);
            let place = if name == "fieldSelector" { 6 } else { 7 };
            Ok((Plain::Check("resource", with(named, place, text)), cost))
        }
        ("check", [Plain::Check("path" | "resource", named), Plain::Text(verb)]) => match answer(verb, named)
        {
            Some(answer) => Ok((Plain::Decision(answer), CHECK_COST)),
            None => Err(UNDECIDED.to_owned()),
        },
        ("allowed", [Plain::Decision(answer)]) => Ok((Plain::Bool(answer.allowed), 1)),
        ("reason", [Plain::Decision(answer)]) => Ok((Plain::Text(answer.reason.clone()), 1)),
        ("errored", [Plain::Decision(answer)]) => Ok((Plain::Bool(!answer.error.is_empty()), 1)),
        ("error", [Plain::Decision(answer)]) => Ok((Plain::Text(answer.error.clone()), 1)),
        _ => return None,
    })
}
