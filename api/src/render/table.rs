//! Tables: the columns that command-line clients print, computed here so that clients need not know kinds.
//!
//! Owns the `Table` document. Cells come from the kind's strategy, columns from the resource's definition.

use orch_raft::object::SharedObject;
use orch_rules::kinds::Cell;
use orch_rules::validate::tree::Tree;
use orch_schema::budget::count_step;
use orch_schema::json;
use orch_schema::value::Value;
use orch_schema::write_value;
use orch_schema::{Column, default_columns};

use super::list::write_list_meta;
use super::{IncludeObject, Payload, Renderer};
use crate::ambient::Timestamp;
use crate::answer::ListAnswer;
use crate::error::ApiError;

impl Renderer {
    /// The table for a list.
    pub(super) fn table(&self, list: &ListAnswer, now: Timestamp) -> Result<Payload, ApiError> {
        let mut metadata = Vec::new();
        write_list_meta(list, false, &mut metadata);
        let mut open = Vec::new();
        self.table_open(&metadata, true, &mut open);
        if list.objects.is_empty() && !self.has_own_cells() {
            open.extend_from_slice(b"null}");
            return self.finish(open);
        }
        open.push(b'[');
        let now = now.seconds_text();
        let ordered = self.ordered(&list.objects)?;
        let objects = ordered.as_deref().unwrap_or(&list.objects);
        self.sequence(open, "rows", objects, |object, out| self.row_of(object, &now, out))
    }

    /// `objects` in the order that the kind gives its rows; `None`: as they are, by name. Objects of few kinds are read for
    /// it, once.
    fn ordered(&self, objects: &[SharedObject]) -> Result<Option<Vec<SharedObject>>, ApiError> {
        let strategy = &self.resource.strategy;
        if strategy.table_order(&Value::Null).is_none() {
            return Ok(None);
        }
        let placed = |object: &SharedObject| {
            Ok((strategy.table_order(&self.stored_value(&object.json)?), object.clone()))
        };
        let mut placed: Vec<_> =
            objects.iter().take_while(|_| count_step()).map(placed).collect::<Result<_, ApiError>>()?;
        placed.sort_by_key(|(order, _)| *order);
        Ok(Some(placed.into_iter().map(|(_, object)| object).collect()))
    }

    /// Appends the table for one object, given its stored form. `headers`: with columns.
    pub(super) fn table_of_one(
        &self,
        json: &[u8],
        now: Timestamp,
        headers: bool,
        out: &mut Vec<u8>,
    ) -> Result<(), ApiError> {
        let stored = self.stored_value(json)?;
        let mut metadata = Vec::new();
        let version = stored.at("metadata").text("resourceVersion");
        let version = if version.is_empty() { json!({}) } else { json!({ "resourceVersion": version }) };
        write_value(&version, &mut metadata);
        self.table_open(&metadata, headers, out);
        out.push(b'[');
        self.row(json, &stored, &now.seconds_text(), out)?;
        out.extend_from_slice(TABLE_END);
        Ok(())
    }

    /// Whether the kind defines its own cells. In the reference, the rows of an empty table are `[]` for such a kind
    /// and `null` for any other.
    fn has_own_cells(&self) -> bool {
        self.resource.strategy.table_row(&Value::Null, "").is_some()
    }

    /// Appends the JSON up to the rows.
    fn table_open(&self, metadata: &[u8], headers: bool, out: &mut Vec<u8>) {
        let head = format!("{{\"kind\":\"Table\",\"apiVersion\":\"{}\",\"metadata\":", self.meta_version());
        out.extend_from_slice(head.as_bytes());
        out.extend_from_slice(metadata);
        out.extend_from_slice(b",\"columnDefinitions\":");
        let columns = if headers { self.columns() } else { Value::Null };
        write_value(&columns, out);
        out.extend_from_slice(b",\"rows\":");
    }

    fn columns(&self) -> Value {
        match self.resource.columns.as_slice() {
            [] => default_columns(self.brand).iter().map(definition).collect(),
            columns => columns.iter().map(definition).collect(),
        }
    }

    fn row_of(&self, object: &SharedObject, now: &str, out: &mut Vec<u8>) -> Result<(), ApiError> {
        let stored = self.stored_value(&object.json)?;
        self.row(&object.json, &stored, now, out)
    }

    fn row(&self, json: &[u8], stored: &Value, now: &str, out: &mut Vec<u8>) -> Result<(), ApiError> {
        let cells = self.resource.strategy.table_row(stored, now).unwrap_or_else(|| default_cells(stored));
        out.extend_from_slice(b"{\"cells\":");
        write_value(&Value::Array(cells), out);
        let conditions = self.resource.strategy.table_conditions(stored);
        if !conditions.is_empty() {
            out.extend_from_slice(b",\"conditions\":");
            write_value(&Value::Array(conditions), out);
        }
        out.extend_from_slice(b",\"object\":");
        match self.include {
            IncludeObject::None => out.extend_from_slice(b"null"),
            IncludeObject::Metadata => self.partial(json, out)?,
            IncludeObject::Object => self.whole(json, out)?,
        }
        out.push(b'}');
        Ok(())
    }
}

const TABLE_END: &[u8] = b"]}";

/// The reference's text for an absent time.
const NO_TIME: &str = "0001-01-01T00:00:00Z";

/// The cells of a kind that defines none: name and creation time.
fn default_cells(stored: &Value) -> Vec<Cell> {
    let metadata = stored.at("metadata");
    let created = metadata.text("creationTimestamp");
    vec![json!(metadata.text("name")), json!(if created.is_empty() { NO_TIME } else { created })]
}

fn definition(column: &Column) -> Value {
    json!({
        "name": column.name,
        "type": column.kind,
        "format": column.format,
        "description": column.description,
        "priority": column.priority,
    })
}
