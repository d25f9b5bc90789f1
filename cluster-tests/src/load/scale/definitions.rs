//! The work `definitions`: what definitions of custom kinds cost until they are in force, and the first objects of their kinds.
//!
//! Owns the definitions: each has a kind of its own in one of [`GROUPS`] groups, a schema of the size asked for, and as many rules in it as
//! asked for, whose texts no two definitions share. With servers that were not started for the run they are deleted in the end.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::Method;
use orch_proto::Brand;
use orch_proto::brand::{KUBERNETES, ORCH};
use serde_json::{Map, Value, json};
use tokio::time::sleep;

use super::creates::create;
use super::meter::Reading;
use super::options::Definitions;
use super::report::{Report, Unit};
use super::stage::{self, Stage};
use crate::load::tally::Tally;

/// Groups that the kinds are spread over.
const GROUPS: u32 = 50;
/// Requests at a time.
const CONCURRENT: usize = 16;
/// Reads of each document of discovery.
const READS: u32 = 50;
/// Time between scrapes of the metrics in `deploy/prometheus`.
const SCRAPE_INTERVAL: Duration = Duration::from_secs(15);
/// Pause between looks at what is in force.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// Runs the work.
pub(super) fn run(options: &Definitions) -> Result<Report> {
    stage::run(&options.common, u32::try_from(CONCURRENT)?, async |stage: &Stage| {
        let group = stage.group("apiextensions.").await?;
        let discovery = group.replace("apiextensions.", "apidiscovery.");
        let brand = [&KUBERNETES, &ORCH].into_iter().find(|brand| brand.group("apiextensions") == group);
        let brand = brand.with_context(|| format!("no brand has the group {group}"))?;
        let report = Report::new("definitions");
        let mut work = Work { options, stage, schema: schema(options.size), brand, group, discovery, report };
        let outcome = Box::pin(work.measure()).await;
        if !stage.is_started() {
            work.remove().await?;
        }
        outcome.map(|()| work.report)
    })
}

struct Work<'a> {
    options: &'a Definitions,
    stage: &'a Stage,
    schema: Value,
    brand: &'static Brand,
    /// The group of definitions, under the servers' brand.
    group: String,
    /// The group of aggregated discovery.
    discovery: String,
    report: Report,
}

