//! Questions about rights: `authorizer.group('apps').resource('deployments').check('get').allowed()`.
//!
//! Owns how a question is put together ([`Check`]). Answers come from the place of the expression ([`Decisions`]): an
//! answer that is not known yet ends the evaluation with the question ([`EvaluationError::Undecided`]), and the place
//! evaluates again when it has it. Never asks anybody itself.

use std::fmt;
use std::sync::Arc;

use orch_schema::names;

use crate::error::{EvaluationError, fault, no_overload};
use crate::evaluate::{Outcome, Run};
use crate::value::Val;

/// A question about rights.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Question {
    /// Namespace and name of the service account that is asked about; `None` for the user of the request.
    pub service_account: Option<(Arc<str>, Arc<str>)>,
    /// The objects or the path that the right is asked for.
    pub target: Target,
    /// `get`, `update`, and others.
    pub verb: Arc<str>,
}

/// The target of a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// A path that is no resource.
    Path(Arc<str>),
    /// A resource; empty texts are those that were not named.
    Resource(ResourceTarget),
}

impl Default for Target {
    fn default() -> Self {
        Target::Resource(ResourceTarget::default())
    }
}

/// A resource, or an object of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct ResourceTarget {
    /// Empty for the core group.
    pub group: Arc<str>,
    /// The plural.
    pub resource: Arc<str>,
    /// The sub-resource.
    pub subresource: Arc<str>,
    /// The namespace.
    pub namespace: Arc<str>,
    /// The object's name.
    pub name: Arc<str>,
    /// The field selector as it is written.
    pub field_selector: Option<Arc<str>>,
    /// The label selector as it is written.
    pub label_selector: Option<Arc<str>>,
}

/// The answer to a question.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Decision {
    /// Whether it is allowed.
    pub allowed: bool,
    /// The authorizer's reason; may be empty.
    pub reason: String,
    /// The authorizer's fault; empty if it has none.
    pub error: String,
}

/// Answers to questions about rights.
pub trait Decisions: fmt::Debug + Send + Sync {
    /// The answer, if it is known.
    fn answer(&self, question: &Question) -> Option<Arc<Decision>>;
}

/// A question on its way.
#[derive(Clone, Debug)]
pub struct Check<'v> {
    decisions: &'v dyn Decisions,
    stage: Stage,
    question: Question,
}

/// How far the question has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Authorizer,
    Path,
    Group,
    Resource,
}

impl<'v> Val<'v> {
    /// The value of the variable `authorizer`.
    pub fn authorizer(decisions: &'v dyn Decisions) -> Val<'v> {
        let check = Check { decisions, stage: Stage::Authorizer, question: Question::default() };
        Val::Check(Arc::new(check))
    }

    /// The value of the variable `authorizer.requestResource`.
    pub fn request_resource(decisions: &'v dyn Decisions, target: ResourceTarget) -> Val<'v> {
        let question = Question { target: Target::Resource(target), ..Question::default() };
        Val::Check(Arc::new(Check { decisions, stage: Stage::Resource, question }))
    }
}

impl Check<'_> {
    /// The name of the type.
    pub(crate) fn type_name(&self) -> &'static str {
        match self.stage {
            Stage::Authorizer => AUTHORIZER,
            Stage::Path => PATH_CHECK,
            Stage::Group => GROUP_CHECK,
            Stage::Resource => RESOURCE_CHECK,
        }
    }
}

/// Names of the types behind the brand's.
pub(crate) const AUTHORIZER: &str = "authorization.Authorizer";
pub(crate) const PATH_CHECK: &str = "authorization.PathCheck";
pub(crate) const GROUP_CHECK: &str = "authorization.GroupCheck";
pub(crate) const RESOURCE_CHECK: &str = "authorization.ResourceCheck";
pub(crate) const DECISION: &str = "authorization.Decision";

