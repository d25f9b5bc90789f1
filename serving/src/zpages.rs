//! `/flagz` and `/statusz`: pages about a process, as text for people and as documents.
//!
//! Owns the choice of the form by `Accept`, which is the reference's: text where nothing else is asked for, and kinds `Flagz` and `Statusz` of the
//! group `config.DOMAIN` as JSON or YAML where type, group and version are named. The programs own what the pages say.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

/// Most media types read from one `Accept`; clients send three.
const CLAUSES_MAX: usize = 32;

/// The type of the text.
const TEXT: &str = "text/plain; charset=utf-8";

/// The versions of the documents, with whether clients are told to use another one. All have the same fields.
const VERSIONS: [(&str, bool); 2] = [("v1beta1", false), ("v1alpha1", true)];

/// The types that a refusal names.
const NOT_ACCEPTABLE: &str =
    "only the following media types are accepted: application/json, application/yaml, text/plain";

/// A page of one program.
#[derive(Debug)]
pub struct Page {
    /// `flagz` or `statusz`.
    pub name: &'static str,
    /// The kind of its document.
    pub kind: &'static str,
    /// The program, as its document names it.
    pub component: String,
    /// `config.DOMAIN`.
    pub group: String,
    /// The page for people.
    pub text: String,
    /// The fields of its document beside kind, version and metadata.
    pub fields: Map<String, Value>,
}

/// An answer, for the program's own HTTP.
#[derive(Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status code.
    pub code: u16,
    /// Value of the header `Content-Type`.
    pub content_type: &'static str,
    /// Value of the header `Warning`; `None`: the answer has none.
    pub warning: Option<String>,
    /// The body.
    pub body: String,
}

/// The form of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Text,
    /// A document of this version, whose users are told to take another one where the second member says so.
    Json(&'static str, bool),
    Yaml(&'static str, bool),
}

impl Page {
    /// The answer to a request with this header `Accept`; empty: it has none.
    pub fn answer(self, accept: &str) -> Answer {
        let Some(form) = self.form(accept) else {
            let status = json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": NOT_ACCEPTABLE,
                "reason": "NotAcceptable", "code": 406,
            });
            let body = format!("{status}\n");
            return Answer { code: 406, content_type: "application/json", warning: None, body };
        };
        let old = |is_deprecated: bool| {
            let name = self.name;
            let text = "endpoint is deprecated. Please use a newer version.";
            is_deprecated.then(|| format!("299 - \"This version of the {name} {text}\""))
        };
        let (content_type, warning, body) = match form {
            Form::Text => (TEXT, None, self.text),
            Form::Json(version, is_deprecated) => {
                let warning = old(is_deprecated);
                ("application/json", warning, format!("{:#}\n", self.document(version)))
            }
            Form::Yaml(version, is_deprecated) => {
                let warning = old(is_deprecated);
                // A document of texts, numbers and lists can be written.
                let body = serde_norway::to_string(&self.document(version)).unwrap_or_default();
                ("application/yaml", warning, body)
            }
        };
        Answer { code: 200, content_type, warning, body }
    }

    fn document(self, version: &str) -> Value {
        let api_version = format!("{}/{version}", self.group);
        let mut document = Map::new();
        document.insert("kind".to_owned(), json!(self.kind));
        document.insert("apiVersion".to_owned(), json!(api_version));
        document.insert("metadata".to_owned(), json!({"name": self.component}));
        document.extend(self.fields);
        Value::Object(document)
    }

    /// The form that `accept` asks for; `None`: it asks for none that there is.
    fn form(&self, accept: &str) -> Option<Form> {
        if accept.trim().is_empty() {
            return Some(Form::Text);
        }
        let mut clauses: Vec<Clause<'_>> =
            accept.split(',').take(CLAUSES_MAX).filter_map(Clause::parse).collect();
        clauses.sort_by_key(|clause| (Reverse(clause.quality), clause.main == "*", clause.sub == "*"));
        clauses.iter().find_map(|clause| self.form_of(clause))
    }

    fn form_of(&self, clause: &Clause<'_>) -> Option<Form> {
        let is_target = clause.group == self.group && clause.kind == self.kind;
        // few: two versions.
        let version = VERSIONS.into_iter().find(|(version, _)| is_target && clause.version == *version);
        if let Some((version, is_deprecated)) = version {
            if clause.takes("application", "json") {
                return Some(Form::Json(version, is_deprecated));
            }
            if clause.takes("application", "yaml") {
                return Some(Form::Yaml(version, is_deprecated));
            }
        }
        (!clause.has_target && clause.takes("text", "plain")).then_some(Form::Text)
    }
}

/// The first parts of `paths`, each once, as the document of a status lists them.
pub fn first_parts(paths: &[&str]) -> Vec<String> {
    let parts = paths.iter().filter_map(|path| path.split('/').nth(1));
    let parts: BTreeSet<String> = parts.map(|part| format!("/{part}")).collect();
    parts.into_iter().collect()
}

