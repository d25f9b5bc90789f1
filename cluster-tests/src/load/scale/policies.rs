//! The work `policies`: what admission policies cost until they are in force, their memory, and what a create costs beside them.
//!
//! Owns the policies, each with a binding: some name a resource that nobody writes, the others match config maps and pass. No two share a
//! text. With servers that were not started for the run they are deleted in the end.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::creates::create;
use super::meter::Reading;
use super::options::Policies;
use super::report::{Report, Unit};
use super::stage::{self, Stage};

/// Requests at a time that make policies.
const CONCURRENT: usize = 16;
/// Pause between looks at what is in force.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// Runs the work.
pub(super) fn run(options: &Policies) -> Result<Report> {
    stage::run(&options.common, u32::try_from(CONCURRENT)?, async |stage: &Stage| {
        let group = stage.group("admissionregistration.").await?;
        let mut work = Work { options, stage, group, report: Report::new("policies"), rounds: 0 };
        let outcome = Box::pin(work.measure()).await;
        if !stage.is_started() {
            work.remove().await?;
        }
        outcome.map(|()| work.report)
    })
}

/// The resource that a policy names.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Concern {
    /// One that nobody writes.
    Elsewhere,
    /// The config maps that are made.
    Written,
}

impl Concern {
    fn word(self) -> &'static str {
        match self {
            Self::Elsewhere => "elsewhere",
            Self::Written => "written",
        }
    }

    fn resource(self) -> &'static str {
        match self {
            Self::Elsewhere => "endpoints",
            Self::Written => "configmaps",
        }
    }
}

struct Work<'a> {
    options: &'a Policies,
    stage: &'a Stage,
    /// The group of policies, under the servers' brand.
    group: String,
    report: Report,
    /// Rounds of creates so far, which are in the names of the objects.
    rounds: u32,
}