/// The check after a step from `stage` to `next`, for which `change` adds a text to the question.
fn step<'v>(
    run: &mut Run<'v>,
    arguments: &[Val<'v>],
    stages: (Stage, Stage),
    change: impl FnOnce(&mut Question, Arc<str>),
) -> Outcome<'v> {
    let [Val::Check(check), Val::Text(text)] = arguments else { return Err(no_overload()) };
    if check.stage != stages.0 {
        return Err(no_overload());
    }
    run.make_bytes(size_of::<Check<'_>>() + text.len())?;
    let mut next = (**check).clone();
    next.stage = stages.1;
    change(&mut next.question, (&**text).into());
    Ok(Val::Check(Arc::new(next)))
}

fn target(question: &mut Question) -> &mut ResourceTarget {
    if let Target::Path(_) = question.target {
        question.target = Target::default();
    }
    match &mut question.target {
        Target::Resource(target) => target,
        Target::Path(_) => unreachable!("it was made one of a resource"),
    }
}

fn is_blank(argument: Option<&Val<'_>>) -> bool {
    matches!(argument, Some(Val::Text(text)) if text.trim().is_empty())
}

pub(crate) fn path<'v>(run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    if is_blank(arguments.get(1)) {
        return Err(fault("path must not be empty"));
    }
    step(run, arguments, (Stage::Authorizer, Stage::Path), |question, path| {
        question.target = Target::Path(path);
    })
}

pub(crate) fn group<'v>(run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    step(run, arguments, (Stage::Authorizer, Stage::Group), |question, group| target(question).group = group)
}

pub(crate) fn service_account<'v>(run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    let [Val::Check(check), Val::Text(namespace), Val::Text(name)] = arguments else {
        return Err(no_overload());
    };
    if check.stage != Stage::Authorizer {
        return Err(no_overload());
    }
    run.make_bytes(size_of::<Check<'_>>() + namespace.len() + name.len())?;
    if !names::dns1123_subdomain(name).is_empty() {
        return Err(fault("Invalid service account name"));
    }
    if !names::dns1123_label(namespace).is_empty() {
        return Err(fault("Invalid service account namespace"));
    }
    let mut next = (**check).clone();
    next.question.service_account = Some(((&**namespace).into(), (&**name).into()));
    Ok(Val::Check(Arc::new(next)))
}

pub(crate) fn resource<'v>(run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    if is_blank(arguments.get(1)) {
        return Err(fault("resource must not be empty"));
    }
    step(run, arguments, (Stage::Group, Stage::Resource), |question, resource| {
        target(question).resource = resource;
    })
}

const OF_RESOURCE: (Stage, Stage) = (Stage::Resource, Stage::Resource);

pub(crate) fn subresource<'v>(run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    step(run, arguments, OF_RESOURCE, |question, subresource| target(question).subresource = subresource)
}

pub(crate) fn namespace<'v>(run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    step(run, arguments, OF_RESOURCE, |question, namespace| target(question).namespace = namespace)
}

pub(crate) fn name<'v>(run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    step(run, arguments, OF_RESOURCE, |question, name| target(question).name = name)
}

pub(crate) fn field_selector<'v>(run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    step(run, arguments, OF_RESOURCE, |question, selector| target(question).field_selector = Some(selector))
}

pub(crate) fn label_selector<'v>(run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    step(run, arguments, OF_RESOURCE, |question, selector| target(question).label_selector = Some(selector))
}

/// The answer, or the end of the evaluation.
pub(crate) fn check<'v>(run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    let [Val::Check(check), Val::Text(verb)] = arguments else { return Err(no_overload()) };
    if !matches!(check.stage, Stage::Path | Stage::Resource) {
        return Err(no_overload());
    }
    run.make_bytes(size_of::<Question>() + verb.len())?;
    let question = Question { verb: (&**verb).into(), ..check.question.clone() };
    match check.decisions.answer(&question) {
        Some(decision) => Ok(Val::Decision(decision)),
        None => Err(Box::new(EvaluationError::Undecided(Box::new(question)))),
    }
}

fn of_decision<'v>(arguments: &[Val<'v>], of: fn(&Decision) -> Val<'v>) -> Outcome<'v> {
    let [Val::Decision(decision)] = arguments else { return Err(no_overload()) };
    Ok(of(decision))
}

pub(crate) fn allowed<'v>(_run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    of_decision(arguments, |decision| Val::Bool(decision.allowed))
}