/// A media type of `Accept`, with its parameters `g`, `v` and `as`.
struct Clause<'a> {
    main: &'a str,
    sub: &'a str,
    group: &'a str,
    version: &'a str,
    kind: &'a str,
    has_target: bool,
    /// In thousandths.
    quality: u32,
}

impl<'a> Clause<'a> {
    fn parse(text: &'a str) -> Option<Clause<'a>> {
        let mut parts = text.split(';').map(str::trim);
        let (main, sub) = match parts.next()? {
            "*" => ("*", "*"),
            media_type => media_type.split_once('/')?,
        };
        let mut clause =
            Clause { main, sub, group: "", version: "", kind: "", has_target: false, quality: 1000 };
        for (name, value) in parts.filter_map(|part| part.split_once('=')) {
            let (name, value) = (name.trim(), value.trim());
            match name {
                "g" => clause.group = value,
                "v" => clause.version = value,
                "as" => clause.kind = value,
                "q" => clause.quality = quality(value),
                _ => {}
            }
            // few: three parameters.
            clause.has_target |= ["g", "v", "as"].contains(&name);
        }
        Some(clause)
    }

    fn takes(&self, main: &str, sub: &str) -> bool {
        (self.main == "*" && self.sub == "*") || (self.main == main && (self.sub == sub || self.sub == "*"))
    }
}

/// A weight in thousandths; 1 where it is none.
fn quality(text: &str) -> u32 {
    let (whole, rest) = text.split_once('.').unwrap_or((text, ""));
    let digits: String = rest.chars().chain("000".chars()).take(3).collect();
    match (whole, digits.parse::<u32>()) {
        ("0" | "", Ok(thousandths)) => thousandths,
        _ => 1000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARGET: &str = "g=config.example.io;as=Statusz";

    fn answer(accept: &str) -> Answer {
        let fields = Map::from_iter([("uptimeSeconds".to_owned(), json!(7))]);
        let page = Page {
            name: "statusz",
            kind: "Statusz",
            component: "apiserver".to_owned(),
            group: "config.example.io".to_owned(),
            text: "text\n".to_owned(),
            fields,
        };
        page.answer(accept)
    }

    #[test]
    fn text_is_for_whoever_asks_for_nothing_else() {
        for accept in [
            "",
            "*/*",
            "text/plain",
            "text/*",
            "text/html, */*;q=0.8",
            &format!("application/json;v=v1beta1;{TARGET};q=0.1, text/plain"),
            &format!("application/json;v=v9;{TARGET}, */*"),
        ] {
            let answer = answer(accept);
            assert_eq!((answer.code, answer.content_type, &*answer.body), (200, TEXT, "text\n"), "{accept}");
        }
    }

    #[test]
    fn a_document_is_for_those_who_name_its_kind() {
        for accept in [
            format!("application/json;v=v1beta1;{TARGET}"),
            format!("text/plain;q=0.5, application/json; v=v1beta1; {}", TARGET.replace(';', " ; ")),
            format!("*/*;q=0.1,application/*;v=v1beta1;{TARGET}"),
        ] {
            let answer = answer(&accept);
            assert_eq!((answer.code, answer.content_type, answer.warning), (200, "application/json", None));
            let expected = json!({
                "kind": "Statusz", "apiVersion": "config.example.io/v1beta1", "metadata": {"name": "apiserver"},
                "uptimeSeconds": 7,
            });
            assert_eq!(serde_json::from_str::<Value>(&answer.body).unwrap(), expected, "{accept}");
        }
        let old = answer(&format!("application/yaml;v=v1alpha1;{TARGET}"));
        assert_eq!(old.content_type, "application/yaml");
        assert!(old.body.contains("apiVersion: config.example.io/v1alpha1\n"), "{}", old.body);
        let expected =
            "299 - \"This version of the statusz endpoint is deprecated. Please use a newer version.\"";
        assert_eq!(old.warning.as_deref(), Some(expected));
    }

    #[test]
    fn a_status_lists_the_first_parts_of_paths() {
        assert_eq!(first_parts(&["/metrics/slis", "/debug/pprof/", "/metrics"]), ["/debug", "/metrics"]);
    }

    #[test]
    fn other_types_are_refused() {
        for accept in [
            "application/json",
            "application/xml",
            "application/json;v=v1beta1;g=config.example.io",
            "application/json;v=v1beta1;g=config.example.io;as=Flagz",
            &format!("text/plain;v=v1beta1;{TARGET}"),
            "nonsense",
        ] {
            let answer = answer(accept);
            assert_eq!((answer.code, answer.content_type), (406, "application/json"), "{accept}");
            assert!(answer.body.contains(NOT_ACCEPTABLE), "{accept}: {}", answer.body);
        }
    }
}