impl Work<'_> {
    async fn measure(&mut self) -> Result<()> {
        let count = self.options.count;
        self.report.count("definitions", count.into());
        self.report.count("rules of each", self.options.rules.into());
        self.report.count("bytes of a schema", self.schema.to_string().len() as u64);
        let before = self.settled().await;
        self.report.add("memory before", Unit::Kilobytes, before.resident_kb as f64);
        let began = Instant::now();
        let created = create(self.stage, "definitions", (count, CONCURRENT), |number| {
            (format!("/apis/{}/v1/customresourcedefinitions", self.group), self.definition(number))
        });
        let tally = created.await?;
        self.report.latencies("create of a definition", &tally);
        self.in_force(count).await?;
        self.report.time("until all are in force", began.elapsed());
        let defined = self.settled().await;
        let cpu = before.cpu_until(&defined).as_secs_f64() * 1e6 / f64::from(count);
        self.report.add("CPU of a definition until it is in force", Unit::Microseconds, cpu);
        let each = before.kb_each_until(&defined, count);
        self.report.add("memory of a definition before its first use", Unit::Kilobytes, each);
        self.describe().await?;
        self.use_kinds().await
    }

    /// Waits until discovery shows all kinds.
    async fn in_force(&self, count: u32) -> Result<()> {
        let began = Instant::now();
        loop {
            let mut shown = 0;
            for group in 0..GROUPS.min(count) {
                let answer = self.stage.admin.get(&format!("/apis/{}/v1", group_name(group))).await?;
                if answer.status == 200 {
                    let resources = answer.json()?;
                    let resources = resources["resources"].as_array().context("a list of resources")?.len();
                    // Each kind has its status beside it.
                    shown += resources / 2;
                }
            }
            if shown == count as usize {
                return Ok(());
            }
            ensure!(began.elapsed() < self.options.common.patience, "{shown} of {count} are in force");
            sleep(LOOK_INTERVAL).await;
        }
    }

    /// Reads the documents that describe the kinds.
    async fn describe(&mut self) -> Result<()> {
        let aggregated = format!("application/json;g={};v=v2;as=APIGroupDiscoveryList", self.discovery);
        for (name, path, accept) in [
            ("groups", "/apis", "application/json"),
            ("all groups with their kinds", "/apis", &*aggregated),
            ("OpenAPI index", "/openapi/v3", "application/json"),
        ] {
            let mut tally = Tally::new()?;
            for _ in 0..READS {
                let began = Instant::now();
                let headers = [("accept", accept)];
                let answer = self.stage.admin.send(Method::GET, path, &headers, Bytes::new()).await?;
                ensure!(answer.status == 200, "{path}: {:?}", answer.success());
                tally.success(began.elapsed(), answer.body.len() as u64);
            }
            self.report.latencies(&format!("{name} of discovery"), &tally);
        }
        Ok(())
    }

    /// Makes the first object of each kind that is used.
    async fn use_kinds(&mut self) -> Result<()> {
        let (count, namespace) = (self.options.used.min(self.options.count), self.stage.namespace.clone());
        let before = self.settled().await;
        let made = create(self.stage, "first objects", (count, CONCURRENT), |number| {
            let (group, kind) = (group_name(number), format!("Widget{number}"));
            let path = format!("/apis/{group}/v1/namespaces/{namespace}/widget{number}s");
            let spec = json!({"field0": {"name0": "abc", "items0": [{"name0": "a"}]}});
            let head =
                json!({"apiVersion": format!("{group}/v1"), "kind": kind, "metadata": {"name": "first"}});
            let mut object = head;
            object["spec"] = spec;
            (path, object)
        });
        let tally = made.await?;
        let used = self.settled().await;
        self.report.latencies("first object of a kind", &tally);
        let each = before.kb_each_until(&used, count);
        self.report.add("memory of a kind that is used, beyond its definition", Unit::Kilobytes, each);
        let cpu = before.cpu_until(&used).as_secs_f64() * 1e6 / f64::from(count.max(1));
        self.report.add("CPU of a first object", Unit::Microseconds, cpu);
        self.report.add("memory after", Unit::Kilobytes, used.resident_kb as f64);
        self.scrape(used).await
    }

    /// Reads the page of metrics, which has series of each kind that was used, and shows what a scrape costs. `before` is a reading after the
    /// last use of a kind.
    async fn scrape(&mut self, before: Reading) -> Result<()> {
        let (mut tally, mut bytes) = (Tally::new()?, 0);
        for _ in 0..READS {
            let began = Instant::now();
            let answer = self.stage.admin.get("/metrics").await?;
            ensure!(answer.status == 200, "/metrics: {:?}", answer.success());
            bytes = answer.body.len() as u64;
            tally.success(began.elapsed(), bytes);
        }
        let after = self.stage.meter.read();
        self.report.latencies("scrape of the metrics", &tally);
        self.report.add("text of the metrics", Unit::Kilobytes, bytes as f64 / 1024.0);
        let cpu = before.cpu_until(&after).as_secs_f64() / f64::from(READS);
        self.report.add("CPU of a scrape", Unit::Microseconds, cpu * 1e6);
        self.report.add(
            "part of a core for a scrape each 15 s",
            Unit::Ratio,
            cpu / SCRAPE_INTERVAL.as_secs_f64(),
        );
        Ok(())
    }

    async fn settled(&self) -> Reading {
        sleep(self.options.settle).await;
        self.stage.meter.read()
    }

    async fn remove(&self) -> Result<()> {
        for number in 0..self.options.count {
            let path = format!("/apis/{}/v1/customresourcedefinitions/{}", self.group, name(number));
            self.stage.admin.delete(&path).await?;
        }
        Ok(())
    }

    fn definition(&self, number: u32) -> Value {
        let mut schema = self.schema.clone();
        add_rules(&mut schema, self.options.rules, number, self.brand);
        let version = json!({
            "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": schema},
        });
        let names = json!({
            "plural": format!("widget{number}s"), "singular": format!("widget{number}"), "kind": format!("Widget{number}"),
        });
        json!({
            "apiVersion": format!("{}/v1", self.group), "kind": "CustomResourceDefinition",
            "metadata": {"name": name(number)},
            "spec": {"group": group_name(number), "scope": "Namespaced", "names": names, "versions": [version]},
        })
    }
}

