//! The report of a trial, as text and as JSON.
//!
//! Owns both forms. The text is for people; scripts read the JSON.

use std::io::{self, Write};

use orch_api::authn::User;
use orch_api::expression::policy::{Annotation, Said, Verdict};
use orch_api::trial::{Evaluation, Operation, Outcome, Tried};
use orch_schema::json;
use orch_schema::value::Value;

use super::documents::{name, namespace, text};
use crate::cli::Output;

/// The outcomes of all writes.
pub(super) struct Report {
    operation: &'static str,
    user: String,
    writes: Vec<Written>,
}

/// The outcome of one write.
struct Written {
    /// `Deployment shop/web`.
    object: String,
    tried: Tried,
    /// The object as it would be stored, where policies changed it.
    changed: Option<Value>,
}

/// The result of one expression.
struct Line {
    /// `validations[0]`.
    field: String,
    outcome: &'static str,
    cost: u64,
    message: String,
}

impl Report {
    pub(super) fn new(operation: Operation, user: &User) -> Report {
        let operation = match operation {
            Operation::Create => "create",
            Operation::Update => "update",
            Operation::Delete => "delete",
        };
        Report { operation, user: user.name.clone(), writes: Vec::new() }
    }

    pub(super) fn add(&mut self, object: &Value, tried: Tried) {
        let is_mutated = tried.evaluations.iter().any(|of| matches!(of.outcome, Outcome::Mutated(_)));
        let changed = tried.result.as_ref().ok().filter(|_| is_mutated).cloned();
        let place = match namespace(object) {
            Some(namespace) => format!("{namespace}/{}", name(object)),
            None => name(object).to_owned(),
        };
        self.writes.push(Written { object: format!("{} {place}", text(object, "kind")), tried, changed });
    }

    /// Whether a policy refused a write.
    pub(super) fn any_refused_by_policy(&self) -> bool {
        self.writes.iter().any(|write| write.tried.result.as_ref().is_err_and(|refused| refused.is_by_policy))
    }

    /// Whether a write was admitted.
    pub(super) fn any_admitted(&self) -> bool {
        self.writes.iter().any(|write| write.tried.result.is_ok())
    }

    /// The reason of the first write that was refused by something else than a policy.
    pub(super) fn unusable(&self) -> Option<&str> {
        let mut refused = self.writes.iter().filter_map(|write| write.tried.result.as_ref().err());
        refused.find(|refused| !refused.is_by_policy).map(|refused| refused.message.as_str())
    }

    pub(super) fn print(&self, form: Output, out: &mut impl Write) -> io::Result<()> {
        match form {
            Output::Json => writeln!(out, "{:#}", self.to_value()),
            Output::Text => self.writes.iter().try_for_each(|write| self.print_write(write, out)),
        }
    }

    fn print_write(&self, write: &Written, out: &mut impl Write) -> io::Result<()> {
        let Written { object, tried, changed } = write;
        writeln!(out, "{} {object} as {}", self.operation, self.user)?;
        if tried.evaluations.is_empty() {
            writeln!(out, "  no policy is about it")?;
        }
        for evaluation in &tried.evaluations {
            print_evaluation(evaluation, out)?;
        }
        for warning in &tried.warnings {
            writeln!(out, "  warning: {warning}")?;
        }
        if let Some(changed) = changed {
            writeln!(out, "  would be stored as {changed}")?;
        }
        match &tried.result {
            Ok(_) => writeln!(out, "  admitted"),
            Err(refused) => writeln!(out, "  refused with {}: {}", refused.code, refused.message),
        }
    }

    fn to_value(&self) -> Value {
        let write = |write: &Written| {
            let Written { object, tried, changed } = write;
            let evaluations: Vec<Value> = tried.evaluations.iter().map(evaluation_value).collect();
            let mut value = json!({
                "object": object, "operation": self.operation, "user": self.user, "evaluations": evaluations,
                "warnings": tried.warnings, "admitted": tried.result.is_ok(),
            });
            if let Err(refused) = &tried.result {
                value["code"] = json!(i64::from(refused.code));
                value["message"] = json!(refused.message);
                value["refusedBy"] = json!(if refused.is_by_policy { "policy" } else { "kind" });
            }
            if let Some(changed) = changed {
                value["changed"] = changed.clone();
            }
            value
        };
        let writes: Vec<Value> = self.writes.iter().map(write).collect();
        json!({"writes": writes})
    }
}