impl Work<'_> {
    async fn measure(&mut self) -> Result<()> {
        let &Policies { count, unmatched, .. } = self.options;
        self.report.count("policies that match", count.into());
        self.report.count("policies of another resource", unmatched.into());
        self.report.count("validations of each", self.options.validations.into());
        let before = self.settled().await;
        self.report.add("memory before", Unit::Kilobytes, before.resident_kb as f64);
        let without = self.creates("without policies").await?;
        self.make(Concern::Elsewhere, unmatched).await?;
        let beside = self.creates("beside policies of another resource").await?;
        self.report.add("CPU of a create more, for those", Unit::Microseconds, beside - without);
        self.make(Concern::Written, count).await?;
        self.use_first(count).await?;
        let matched = self.creates("through policies that match and pass").await?;
        let each = (matched - beside) / f64::from(count.max(1));
        self.report.add("CPU of a policy that matches and passes", Unit::Microseconds, each);
        let after = self.settled().await;
        self.report.add("memory after", Unit::Kilobytes, after.resident_kb as f64);
        Ok(())
    }

    /// Makes `count` policies with their bindings, and waits until they are in force.
    async fn make(&mut self, concern: Concern, count: u32) -> Result<()> {
        if count == 0 {
            return Ok(());
        }
        let before = self.settled().await;
        let began = Instant::now();
        let made = create(self.stage, "policies", (count, CONCURRENT), |number| {
            (self.path("validatingadmissionpolicies"), self.policy(concern, number))
        });
        let tally = made.await?;
        let bound = create(self.stage, "bindings", (count, CONCURRENT), |number| {
            (self.path("validatingadmissionpolicybindings"), self.binding(concern, number))
        });
        bound.await?;
        if concern == Concern::Written {
            self.in_force(count).await?;
        }
        let word = concern.word();
        self.report.latencies(&format!("create of a policy, {word}"), &tally);
        self.report.time(format!("until all with their bindings are in force, {word}"), began.elapsed());
        let accepted = self.settled().await;
        let cpu = before.cpu_until(&accepted).as_secs_f64() * 1e6 / f64::from(count);
        self.report.add(format!("CPU of a policy with its binding, {word}"), Unit::Microseconds, cpu);
        let each = before.kb_each_until(&accepted, count);
        self.report.add(format!("memory of a policy before its first use, {word}"), Unit::Kilobytes, each);
        Ok(())
    }

    /// Waits until the last policy refuses what it has to.
    async fn in_force(&self, count: u32) -> Result<()> {
        let began = Instant::now();
        let mut object = self.object("probe");
        object["data"]["deny"] = json!(text_of(count - 1, 0));
        let path = format!("{}?dryRun=All", self.config_maps());
        while self.stage.admin.post(&path, &object).await?.status != 422 {
            ensure!(began.elapsed() < self.options.common.patience, "the policies are not in force");
            sleep(LOOK_INTERVAL).await;
        }
        Ok(())
    }

    /// Makes the first object that all policies pass.
    async fn use_first(&mut self, count: u32) -> Result<()> {
        let before = self.settled().await;
        create(self.stage, "first objects", (1, 1), |_| (self.config_maps(), self.object("first"))).await?;
        let used = self.settled().await;
        let each = before.kb_each_until(&used, count);
        self.report.add("memory of a policy that is used, beyond that", Unit::Kilobytes, each);
        let cpu = before.cpu_until(&used).as_secs_f64() * 1e6;
        self.report.add("CPU of the first create", Unit::Microseconds, cpu);
        Ok(())
    }

    /// Makes config maps one after the other; the CPU time of each, in microseconds.
    async fn creates(&mut self, when: &str) -> Result<f64> {
        self.rounds += 1;
        let (count, round) = (self.options.creates, self.rounds);
        let before = self.stage.meter.read();
        let made = create(self.stage, "config maps", (count, 1), |number| {
            (self.config_maps(), self.object(&format!("o-{round}-{number}")))
        });
        let tally = made.await?;
        let cpu = before.cpu_until(&self.stage.meter.read()).as_secs_f64() * 1e6 / f64::from(count);
        self.report.latencies(&format!("create {when}"), &tally);
        self.report.add(format!("CPU of a create {when}"), Unit::Microseconds, cpu);
        Ok(cpu)
    }

    async fn settled(&self) -> Reading {
        sleep(self.options.settle).await;
        self.stage.meter.read()
    }

    async fn remove(&self) -> Result<()> {
        for (concern, count) in
            [(Concern::Elsewhere, self.options.unmatched), (Concern::Written, self.options.count)]
        {
            for number in 0..count {
                for resource in ["validatingadmissionpolicybindings", "validatingadmissionpolicies"] {
                    let path = format!("{}/{}", self.path(resource), name(concern, number));
                    self.stage.admin.delete(&path).await?;
                }
            }
        }
        Ok(())
    }

    fn path(&self, resource: &str) -> String {
        format!("/apis/{}/v1/{resource}", self.group)
    }

    fn config_maps(&self) -> String {
        format!("/api/v1/namespaces/{}/configmaps", self.stage.namespace)
    }

    fn object(&self, name: &str) -> Value {
        json!({"metadata": {"name": name}, "data": {"payload": "x".repeat(self.options.size)}})
    }

    fn policy(&self, concern: Concern, number: u32) -> Value {
        let rule = json!({
            "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"],
            "resources": [concern.resource()],
        });
        json!({
            "apiVersion": format!("{}/v1", self.group), "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": name(concern, number)},
            "spec": {
                "failurePolicy": "Fail", "matchConstraints": {"resourceRules": [rule]},
                "validations": validations(number, self.options.validations),
            },
        })
    }

    fn binding(&self, concern: Concern, number: u32) -> Value {
        let name = name(concern, number);
        json!({
            "apiVersion": format!("{}/v1", self.group), "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Deny"]},
        })
    }
}

fn name(concern: Concern, number: u32) -> String {
    format!("bench-{}-{number}", concern.word())
}

/// The text that validation `at` of policy `number` refuses, and no other does.
fn text_of(number: u32, at: u32) -> String {
    format!("p{number}-{at}")
}

/// Validations of two terms, every second one with a message that is made.
fn validations(number: u32, count: u32) -> Vec<Value> {
    let validation = |at| {
        let text = text_of(number, at);
        let expression = format!("!has(object.data.deny) || object.data.deny != '{text}'");
        if at % 2 == 0 {
            json!({"expression": expression, "message": format!("{text} is denied")})
        } else {
            json!({"expression": expression, "messageExpression": format!("object.metadata.name + ' has {text}'")})
        }
    };
    (0..count).map(validation).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_validations_have_a_text() {
        let mut texts: Vec<String> = (0..20)
            .flat_map(|number| validations(number, 3))
            .map(|made| made["expression"].to_string())
            .collect();
        texts.sort();
        texts.dedup();
        assert_eq!(texts.len(), 60);
    }
}
