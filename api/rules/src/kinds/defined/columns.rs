//! Columns of declared kinds: their headings, and their cells by path.
//!
//! Owns which columns a table has, and what a value shows in a column of its type.

use orch_schema::json;
use orch_schema::value::Value;
use orch_schema::{Column, Instant, Precision};

use crate::json_path::{JsonPath, text};
use crate::kinds::{Cell, age};

/// The paths and types of a kind's columns.
#[derive(Debug)]
pub(super) struct Columns(Vec<(CellType, JsonPath)>);

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CellType {
    String,
    Integer,
    Number,
    Boolean,
    /// Time since then.
    Date,
}

/// The columns of a kind that declares `declared`: the name, then those, in their order; where none is declared, the name and the
/// age. As in the reference, a path that cannot be parsed ends the table: its column and those behind it are not shown.
pub fn table_columns(declared: &[Column]) -> Vec<Column> {
    let column = |name: &str, kind: &str, format: &str, path: &str, description: &str| Column {
        name: name.to_owned(),
        kind: kind.to_owned(),
        format: format.to_owned(),
        description: description.to_owned(),
        priority: 0,
        path: path.to_owned(),
    };
    let mut columns = vec![column("Name", "string", "name", NAME_PATH, "Name of the object.")];
    if declared.is_empty() {
        columns.push(column("Age", "date", "", CREATED_PATH, "Time since the object was created."));
    }
    let shown = declared.iter().take_while(|column| JsonPath::parse(&column.path).is_ok());
    columns.extend(shown.map(|column| {
        let unsaid = column.description.is_empty();
        let told = || format!("Custom resource definition column (in JSONPath format): {}", column.path);
        Column { description: if unsaid { told() } else { column.description.clone() }, ..column.clone() }
    }));
    columns
}

const NAME_PATH: &str = ".metadata.name";
const CREATED_PATH: &str = ".metadata.creationTimestamp";

impl Columns {
    /// The cells of `columns`. One without a path that can be parsed has no cell.
    pub(super) fn of(columns: &[Column]) -> Columns {
        let cell = |column: &Column| {
            let path = JsonPath::parse(&column.path).or_else(|_| JsonPath::parse("")).ok()?;
            Some((CellType::of(&column.kind), path))
        };
        Columns(columns.iter().filter_map(cell).collect())
    }

    /// The cells of `object` at `now` (RFC 3339).
    pub(super) fn row(&self, object: &Value, now: &str) -> Vec<Cell> {
        self.0.iter().map(|(cell_type, path)| cell(*cell_type, path, object, now)).collect()
    }
}

impl CellType {
    /// The type called `name`. A name that no valid definition has counts as `string`.
    fn of(name: &str) -> CellType {
        match name {
            "integer" => CellType::Integer,
            "number" => CellType::Number,
            "boolean" => CellType::Boolean,
            "date" => CellType::Date,
            _ => CellType::String,
        }
    }
}

/// The first value at `path`, as a column of this type shows it; null where there is none, or one of another type. A column of texts
/// shows a null of the object in words.
fn cell(cell_type: CellType, path: &JsonPath, object: &Value, now: &str) -> Cell {
    let found = path.evaluate(object).unwrap_or_default();
    let Some(value) = found.first() else { return Value::Null };
    let whole = |number: f64| Some(number.trunc()).filter(|whole| whole.abs() < INTEGERS_MAX);
    match (cell_type, &**value) {
        (CellType::String, value) => json!(text(value)),
        (CellType::Integer, Value::Number(number)) => {
            match (number.as_i64(), number.as_f64().and_then(whole)) {
                (Some(integer), _) => json!(integer),
                #[expect(
                    clippy::cast_possible_truncation,
                    reason = "the number is whole, and smaller than 2^63"
                )]
                (None, Some(whole)) => json!(whole as i64),
                (None, None) => Value::Null,
            }
        }
        (CellType::Number, Value::Number(_)) | (CellType::Boolean, Value::Bool(_)) => {
            value.clone().into_owned()
        }
        (CellType::Date, Value::String(then)) => json!(since(then, now)),
        _ => Value::Null,
    }
}

