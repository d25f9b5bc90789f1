//! Expressions that are made from bytes, by the type of their value.

use super::shape::{Bytes, Shape};

/// Levels of calls inside of calls.
pub(super) const LEVELS: usize = 4;

pub(super) struct Writer<'w, 'b> {
    pub(super) bytes: &'w mut Bytes<'b>,
    /// Variables by name, the newest last.
    pub(super) names: Vec<(String, Shape)>,
    /// Whether there is a request with a resource.
    pub(super) has_request: bool,
}

impl<'w, 'b> Writer<'w, 'b> {
    pub(super) fn over(shape: &Shape, bytes: &'w mut Bytes<'b>) -> Writer<'w, 'b> {
        Writer { bytes, names: vec![("self".to_owned(), shape.clone())], has_request: false }
    }

    /// An expression with a truth value.
    pub(super) fn condition(&mut self) -> String {
        self.boolean(LEVELS)
    }

    /// Places that can be read, and their shapes.
    fn places(&self) -> Vec<(String, Shape)> {
        let mut places = Vec::new();
        let mut hidden: Vec<&str> = Vec::new();
        for (name, shape) in self.names.iter().rev() {
            if !hidden.contains(&name.as_str()) {
                add_places(name, shape, 2, &mut places);
            }
            hidden.push(name);
        }
        places
    }

    /// A place with a shape that `fits`.
    pub(super) fn place(&mut self, fits: impl Fn(&Shape) -> bool) -> Option<(String, Shape)> {
        let mut places = self.places();
        places.retain(|(_, shape)| fits(shape));
        let at = self.bytes.below(places.len());
        (!places.is_empty()).then(|| places.swap_remove(at))
    }

    pub(super) fn of(&mut self, shape: &Shape, levels: usize) -> String {
        let Some(levels) = levels.checked_sub(1) else { return self.leaf(shape) };
        match self.bytes.below(5) {
            0 => return self.leaf(shape),
            1 if self.bytes.below(3) == 0 => return self.optional(shape, levels),
            2 if self.bytes.below(3) == 0 => {
                let (one, other) = (self.of(shape, levels), self.of(shape, levels));
                return format!("({} ? {one} : {other})", self.boolean(levels));
            }
            _ => {}
        }
        match shape {
            Shape::Bool => self.boolean(levels),
            Shape::Int => self.int(levels),
            Shape::Double => self.double(levels),
            Shape::Text(_) => self.text(levels),
            Shape::List(_, item) | Shape::Set(_, item) => self.list(item, levels),
            Shape::Map(_, value) => self.map(value, levels),
            Shape::Object(_) => self.leaf(shape),
            Shape::Nullable(inner) => self.of(inner, levels),
            Shape::Either => self.either(),
            Shape::Uint => self.unsigned(levels),
            Shape::Bytes(_) => self.raw(levels),
            Shape::Duration => self.duration(levels),
            Shape::Time => self.time(levels),
            other => self.of_server(other, levels),
        }
    }

    /// A place or a literal.
    pub(super) fn leaf(&mut self, shape: &Shape) -> String {
        if self.bytes.below(4) != 0
            && let Some((place, _)) = self.place(|found| found.is_like(shape))
        {
            return place;
        }
        match shape {
            Shape::Int => self.bytes.one_of(&["0", "1", "2", "-1", "7", "9223372036854775807"]).to_owned(),
            Shape::Double => self.bytes.one_of(&["0.0", "1.5", "-2.0", "1e300"]).to_owned(),
            Shape::Bool => self.bytes.one_of(&["true", "false"]).to_owned(),
            Shape::Text(_) => format!("'{}'", self.bytes.text(12)),
            Shape::List(_, item) | Shape::Set(_, item) => format!("[{}]", self.leaf(item)),
            Shape::Nullable(inner) => self.leaf(inner),
            Shape::Either => self.either(),
            Shape::Map(_, value) => format!("{{'{}': {}}}", self.bytes.text(2), self.leaf(value)),
            // Objects have no literals.
            Shape::Object(_) => match self.place(|found| found.is_like(shape)) {
                Some((place, _)) => place,
                None => "self".to_owned(),
            },
            other => self.made(other),
        }
    }

