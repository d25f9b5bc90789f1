//! Calls of `format` whose text and values both stand in the expression.
//!
//! Owns what the reference says of them when they are compiled: clauses that are none, values too few or too many, and values of types
//! that their clause does not take.

use cel::common::ast::{CallExpr, EntryExpr, Expr, IdedExpr, LiteralValue};

use super::Checked;
use crate::library::clauses::{Clauses, Piece};
use crate::library::format::{FAILED, taken};
use crate::scope::Scope;
use crate::types::Type;
use crate::value::{DURATION, TIMESTAMP};

/// The first fault of the call at the node `id`, with the number of the node that has it.
pub(super) fn fault(id: u64, call: &CallExpr, checked: &Checked, scope: &Scope) -> Option<(u64, String)> {
    let (Some(target), [values]) = (call.target.as_deref(), call.args.as_slice()) else { return None };
    let (Expr::Literal(LiteralValue::String(text)), Expr::List(values)) = (&target.expr, &values.expr) else {
        return None;
    };
    if call.func_name != "format" {
        return None;
    }
    let mut asked = 0;
    let mut pieces = Clauses::of(text.inner());
    while let Some(piece) = pieces.next() {
        if let Piece::Plain(_) = piece {
            continue;
        }
        if pieces.is_at_end() {
            return Some((id, "unexpected end of string".to_owned()));
        }
        let Some(value) = values.elements.get(asked) else {
            return Some((id, format!("index {asked} out of range")));
        };
        asked += 1;
        let clause = match pieces.clause() {
            Ok(clause) => clause,
            Err(reason) => return Some((id, reason)),
        };
        if let Some(refused) = refused(clause.letter, value, checked) {
            let of = checked.type_of(refused.id);
            let reason = format!("{FAILED}{}, was given {}", taken(clause.letter), named(&of, scope));
            return Some((refused.id, reason));
        }
    }
    let given = values.elements.len();
    (given > asked).then(|| {
        (id, format!("too many arguments supplied to string.format (expected {asked}, got {given})"))
    })
}

/// The name that a type has at run time.
fn named(of: &Type, scope: &Scope) -> String {
    match of {
        Type::Null => "null_type".to_owned(),
        Type::Any => "google.protobuf.Any".to_owned(),
        Type::Duration => DURATION.to_owned(),
        Type::Timestamp => TIMESTAMP.to_owned(),
        Type::List(_) => "list".to_owned(),
        Type::Map(_) => "map".to_owned(),
        Type::Optional(_) => "optional_type".to_owned(),
        Type::Type(_) => "type".to_owned(),
        of => scope.named(of).to_string(),
    }
}

/// The part of `value` whose type the clause `letter` does not take.
fn refused<'a>(letter: char, value: &'a IdedExpr, checked: &Checked) -> Option<&'a IdedExpr> {
    let is_taken = match (letter, checked.type_of(value.id)) {
        (_, Type::Dyn | Type::Error | Type::Unknown(_)) => true,
        ('d' | 'o', Type::Int | Type::Uint) => true,
        ('f' | 'e', Type::Double | Type::String) => true,
        ('b', Type::Int | Type::Uint | Type::Bool) => true,
        ('x' | 'X', Type::Int | Type::Uint | Type::String | Type::Bytes) => true,
        ('s', of) => !matches!(of, Type::Any | Type::Optional(_) | Type::Opaque(_) | Type::Object(_)),
        _ => false,
    };
    if !is_taken {
        return Some(value);
    }
    if letter != 's' {
        return None;
    }
    match &value.expr {
        Expr::List(list) => list.elements.iter().find_map(|element| refused(letter, element, checked)),
        Expr::Map(map) => map.entries.iter().find_map(|entry| {
            let EntryExpr::MapEntry(entry) = &entry.expr else { return None };
            refused(letter, &entry.key, checked).or_else(|| refused(letter, &entry.value, checked))
        }),
        _ => None,
    }
}