fn print_evaluation(evaluation: &Evaluation, out: &mut impl Write) -> io::Result<()> {
    let Evaluation { kind, policy, binding, param, .. } = evaluation;
    write!(out, "  {kind} {policy}")?;
    for (part, name) in [("binding", binding), ("parameter", param)] {
        if !name.is_empty() {
            write!(out, ", {part} {name}")?;
        }
    }
    let (summary, lines) = contents(&evaluation.outcome);
    writeln!(out, "{}{summary}", if summary.is_empty() { "" } else { ": " })?;
    for Line { field, outcome, cost, message } in &lines {
        // Messages may have several lines.
        let message = message.replace('\n', "\n      ");
        writeln!(out, "    {field:<16} {outcome:<8} cost {cost:<8} {message}")?;
    }
    if let Outcome::Validated(Verdict { cost, annotations, .. }) = &evaluation.outcome {
        for annotation in annotations {
            if let Annotation::Published(key, text) = annotation {
                writeln!(out, "    audit annotation {key}: {text}")?;
            }
        }
        writeln!(out, "    all of it        cost {cost}")?;
    }
    Ok(())
}

/// A summary where there is no more to tell, and what each expression said.
fn contents(outcome: &Outcome) -> (String, Vec<Line>) {
    match outcome {
        Outcome::Misconfigured(reason) => (format!("cannot be evaluated: {reason}"), Vec::new()),
        Outcome::LeftOut => ("left out by its match conditions".to_owned(), Vec::new()),
        Outcome::NoConditions(reason) => {
            (format!("its match conditions have no value: {reason}"), Vec::new())
        }
        Outcome::Validated(verdict) => (String::new(), validated(verdict)),
        Outcome::Mutated(mutated) => {
            let line = |(at, one): (usize, &orch_api::trial::Mutated)| Line {
                field: format!("mutations[{at}]"),
                outcome: if one.error.is_some() { "failed" } else { "made" },
                cost: one.cost,
                message: one.error.clone().unwrap_or_default(),
            };
            (String::new(), mutated.iter().enumerate().map(line).collect())
        }
    }
}

fn validated(verdict: &Verdict) -> Vec<Line> {
    let line = |(at, said): (usize, &Said)| {
        let (outcome, message) = match said {
            Said::Holds => ("holds", ""),
            Said::Denied { message, .. } => ("violated", message.as_str()),
            Said::Failed(message) => ("failed", message.as_str()),
            Said::Ignored(message) => ("ignored", message.as_str()),
        };
        let cost = verdict.costs.get(at).copied().unwrap_or_default();
        Line { field: format!("validations[{at}]"), outcome, cost, message: message.to_owned() }
    };
    let failed = verdict.annotations.iter().filter_map(|annotation| match annotation {
        Annotation::Published(..) => None,
        Annotation::Failed(message) => Some(Line {
            field: "auditAnnotations".to_owned(),
            outcome: "failed",
            cost: 0,
            message: message.clone(),
        }),
    });
    verdict.said.iter().enumerate().map(line).chain(failed).collect()
}

fn evaluation_value(evaluation: &Evaluation) -> Value {
    let Evaluation { kind, policy, binding, param, actions, outcome } = evaluation;
    let (summary, lines) = contents(outcome);
    let count = |cost: u64| i64::try_from(cost).unwrap_or(i64::MAX);
    let line = |line: &Line| {
        json!({
            "field": line.field, "outcome": line.outcome, "cost": count(line.cost), "message": line.message,
        })
    };
    let lines: Vec<Value> = lines.iter().map(line).collect();
    let mut value = json!({
        "kind": *kind, "policy": policy, "binding": binding, "parameter": param, "expressions": lines,
    });
    if !actions.is_empty() {
        value["actions"] = actions.iter().copied().map(Value::from).collect();
    }
    if !summary.is_empty() {
        value["summary"] = json!(summary);
    }
    if let Outcome::Validated(verdict) = outcome {
        value["cost"] = json!(count(verdict.cost));
        let mut published = json!({});
        for annotation in &verdict.annotations {
            if let Annotation::Published(key, text) = annotation {
                published[key.as_str()] = json!(text);
            }
        }
        value["auditAnnotations"] = published;
    }
    value
}