    fn optional(&mut self, shape: &Shape, levels: usize) -> String {
        let other = self.of(shape, levels);
        let member = self.place(|found| match found {
            Shape::Object(members) => members.iter().any(|(_, member)| member.is_like(shape)),
            _ => false,
        });
        if let (Some((place, Shape::Object(members))), true) = (member, self.bytes.below(2) == 0) {
            let fits: Vec<&str> =
                members.iter().filter(|(_, member)| member.is_like(shape)).map(|(name, _)| *name).collect();
            return format!("{place}.?{}.orValue({other})", self.bytes.one_of(&fits));
        }
        let list = self.list(shape, levels);
        match self.bytes.below(8) {
            5 => format!("optional.ofNonZeroValue({other}).orValue({other})"),
            6 => {
                let made = self.loop_over_list(&format!("{list}.first()"), shape, |writer, name| {
                    format!("optMap({name}, {})", writer.of(shape, levels))
                });
                format!("{made}.orValue({other})")
            }
            7 => {
                let made = self.loop_over_list(&format!("{list}.last()"), shape, |writer, name| {
                    format!("optFlatMap({name}, optional.of({}))", writer.of(shape, levels))
                });
                format!("{made}.value()")
            }
            0 => format!("{list}.first().orValue({other})"),
            1 => format!("{list}.last().or(optional.of({other})).value()"),
            2 => format!("{list}[?{}].orValue({other})", self.int(levels)),
            3 => format!("optional.of({other}).orValue({other})"),
            _ => format!("{list}.last().value()"),
        }
    }

    pub(super) fn boolean(&mut self, levels: usize) -> String {
        let Some(levels) = levels.checked_sub(1) else { return self.leaf(&Shape::Bool) };
        let scalars = [
            Shape::Int,
            Shape::Text(0),
            Shape::Double,
            Shape::Bool,
            Shape::Duration,
            Shape::Time,
            Shape::Uint,
            Shape::Bytes(0),
        ];
        let scalar = scalars[self.bytes.below(scalars.len())].clone();
        match self.bytes.below(24) {
            0 => self.leaf(&Shape::Bool),
            1 => format!("!({})", self.boolean(levels)),
            2 => format!("({} && {})", self.boolean(levels), self.boolean(levels)),
            3 => format!("({} || {})", self.boolean(levels), self.boolean(levels)),
            4 | 5 => {
                let operator = self.bytes.one_of(&["==", "!=", "<", "<=", ">", ">="]);
                format!("({} {operator} {})", self.of(&scalar, levels), self.of(&scalar, levels))
            }
            6 => match self.place(|_| true) {
                Some((place, shape)) => format!("({place} == {})", self.of(&shape, levels)),
                None => "true".to_owned(),
            },
            7 => format!("({} in {})", self.of(&scalar, levels), self.list(&scalar, levels)),
            8 => match self.place(|shape| matches!(shape, Shape::Map(..))) {
                Some((map, _)) => format!("({} in {map})", self.text(levels)),
                None => format!("({} < {})", self.int(levels), self.double(levels)),
            },
            9..=11 => self.quantified(levels),
            12 => match self.place(|shape| matches!(shape, Shape::Object(_))) {
                Some((place, Shape::Object(members))) => {
                    let (name, _) = &members[self.bytes.below(members.len())];
                    let test = self.bytes.one_of(&["has", "value"]);
                    if test == "has" {
                        format!("has({place}.{name})")
                    } else {
                        format!("{place}.?{name}.hasValue()")
                    }
                }
                _ => "false".to_owned(),
            },
            13 => self.of_text(levels),
            14 => {
                let function = self.bytes.one_of(&["sets.contains", "sets.equivalent", "sets.intersects"]);
                format!("{function}({}, {})", self.list(&scalar, levels), self.list(&scalar, levels))
            }
            15..=18 => self.truth_of_server(levels),
            19 => self.truth_of_number(levels),
            20 => self.truth_of_either(levels),
            21 | 22 => self.truth_of_lists(levels),
            23 if self.bytes.below(2) == 0 => self.right(levels),
            _ => match self.bytes.below(2) {
                0 => format!("{}.isSorted()", self.list(&scalar, levels)),
                _ => format!("(dyn({}) == dyn({}))", self.int(levels), self.double(levels)),
            },
        }
    }

    fn of_text(&mut self, levels: usize) -> String {
        let (text, other) = (self.text(levels), self.text(levels));
        match self.bytes.below(5) {
            0 => format!("{text}.contains({other})"),
            1 => format!("{text}.startsWith({other})"),
            2 => format!("{text}.endsWith({other})"),
            3 => format!("{text}.matches(r'{}')", self.whole_pattern()),
            _ => format!("matches({text}, r'{}')", self.whole_pattern()),
        }
    }

