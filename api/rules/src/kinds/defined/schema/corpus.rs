//! Answers to public objects of kinds with rules in expressions, compared with those that the reference gave.
//!
//! A line of the data is one of these, with tabs between its parts: `D` and a definition with one version, which the lines behind
//! it are about; `O`, an expected answer, an object, and the object before it if there is one; `S`, the same of a write of the
//! status. A selection stands beside this file (its README says from where); `OBJECTS` names a file with more of them, such as
//! all of a corpus.

use std::sync::{Arc, LazyLock};

use orch_proto::brand::ORCH;
use orch_schema::testing::orch;
use orch_schema::value::Value;
use orch_schema::{Limits, Schema, apply_defaults, decode_json};

use super::{Compiled, Input, compile};
use crate::Action;
use crate::kinds::Strategy;
use crate::kinds::defined::DefinedKind;
use crate::kinds::defined::described::{Types, resource_type};
use crate::kinds::testing::{CONTEXT, created, updated};
use crate::validate::errors::ERRORS_SHOWN_MAX;
use crate::validate::tree::Tree;

const SELECTION: &str = include_str!("testdata/objects.tsv");

static BASE: LazyLock<Arc<Schema>> = LazyLock::new(|| Arc::new(Schema::builtin(&ORCH)));

/// A kind of a definition.
struct Kind {
    compiled: Compiled,
    strategy: DefinedKind,
}

fn json(text: &str) -> Value {
    serde_json::from_str::<serde_json::Value>(text).unwrap().into()
}

impl Kind {
    fn of(definition: &str) -> Kind {
        let definition = json(definition);
        let (spec, version) = (definition.at("spec"), &definition.at("spec").items("versions")[0]);
        let input = Input {
            brand: &ORCH,
            group: spec.text("group"),
            version: version.text("name"),
            kind: spec.at("names").text("kind"),
            schema: version.at("schema").at("openAPIV3Schema"),
            preserve_unknown_fields: false,
        };
        let compiled = compile(&input, &BASE).unwrap();
        let types = Types { object: compiled.root, scale: orch().find_type("autoscaling.v1.Scale").unwrap() };
        let constraints = compiled.constraints.clone();
        let strategy = DefinedKind::new(&resource_type(&definition, version, types), None);
        Kind { compiled, strategy: strategy.with_constraints(Arc::new(move || constraints.clone())) }
    }

    /// The object as it comes out of the decoder, without fields that are unknown.
    fn decoded(&self, text: &str) -> Result<Value, String> {
        let mut object = json(text);
        for name in ["apiVersion", "kind"] {
            object.as_object_mut().unwrap().swap_remove(name);
        }
        let Compiled { schema, root, .. } = &self.compiled;
        let decoded = decode_json(schema, *root, object.to_string().as_bytes(), Limits::default());
        let mut decoded = decoded.map_err(|error| error.to_string())?;
        apply_defaults(schema, *root, &mut decoded.value);
        Ok(decoded.value)
    }

    /// The causes in the form of the expected ones, sorted, and the warnings; `None` where the answer is not a matter of rules.
    fn answer(&self, action: Action, new: &str, old: Option<&str>) -> Option<(Vec<String>, Vec<String>)> {
        let new = self.decoded(new).ok()?;
        let context = crate::kinds::Context { action, ..CONTEXT };
        let mut errors = match old {
            None => self.strategy.validate_create(&context, &created(&self.strategy, new)),
            Some(old) => {
                let old = self.decoded(old).ok()?;
                let new = updated(&self.strategy, action, &old, new);
                self.strategy.validate_update(&context, &old, &new)
            }
        };
        let mut warnings = errors.take_warnings();
        warnings.sort();
        let cause = |error: &crate::validate::FieldError| {
            format!("{}|{}|{}", error.kind.reason(), error.path, error.message)
        };
        // The objects here have no metadata of stored ones.
        let of_content = |cause: &String| !cause.contains("|metadata.");
        let mut causes: Vec<String> =
            errors.iter().take(ERRORS_SHOWN_MAX).map(cause).filter(of_content).collect();
        causes.sort();
        Some((causes, warnings))
    }
}

/// Causes without those of the metadata, which the rules of the kind do not see, and without what the data does not spell out.
fn comparable(causes: impl Iterator<Item = String>) -> Vec<String> {
    let spelled = |cause: String| match cause.find("sha256 ").or_else(|| cause.find("<dump>")) {
        Some(_) => cause.splitn(3, '|').take(2).collect::<Vec<_>>().join("|"),
        None => cause,
    };
    let mut all: Vec<String> = causes.filter(|cause| !cause.contains("|metadata.")).map(spelled).collect();
    all.sort();
    all
}

/// The difference between the answer to the write of `parts` and the expected one.
fn difference(kind: &Kind, action: Action, parts: &[&str]) -> Option<String> {
    let expected = json(parts[0]);
    let code = expected.int("code").unwrap();
    let wanted = comparable(expected.texts("causes").into_iter().map(str::to_owned));
    let answer = kind.answer(action, parts[1], parts.get(2).copied());
    let Some((causes, warnings)) = answer else {
        return (code < 400).then(|| format!("{}\n  not decoded", expected.text("subject")));
    };
    if ![200, 201, 422].contains(&code) {
        return None;
    }
    let short = |cause: &String| cause.splitn(3, '|').take(2).collect::<Vec<_>>().join("|");
    let has = |cause: &String| wanted.contains(cause) || wanted.contains(&short(cause));
    let is_same = causes.len() == wanted.len() && causes.iter().all(has);
    let only_metadata = wanted.is_empty() && code == 422;
    // Of the other warnings none comes from the rules.
    let is_error = |warning: &&str| {
        [": Invalid value", ": Forbidden", ": Required", ": Duplicate"]
            .iter()
            .any(|kind| warning.contains(kind))
    };
    let mut wanted_warnings = expected.texts("warnings");
    wanted_warnings.retain(is_error);
    // Warnings of some writes were not recorded.
    let are_known = !expected.at("warnings").is_null();
    let unknown_warnings =
        are_known && warnings.iter().map(String::as_str).collect::<Vec<_>>() != wanted_warnings;
    let told = || {
        let subject = expected.text("subject");
        format!(
            "{subject}\n  {causes:#?} {warnings:?}\n  expected {code} {wanted:#?} {:?}",
            expected.texts("warnings")
        )
    };
    ((!is_same && !only_metadata) || unknown_warnings).then(told)
}

/// Compares the answers to all writes of `data`. Returns how many there are.
fn compare(data: &str) -> usize {
    let (mut kind, mut count, mut differences) = (None, 0, Vec::new());
    for line in data.lines() {
        let parts: Vec<&str> = line.split('\t').collect();
        if parts[0] == "D" {
            kind = Some(Kind::of(parts[1]));
            continue;
        }
        let action = if parts[0] == "S" { Action::Status } else { Action::Object };
        count += 1;
        differences.extend(difference(kind.as_ref().unwrap(), action, &parts[1..]));
    }
    assert!(differences.is_empty(), "{} of {count} differ:\n{}", differences.len(), differences.join("\n"));
    count
}

#[test]
fn public_objects_are_answered_as_recorded() {
    assert!(compare(SELECTION) > 100);
    if let Ok(path) = std::env::var("OBJECTS") {
        assert!(compare(&std::fs::read_to_string(path).unwrap()) > 0);
    }
}
