//! `ValidatingAdmissionPolicy`: refuses, warns of and records writes that break a policy.
//!
//! Owns the order over policies, bindings and parameters, and what follows from each violation. A write is judged by all
//! policies, also behind one that refuses it: their warnings count. The first refusal is given.

use std::collections::BTreeMap;

use futures::future::Either;
use orch_proto::Brand;
use orch_rules::expression::policy::{Annotation, FailurePolicy, Input, Said, ValidatingPrograms, Verdict};
use orch_rules::validate::Distinct;
use orch_schema::value::Value;

use super::prepared::{Action, Binding, Bound, Policies, Policy, PolicyKind};
use super::refusal::{Denial, annotate_violation};
use super::{is_judged, looked_up};
use crate::admission::matching::{Converted, Names, Objects, Param, Version, Write, converted};
use crate::admission::{Additions, Attributes, Plugin, Ruling, View, rule};
use crate::follow::Maintained;

/// Bytes of an audit annotation. The reference's.
const ANNOTATION_BYTES_MAX: usize = 10 << 10;

impl PolicyKind for ValidatingPrograms {
    const SOURCES: [&'static str; 2] = [
        "validatingadmissionpolicies.admissionregistration",
        "validatingadmissionpolicybindings.admissionregistration",
    ];

    fn compile(spec: &Value, brand: &'static Brand) -> Self {
        ValidatingPrograms::compile(spec, brand)
    }
}

#[derive(Debug, Default)]
pub(in crate::admission) struct ValidatingAdmissionPolicy {
    policies: Maintained<Policies<ValidatingPrograms>>,
}

impl Plugin for ValidatingAdmissionPolicy {
    fn name(&self) -> &'static str {
        "ValidatingAdmissionPolicy"
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        is_judged(attributes)
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a Value>,
        view: &'a View,
        _additions: &'a mut Additions,
    ) -> Ruling<'a> {
        let looked = looked_up(&self.policies, attributes, view);
        if looked.as_ref().is_some_and(Vec::is_empty) {
            return rule(Ok(()));
        }
        Either::Right(Box::pin(async move {
            let found = match looked {
                Some(found) => found,
                None => {
                    let plural = &*attributes.resource.plural;
                    self.policies.read(view.applied(), |policies| policies.of_resource(plural)).await
                }
            };
            let mut judging = Judging::new(attributes, object, view);
            for bound in found {
                judging.policy(&bound).await;
            }
            judging.denial.map_or(Ok(()), |denial| Err(denial.refusal(attributes)))
        }))
    }
}

/// A write on its way through the policies.
struct Judging<'a> {
    write: Write<'a>,
    object: Option<&'a Value>,
    /// The objects in the versions that were needed, with the document of the request.
    versions: Vec<(Converted<'a>, Value)>,
    denial: Option<Denial>,
}

type Own = Policy<ValidatingPrograms>;