pub(crate) fn reason<'v>(_run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    of_decision(arguments, |decision| Val::text(&*decision.reason))
}

pub(crate) fn errored<'v>(_run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    of_decision(arguments, |decision| Val::Bool(!decision.error.is_empty()))
}

pub(crate) fn error<'v>(_run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    of_decision(arguments, |decision| Val::text(&*decision.error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environments::{AdmissionTypes, AdmissionVariable};
    use crate::{Allowance, Ast, Budget, Libraries, Limits, PatternLimits};

    /// Allows `get`, and knows nothing of other verbs.
    #[derive(Debug)]
    struct OnlyGet;

    impl Decisions for OnlyGet {
        fn answer(&self, question: &Question) -> Option<Arc<Decision>> {
            let allowed = Decision { allowed: true, reason: "a rule".to_owned(), error: String::new() };
            (&*question.verb == "get").then(|| Arc::new(allowed))
        }
    }

    fn evaluate(source: &str) -> (Result<String, EvaluationError>, u64) {
        let scope = AdmissionTypes::of("brand").scope(&AdmissionVariable::ALL, Libraries::default());
        let mut charge = Allowance::of(u64::MAX);
        let ast = Ast::check(source, &scope, &mut charge).unwrap();
        let ast = ast.unwrap_or_else(|error| panic!("{source}: {error}"));
        let program = ast.program(PatternLimits::STANDING, &mut charge).unwrap();
        let target =
            ResourceTarget { resource: "pods".into(), name: "p".into(), ..ResourceTarget::default() };
        let mut variables: Vec<Option<Val<'_>>> = vec![None; AdmissionVariable::ALL.len()];
        variables[AdmissionVariable::Authorizer.place()] = Some(Val::authorizer(&OnlyGet));
        variables[AdmissionVariable::RequestResource.place()] = Some(Val::request_resource(&OnlyGet, target));
        let mut budget = Budget::of(10_000_000);
        let value = program.evaluate(&variables, Limits::CALL, &mut budget).map(|value| value.to_string());
        (value, 10_000_000 - budget.left())
    }

    #[test]
    fn an_answer_that_is_known_is_used_at_the_price_of_the_reference() {
        let (value, cost) =
            evaluate("authorizer.group('apps').resource('deployments').check('get').allowed()");
        assert_eq!((value, cost), (Ok("true".to_owned()), 1 + 1 + 1 + CHECK_COST + 1));
        let (value, _) = evaluate("authorizer.path('/healthz').check('get').reason()");
        assert_eq!(value, Ok("a rule".to_owned()));
    }

    const CHECK_COST: u64 = 350_000;

    #[test]
    fn a_question_without_an_answer_ends_the_evaluation() {
        for source in [
            "authorizer.requestResource.subresource('log').check('watch').allowed() || true",
            "[1].exists(x, authorizer.requestResource.subresource('log').check('watch').allowed())",
        ] {
            let (value, _) = evaluate(source);
            let Err(EvaluationError::Undecided(question)) = value else { panic!("{source}: {value:?}") };
            let Target::Resource(target) = &question.target else { panic!("{question:?}") };
            let asked = (&*question.verb, &*target.resource, &*target.subresource, &*target.name);
            assert_eq!(asked, ("watch", "pods", "log", "p"));
        }
    }

    #[test]
    fn steps_of_a_question_have_the_faults_of_the_reference() {
        for (source, reason) in [
            ("authorizer.path(' ').check('get').allowed()", "path must not be empty"),
            ("authorizer.group('').resource('').check('get').allowed()", "resource must not be empty"),
            (
                "authorizer.serviceAccount('A', 'b').path('/x').check('get').allowed()",
                "Invalid service account namespace",
            ),
            (
                "authorizer.serviceAccount('A', '_').path('/x').check('get').allowed()",
                "Invalid service account name",
            ),
            (
                "authorizer.serviceAccount('a', '_').path('/x').check('get').allowed()",
                "Invalid service account name",
            ),
        ] {
            assert_eq!(evaluate(source).0.unwrap_err().to_string(), reason, "{source}");
        }
    }
}
