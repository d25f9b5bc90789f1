//! Expressions that make lists and maps, and loops over them.

use super::shape::Shape;
use super::write::Writer;

impl Writer<'_, '_> {
    /// A list or a map, and its shape.
    pub(super) fn range(&mut self, levels: usize) -> (String, Shape) {
        match self.place(|shape| matches!(shape, Shape::List(..) | Shape::Set(..) | Shape::Map(..))) {
            Some(found) if self.bytes.below(4) != 0 => found,
            _ => (self.list(&Shape::Int, levels), Shape::List(0, Box::new(Shape::Int))),
        }
    }

    /// `range.` and what `write` makes of the names of its variables, which it may read.
    pub(super) fn loop_over(
        &mut self,
        range: &str,
        shape: &Shape,
        write: impl FnOnce(&mut Self, &str) -> String,
    ) -> String {
        let names = ["x", "y", "z"];
        let first = names[self.bytes.below(3)];
        let around = self.names.len();
        let has_two = self.bytes.below(3) == 0;
        let second = names[(names.iter().position(|name| *name == first).unwrap_or(0) + 1) % 3];
        let (index, value) = match shape {
            Shape::Map(_, value) => (Shape::Text(0), (**value).clone()),
            Shape::List(_, item) | Shape::Set(_, item) => (Shape::Int, (**item).clone()),
            other => panic!("no loop goes over {other:?}"),
        };
        let text = if has_two {
            self.names.push((first.to_owned(), index));
            self.names.push((second.to_owned(), value));
            write(self, &format!("{first}, {second}"))
        } else {
            let of = if let Shape::Map(..) = shape { index } else { value };
            self.names.push((first.to_owned(), of));
            write(self, first)
        };
        self.names.truncate(around);
        format!("{range}.{text}")
    }

    pub(super) fn list(&mut self, item: &Shape, levels: usize) -> String {
        let shape = Shape::List(0, Box::new(item.clone()));
        let Some(levels) = levels.checked_sub(1) else { return self.leaf(&shape) };
        let is_scalar = !matches!(item, Shape::List(..) | Shape::Map(..) | Shape::Object(_));
        match self.bytes.below(11) {
            0 => self.leaf(&shape),
            1 => format!("[{}, {}]", self.of(item, levels), self.of(item, levels)),
            2 => format!("[?optional.of({}), {}]", self.of(item, levels), self.of(item, levels)),
            3 => format!("({} + {})", self.list(item, levels), self.list(item, levels)),
            4 => {
                let range = self.list(item, levels);
                self.loop_over_list(&range, item, |writer, name| {
                    format!("filter({name}, {})", writer.boolean(levels))
                })
            }
            5 => {
                let (range, of) = self.range(levels);
                let is_map = matches!(of, Shape::Map(..));
                let of = if let Shape::List(_, of) | Shape::Set(_, of) = of { *of } else { Shape::Text(0) };
                let function = if is_map || self.bytes.below(2) == 0 { "map1" } else { "map2" };
                self.loop_over_list(&range, &of, |writer, name| match function {
                    "map1" => format!("map({name}, {})", writer.of(item, levels)),
                    _ => format!("map({name}, {}, {})", writer.boolean(levels), writer.of(item, levels)),
                })
            }
            6 => {
                let range = self.list(&Shape::Text(0), levels);
                self.names.push(("x".to_owned(), Shape::Int));
                self.names.push(("y".to_owned(), Shape::Text(0)));
                let filter = self.filter(levels);
                let text = format!("{range}.transformList(x, y, {filter}{})", self.of(item, levels));
                self.names.truncate(self.names.len() - 2);
                text
            }
            7 => format!("{}.slice({}, {})", self.list(item, levels), self.int(levels), self.int(levels)),
            8 => {
                let function = self.bytes.one_of(&["distinct", "reverse"]);
                format!("{}.{function}()", self.list(item, levels))
            }
            9 if is_scalar && self.bytes.below(2) == 0 => format!("{}.sort()", self.list(item, levels)),
            9 => {
                // The reference does not say in which order items with equal keys stand.
                let list = self.list(item, levels);
                format!("{list}.sortBy(x, {})", self.bytes.one_of(&["0", "true", "'a'"]))
            }
            10 if self.bytes.below(3) == 0 => {
                let list = self.list(item, levels);
                format!("optional.unwrap([{list}.first(), {list}[?{}]])", self.int(levels))
            }
            _ => match (item, self.bytes.below(2)) {
                (Shape::Int, 0) => format!("lists.range({})", self.bytes.one_of(&["0", "3", "5"])),
                (Shape::Text(_), 0) if self.bytes.below(2) == 0 => self.matched(levels),
                (Shape::Text(_), 0) => format!("{}.split({})", self.text(levels), self.text(levels)),
                _ => format!("[{}, {}].flatten()", self.list(item, levels), self.list(item, levels)),
            },
        }
    }

    /// A loop with one variable over a list with these items, or over a map with these keys.
    pub(super) fn loop_over_list(
        &mut self,
        range: &str,
        item: &Shape,
        write: impl FnOnce(&mut Self, &str) -> String,
    ) -> String {
        let name = self.bytes.one_of(&["x", "y", "z"]);
        self.names.push((name.to_owned(), item.clone()));
        let text = write(self, name);
        self.names.pop();
        format!("{range}.{text}")
    }

    /// The filter of a loop with two variables, with the comma behind it; mostly nothing.
    pub(super) fn filter(&mut self, levels: usize) -> String {
        if self.bytes.below(3) == 0 { format!("{}, ", self.boolean(levels)) } else { String::new() }
    }

    pub(super) fn map(&mut self, value: &Shape, levels: usize) -> String {
        let shape = Shape::Map(0, Box::new(value.clone()));
        let Some(levels) = levels.checked_sub(1) else { return self.leaf(&shape) };
        match self.bytes.below(4) {
            0 => self.leaf(&shape),
            1 => format!("{{{}: {}}}", self.text(levels), self.of(value, levels)),
            2 => {
                let (key, of) = (self.text(levels), self.of(value, levels));
                format!("{{{key}: {of}, {}: {of}}}", self.text(levels))
            }
            _ => {
                let range = self.map(&Shape::Int, levels);
                self.names.push(("x".to_owned(), Shape::Text(0)));
                self.names.push(("y".to_owned(), Shape::Int));
                let filter = self.filter(levels);
                let text = match self.bytes.below(2) {
                    0 => format!("{range}.transformMap(x, y, {filter}{})", self.of(value, levels)),
                    _ => format!(
                        "{range}.transformMapEntry(x, y, {filter}{{{}: {}}})",
                        self.text(levels),
                        self.of(value, levels)
                    ),
                };
                self.names.truncate(self.names.len() - 2);
                text
            }
        }
    }
}