impl<'a> Judging<'a> {
    fn new(attributes: &'a Attributes<'a>, object: Option<&'a Value>, view: &'a View) -> Judging<'a> {
        Judging { write: Write::new(attributes, view), object, versions: Vec::new(), denial: None }
    }

    async fn policy(&mut self, bound: &Bound<ValidatingPrograms>) {
        let policy = &bound.policy;
        let version = match self.write.matched(&policy.matching, self.object) {
            Ok(None) => return,
            Ok(Some(version)) => version,
            Err(reason) => return self.misconfigured(policy, None, &reason),
        };
        if let Err(reason) = self.write.check_param_kind(policy) {
            return self.misconfigured(policy, None, &reason);
        }
        let mut annotations = Annotations::default();
        for binding in &bound.bindings {
            if let Err(reason) = self.binding(policy, binding, &version, &mut annotations).await {
                self.misconfigured(policy, Some(binding), &reason);
            }
        }
        annotations.publish(&policy.name, self.write.attributes());
    }

    /// Judges the write by `policy` with `binding`.
    ///
    /// # Errors
    /// The policy cannot be evaluated: the reason.
    async fn binding(
        &mut self,
        policy: &Own,
        binding: &Binding,
        version: &Version<'a>,
        annotations: &mut Annotations,
    ) -> Result<(), String> {
        if !self.write.is_bound(binding, self.object)? {
            return Ok(());
        }
        let params = self.write.params(policy, binding).await?;
        if params.is_empty() {
            return Ok(());
        }
        let at = self.version(version).await;
        let at = at.map_err(|reason| format!("failed to convert object version: {reason}"))?;
        let programs = policy.programs(self.write.attributes().brand);
        for param in &params {
            let (Converted { version, object, old }, request) = &self.versions[at];
            let objects = Objects { version, object: object.as_deref(), old: old.as_deref(), request };
            let param = Param { object: param.as_ref(), kind: policy.param_kind() };
            let run = |input: &Input<'_>| programs.validate(input, policy.failure);
            let verdict = self.write.evaluate_policy(policy, objects, param, run).await;
            self.carry_out(policy, binding, verdict, annotations);
        }
        Ok(())
    }

    /// The place of the objects in `version` among those that were converted.
    async fn version(&mut self, version: &Version<'a>) -> Result<usize, String> {
        let asked = &self.write.asked;
        let names = Names::of(asked, version);
        // few: the versions of one resource.
        if let Some(at) = self.versions.iter().position(|(of, _)| of.version == names) {
            return Ok(at);
        }
        let converted = converted(asked, self.object, version).await?;
        let request = asked.document(&converted.version, &Names::of(asked, &Version::Own));
        self.versions.push((converted, request));
        Ok(self.versions.len() - 1)
    }

    fn carry_out(
        &mut self,
        policy: &Own,
        binding: &Binding,
        verdict: Verdict,
        annotations: &mut Annotations,
    ) {
        for (at, said) in verdict.said.into_iter().enumerate() {
            let (message, reason) = match said {
                Said::Holds | Said::Ignored(_) => continue,
                Said::Failed(message) => (message, String::new()),
                Said::Denied { message, reason } => (message, reason),
            };
            for action in &binding.actions {
                match action {
                    Action::Deny => self.deny(policy, Some(binding), message.clone(), reason.clone()),
                    Action::Warn => self.write.attributes().warn(format!(
                        "Validation failed for ValidatingAdmissionPolicy '{}' with binding '{}': {message}",
                        policy.name, binding.name
                    )),
                    Action::Audit => {
                        annotate_violation(self.write.attributes(), &policy.name, binding, at, &message);
                    }
                }
            }
        }
        for annotation in verdict.annotations {
            match annotation {
                Annotation::Published(key, text) => annotations.add(key, text),
                // Whatever the actions of the binding are, as in the reference.
                Annotation::Failed(reason) => self.deny(policy, Some(binding), reason, String::new()),
            }
        }
    }

    fn misconfigured(&mut self, policy: &Own, binding: Option<&Binding>, reason: &str) {
        if policy.failure == FailurePolicy::Fail {
            let part = if binding.is_some() { "binding" } else { "policy" };
            let message = format!("failed to configure {part}: {reason}");
            self.deny(policy, binding, message, String::new());
        }
    }

    fn deny(&mut self, policy: &Own, binding: Option<&Binding>, message: String, reason: String) {
        let binding = binding.map(|binding| binding.name.to_string()).unwrap_or_default();
        let policy = policy.name.to_string();
        self.denial.get_or_insert(Denial { policy, binding, message, reason });
    }
}

/// Audit annotations of one policy, over all its bindings and parameters.
#[derive(Default)]
struct Annotations(BTreeMap<String, (Vec<String>, Distinct<String>)>);

impl Annotations {
    fn add(&mut self, key: String, mut text: String) {
        text.truncate(text.floor_char_boundary(ANNOTATION_BYTES_MAX));
        let (texts, seen) = self.0.entry(key).or_default();
        if !seen.is_repeated(text.clone()) {
            texts.push(text);
        }
    }

    fn publish(self, policy: &str, attributes: &Attributes<'_>) {
        for (key, (texts, _)) in self.0 {
            attributes.annotate(|| format!("{policy}/{key}"), || texts.join(", "));
        }
    }
}