fn group_name(number: u32) -> String {
    format!("g{}.bench.example.com", number % GROUPS)
}

fn name(number: u32) -> String {
    format!("widget{number}s.{}", group_name(number))
}

/// A schema of about `size` bytes: objects with texts, numbers and lists, each with names of its own, so that no two are the same.
fn schema(size: usize) -> Value {
    let field = |at: usize| {
        let named = |stem: &str| format!("{stem}{at}");
        let item = json!({
            "type": "object", "required": [named("name")],
            "properties": {(named("name")): {"type": "string"}, (named("value")): {"type": "string", "default": "x"}},
        });
        json!({
            "type": "object", "description": "A sentence of usual length that says what the field is for.",
            "properties": {
                (named("name")): {"type": "string", "pattern": "^[a-z]+$", "maxLength": 63},
                (named("count")): {"type": "integer", "minimum": 0},
                (named("items")): {"type": "array", "items": item},
            },
        })
    };
    let count = (size / field(0).to_string().len()).max(1);
    let fields: Map<String, Value> = (0..count).map(|at| (format!("field{at}"), field(at))).collect();
    json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": fields},
        "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
    }})
}

/// Adds `count` rules to the fields of a schema in turn: comparisons, a pattern, a loop, and a message that is made. The first object of a kind
/// holds to them. `number`: that of the definition, which their texts name.
fn add_rules(schema: &mut Value, count: u32, number: u32, brand: &Brand) {
    let Some(fields) = schema["properties"]["spec"]["properties"].as_object_mut() else { return };
    let mut rules: Vec<Vec<Value>> = vec![Vec::new(); fields.len()];
    // Members have the number of their field in their names, as `schema` gives them.
    let numbers: Vec<String> = fields.keys().map(|field| field.replace("field", "")).collect();
    for at in 0..count {
        let place = at as usize % rules.len();
        let of = &numbers[place];
        rules[place].push(match at % 4 {
            0 => json!({
                "rule": format!("!has(self.count{of}) || self.count{of} != {number} + {at}"),
                "message": format!("the count is not {number} and {at}"),
            }),
            1 => json!({"rule": format!("!has(self.name{of}) || !self.name{of}.matches('^w{number}x{at}[a-z]*$')")}),
            2 => json!({
                "rule": format!("!has(self.items{of}) || self.items{of}.all(i, i.name{of} != 'w{number}x{at}')"),
            }),
            _ => json!({
                "rule": format!("!has(self.name{of}) || self.name{of}.size() < 64 && self.name{of} != 'w{number}x{at}'"),
                "messageExpression": format!("'the name ' + self.name{of} + ' is taken'"),
            }),
        });
    }
    for ((field, rules), of) in fields.values_mut().zip(rules).zip(numbers) {
        if !rules.is_empty() {
            field[format!("{}validations", brand.extension_prefix)] = Value::Array(rules);
        }
        if count > 0 {
            // The costs of loops count by the bounds.
            let items = &mut field["properties"][format!("items{of}")];
            items["maxItems"] = json!(64);
            items["items"]["properties"][format!("name{of}")]["maxLength"] = json!(63);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_has_about_the_size_asked_for() {
        for size in [1000, 20_000] {
            let made = schema(size).to_string().len();
            assert!((size / 2..size * 2).contains(&made), "{made} for {size}");
        }
    }

    #[test]
    fn rules_are_spread_over_the_fields() {
        let mut made = schema(2000);
        add_rules(&mut made, 10, 7, &ORCH);
        let fields = made["properties"]["spec"]["properties"].as_object().unwrap();
        let key = format!("{}validations", ORCH.extension_prefix);
        let counts: Vec<usize> = fields.values().map(|field| field[&key].as_array().unwrap().len()).collect();
        assert_eq!(counts.iter().sum::<usize>(), 10);
        assert!(counts.iter().all(|count| *count >= 10 / counts.len()), "{counts:?}");
        let first = &fields["field0"]["properties"];
        assert_eq!(first.as_object().unwrap().len(), 3, "no member is made for a rule: {first}");
    }
}