/// Numbers from here on are no 64-bit integers.
const INTEGERS_MAX: f64 = 9_223_372_036_854_775_808.0;

/// The time from `then` to `now` in a table. The zero time and the text `null` are no time.
fn since(then: &str, now: &str) -> String {
    // few: two texts.
    let instant = if ["", "null"].contains(&then) { Some(Instant::UNSET) } else { read_instant(then) };
    match instant {
        None => "<invalid>".to_owned(),
        Some(Instant::UNSET) => age::since("", now),
        Some(_) => age::since(then, now),
    }
}

fn read_instant(text: &str) -> Option<Instant> {
    Instant::parse(text, Precision::Seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn declared(name: &str, kind: &str, path: &str) -> Column {
        Column {
            name: name.to_owned(),
            kind: kind.to_owned(),
            format: String::new(),
            description: String::new(),
            priority: 1,
            path: path.to_owned(),
        }
    }

    #[test]
    fn the_name_comes_first_and_an_age_only_where_nothing_is_declared() {
        let names = |columns: &[Column]| columns.iter().map(|column| column.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&table_columns(&[])), ["Name", "Age"]);
        let columns =
            table_columns(&[declared("Name", "string", ".spec.name"), declared("Ready", "boolean", ".a")]);
        assert_eq!(names(&columns), ["Name", "Name", "Ready"]);
        let told = "Custom resource definition column (in JSONPath format): .a";
        assert_eq!((columns[2].description.as_str(), columns[2].priority), (told, 1));
    }

    #[test]
    fn a_path_that_cannot_be_parsed_ends_the_table() {
        let names = |paths: &[&str]| {
            let declared: Vec<Column> = paths.iter().map(|path| declared(path, "string", path)).collect();
            table_columns(&declared).into_iter().map(|column| column.name).collect::<Vec<_>>()
        };
        let bad = ".metadata.annotations[\"x\"]";
        assert_eq!(names(&[".a", bad, ".c"]), ["Name", ".a"]);
        assert_eq!(names(&[bad, ".c"]), ["Name"], "no age: columns are declared");
    }

    #[test]
    fn a_cell_shows_the_first_value_in_the_type_of_its_column() {
        let object = json!({
            "metadata": {"name": "n"},
            "i": 7, "f": 2.75, "b": true, "t": "text", "o": {"k": [1]}, "z": null, "l": ["x", "y"],
            "then": "2026-01-02T03:04:00Z", "later": "2027-01-02T03:04:00Z", "none": "",
            "unset": "0001-01-01T00:00:00Z", "null": "null", "old": "1600-01-01T00:00:00Z",
        });
        for (kind, path, wanted) in [
            ("string", ".i", json!("7")),
            ("string", ".o", json!("{\"k\":[1]}")),
            ("string", ".l[*]", json!("x")),
            ("string", ".l[7]", json!(null)),
            ("string", ".absent", json!(null)),
            ("string", ".z", json!("<no value>")),
            ("integer", ".z", json!(null)),
            ("integer", ".i", json!(7)),
            ("integer", ".f", json!(2)),
            ("integer", ".t", json!(null)),
            ("number", ".f", json!(2.75)),
            ("number", ".b", json!(null)),
            ("boolean", ".b", json!(true)),
            ("boolean", ".t", json!(null)),
            ("date", ".then", json!("5s")),
            ("date", ".later", json!("<invalid>")),
            ("date", ".t", json!("<invalid>")),
            ("date", ".none", json!("<unknown>")),
            ("date", ".unset", json!("<unknown>")),
            ("date", ".null", json!("<unknown>")),
            ("date", ".old", json!("292y")),
            ("date", ".i", json!(null)),
            ("date", ".z", json!(null)),
        ] {
            let columns = table_columns(&[declared("C", kind, path)]);
            let row = Columns::of(&columns).row(&object, "2026-01-02T03:04:05Z");
            assert_eq!(row, [json!("n"), wanted], "{kind} {path}");
        }
    }
}