    /// A loop that has a truth value.
    fn quantified(&mut self, levels: usize) -> String {
        let quantifier = self.bytes.one_of(&["all", "exists", "exists_one"]);
        let (range, shape) = self.range(levels);
        self.loop_over(&range, &shape, |writer, names| {
            format!("{quantifier}({names}, {})", writer.boolean(levels))
        })
    }

    pub(super) fn int(&mut self, levels: usize) -> String {
        let Some(levels) = levels.checked_sub(1) else { return self.leaf(&Shape::Int) };
        match self.bytes.below(10) {
            0 => self.leaf(&Shape::Int),
            1 | 2 => {
                let operator = self.bytes.one_of(&["+", "-", "*", "/", "%"]);
                format!("({} {operator} {})", self.int(levels), self.int(levels))
            }
            3 => format!("(-({}))", self.int(levels)),
            4 => match self.bytes.below(3) {
                0 => format!("size({})", self.text(levels)),
                1 => format!("{}.size()", self.list(&Shape::Text(0), levels)),
                _ => format!("size({})", self.map(&Shape::Int, levels)),
            },
            5 => self.place_in_text(levels),
            6 => {
                let function = self.bytes.one_of(&["sum", "min", "max"]);
                format!("{}.{function}()", self.list(&Shape::Int, levels))
            }
            7 | 8 => self.int_of_server(levels),
            _ => match self.bytes.below(5) {
                3 => format!("int({})", self.unsigned(levels)),
                4 => format!("size({})", self.raw(levels)),
                0 => format!("int({})", self.double(levels)),
                1 => format!("{}.indexOf({})", self.list(&Shape::Int, levels), self.int(levels)),
                _ => format!("{}[{}]", self.list(&Shape::Int, levels), self.int(levels)),
            },
        }
    }

    pub(super) fn double(&mut self, levels: usize) -> String {
        let Some(levels) = levels.checked_sub(1) else { return self.leaf(&Shape::Double) };
        match self.bytes.below(5) {
            0 => self.leaf(&Shape::Double),
            4 => format!("{}.asApproximateFloat()", self.of_server(&Shape::Amount, levels)),
            1 => format!("double({})", self.int(levels)),
            2 => format!("(-({}))", self.double(levels)),
            _ => {
                let operator = self.bytes.one_of(&["+", "-", "*", "/"]);
                format!("({} {operator} {})", self.double(levels), self.double(levels))
            }
        }
    }

    pub(super) fn text(&mut self, levels: usize) -> String {
        let Some(levels) = levels.checked_sub(1) else { return self.leaf(&Shape::Text(0)) };
        match self.bytes.below(13) {
            8 | 9 => self.text_of_server(levels),
            10 => self.text_with_bound(levels),
            11 => self.formatted(levels),
            0 => self.leaf(&Shape::Text(0)),
            1 => format!("({} + {})", self.text(levels), self.text(levels)),
            2 => {
                let function = self.bytes.one_of(&["lowerAscii", "upperAscii", "trim"]);
                format!("{}.{function}()", self.text(levels))
            }
            3 => format!("{}.substring({})", self.text(levels), self.int(levels)),
            4 => format!("{}.substring({}, {})", self.text(levels), self.int(levels), self.int(levels)),
            5 => format!("{}.replace({}, {})", self.text(levels), self.text(levels), self.text(levels)),
            6 => match self.bytes.below(2) {
                0 => format!("{}.join()", self.list(&Shape::Text(0), levels)),
                _ => format!("{}.join({})", self.list(&Shape::Text(0), levels), self.text(levels)),
            },
            7 => match self.bytes.below(5) {
                0 => format!("string({})", self.int(levels)),
                1 => format!("string({})", self.unsigned(levels)),
                2 => format!("string({})", self.double(levels)),
                3 => format!("string({})", self.raw(levels)),
                _ => format!("string({})", self.boolean(levels)),
            },
            _ => format!("{}.charAt({})", self.text(levels), self.int(levels)),
        }
    }
}

/// The place `text` with all that is in it.
fn add_places(text: &str, shape: &Shape, levels: usize, places: &mut Vec<(String, Shape)>) {
    places.push((text.to_owned(), shape.clone()));
    let Some(levels) = levels.checked_sub(1) else { return };
    match shape {
        Shape::Object(members) => {
            for (name, member) in members.iter() {
                add_places(&format!("{text}.{name}"), member.bare(), levels, places);
            }
        }
        Shape::List(_, item) | Shape::Set(_, item) => {
            add_places(&format!("{text}[0]"), item.bare(), levels, places)
        }
        Shape::Map(_, value) => add_places(&format!("{text}['a']"), value.bare(), levels, places),
        _ => {}
    }
}
