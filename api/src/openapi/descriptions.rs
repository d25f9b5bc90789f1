//! Descriptions of types and fields.
//!
//! Owns the look-up of the descriptions that `orch_proto` embeds compressed. They are decompressed for the making of
//! documents and dropped after it, so that a node that nobody asks holds none of them. No text is written here: it
//! stands in the `.proto` files.

use std::collections::HashMap;
use std::io::{self, Read};

use flate2::read::GzDecoder;
use orch_schema::Field;

/// The descriptions of all types and fields, decompressed; by default none, for schemas that no person reads.
#[derive(Default)]
pub(super) struct Descriptions {
    by_name: HashMap<Box<str>, Box<str>>,
}

impl Descriptions {
    /// Decompresses the embedded descriptions, which takes a few milliseconds.
    ///
    /// # Errors
    /// The compressed form is broken, which only a fault of this program causes.
    pub(super) fn open() -> io::Result<Self> {
        let mut text = String::new();
        GzDecoder::new(orch_proto::descriptions()).read_to_string(&mut text)?;
        let lines = text.lines().filter_map(|line| line.split_once('\t'));
        Ok(Self { by_name: lines.map(|(name, text)| (name.into(), text.into())).collect() })
    }

    /// These descriptions by name, in the place of those that are embedded.
    #[cfg(test)]
    pub(super) fn of(texts: &[(&str, &str)]) -> Self {
        Self { by_name: texts.iter().map(|&(name, text)| (name.into(), text.into())).collect() }
    }

    /// The description of the message `full_name` (`core.v1.Pod`).
    pub(super) fn of_type(&self, full_name: &str) -> Option<&str> {
        self.by_name.get(full_name).map(|text| &**text)
    }

    /// The description of a field of the message `full_name`.
    pub(super) fn of_field(&self, full_name: &str, field: &Field) -> Option<&str> {
        let path: String =
            field.inlined_in().iter().chain([&field.number]).map(|number| format!("/{number}")).collect();
        self.of_type(&format!("{full_name}{path}"))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use orch_proto::brand::{KUBERNETES, ORCH};
    use orch_schema::Schema;

    use super::*;

    /// Most characters of a description: what `kubectl explain` shows on a few lines.
    const CHARACTERS_MAX: usize = 300;

    /// Each type and field that documents may show, by its place, with its own name and its description.
    fn all(schema: &Schema) -> Vec<(String, String, Option<String>)> {
        let descriptions = Descriptions::open().unwrap();
        let (mut found, mut untyped) = (Vec::new(), BTreeSet::new());
        for id in 0..u32::try_from(schema.len()).unwrap() {
            let table = schema.get(orch_schema::TypeId(id));
            let own = table.name.rsplit('.').next().unwrap_or_default();
            let text = descriptions.of_type(&table.name);
            found.push((table.name.to_string(), own.to_owned(), text.map(str::to_owned)));
            for field in &table.fields {
                untyped.extend(field.untyped_name().map(Box::<str>::from));
                let text = descriptions.of_field(&table.name, field);
                let place = format!("{}.{}", table.name, field.name);
                found.push((place, field.name.to_string(), text.map(str::to_owned)));
            }
        }
        let scalars = ["meta.v1.Time", "meta.v1.MicroTime", "resource.Quantity", "intstr.IntOrString"];
        for name in scalars.into_iter().map(str::to_owned).chain(untyped.into_iter().map(String::from)) {
            let own = name.rsplit('.').next().unwrap_or_default().to_owned();
            let text = descriptions.of_type(&name).map(str::to_owned);
            found.push((name, own, text));
        }
        found
    }

    #[test]
    fn every_type_and_field_has_a_description() {
        let all = all(&Schema::builtin(&KUBERNETES));
        let lacking: Vec<&str> =
            all.iter().filter(|(.., text)| text.is_none()).map(|(place, ..)| place.as_str()).collect();
        let shown = lacking.join("\n");
        assert!(lacking.is_empty(), "{} lack a description:\n{shown}", lacking.len());
    }

    #[test]
    fn descriptions_are_short_sentences_that_say_more_than_the_name() {
        let words = |text: &str| -> String {
            text.chars().filter(|letter| letter.is_alphanumeric()).collect::<String>().to_lowercase()
        };
        let mut bad = Vec::new();
        for (place, own, text) in all(&Schema::builtin(&KUBERNETES)) {
            let Some(text) = text else { continue };
            let said = words(&text);
            let name = words(&own);
            // few: four articles.
            let repeats = ["", "the", "a", "an"].iter().any(|article| said == format!("{article}{name}"));
            let starts_well = text.starts_with(|first: char| !first.is_lowercase());
            let is_short = text.chars().count() <= CHARACTERS_MAX;
            if repeats || !starts_well || !is_short || !text.ends_with('.') {
                bad.push(format!("{place}: {text}"));
            }
        }
        assert!(bad.is_empty(), "{} descriptions are no sentences:\n{}", bad.len(), bad.join("\n"));
    }

    #[test]
    fn a_field_of_an_inlined_message_is_found_by_its_way() {
        let schema = Schema::builtin(&ORCH);
        let descriptions =
            Descriptions::of(&[("core.v1.Volume/2/1", "inlined"), ("core.v1.Volume/1", "own")]);
        let volume = schema.get(schema.find_type("core.v1.Volume").unwrap());
        let text = |name: &str| descriptions.of_field(&volume.name, volume.field(name).unwrap());
        assert_eq!((text("name"), text("hostPath")), (Some("own"), Some("inlined")));
        assert_eq!(text("emptyDir"), None);
    }
}
