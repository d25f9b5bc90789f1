//! Expressions with unsigned numbers, bytes, values of two types, lists that are sets or have keys, and questions about rights.

use super::shape::Shape;
use super::write::Writer;

impl Writer<'_, '_> {
    pub(super) fn unsigned(&mut self, levels: usize) -> String {
        let Some(levels) = levels.checked_sub(1) else { return self.leaf(&Shape::Uint) };
        match self.bytes.below(5) {
            0 => self.leaf(&Shape::Uint),
            1 => format!("uint({})", self.int(levels)),
            2 => format!("uint({})", self.double(levels)),
            _ => {
                let operator = self.bytes.one_of(&["+", "-", "*", "/", "%"]);
                format!("({} {operator} {})", self.unsigned(levels), self.unsigned(levels))
            }
        }
    }

    /// Bytes.
    pub(super) fn raw(&mut self, levels: usize) -> String {
        let Some(levels) = levels.checked_sub(1) else { return self.leaf(&Shape::Bytes(0)) };
        match self.bytes.below(4) {
            0 | 1 => self.leaf(&Shape::Bytes(0)),
            2 => format!("bytes({})", self.text(levels)),
            _ => format!("({} + {})", self.raw(levels), self.raw(levels)),
        }
    }

    /// Numbers of two types beside each other.
    pub(super) fn truth_of_number(&mut self, levels: usize) -> String {
        let operator = self.bytes.one_of(&["<", "<=", ">", ">="]);
        let shapes = [Shape::Int, Shape::Uint, Shape::Double];
        let (one, other) = (self.bytes.below(3), self.bytes.below(3));
        let (one, other) = (self.of(&shapes[one], levels), self.of(&shapes[other], levels));
        if self.bytes.below(3) == 0 {
            return format!("(dyn({one}) == dyn({other}))");
        }
        format!("({one} {operator} {other})")
    }

    /// A value that is an integer or a text. `dyn` tells the slow evaluator that the type is not known before.
    pub(super) fn either(&mut self) -> String {
        match self.place(|shape| matches!(shape, Shape::Either)) {
            Some((place, _)) => format!("dyn({place})"),
            None => self
                .bytes
                .one_of(&["dyn(1)", "dyn('a')", "dyn(null)", "dyn([1])", "dyn({'a': 1})"])
                .to_owned(),
        }
    }

    pub(super) fn truth_of_either(&mut self, levels: usize) -> String {
        let either = self.either();
        match self.bytes.below(9) {
            0 => format!("({either} == {})", self.int(levels)),
            1 => format!("({either} != {})", self.text(levels)),
            2 => {
                let operator = self.bytes.one_of(&["<", "<=", ">", ">="]);
                format!("({either} {operator} {})", self.int(levels))
            }
            3 => format!("{either}.startsWith({})", self.text(levels)),
            4 => {
                format!("(type({either}) == {})", self.bytes.one_of(&["int", "string", "list", "null_type"]))
            }
            5 => format!("(size({either}) > {})", self.int(levels)),
            6 => format!("({either}.{}() == 'a')", self.bytes.one_of(&["lowerAscii", "trim"])),
            7 => {
                let test =
                    self.bytes.one_of(&["has({}.a)", "({}.a == 1)", "{}.?a.hasValue()", "({}[0] == 1)"]);
                test.replace("{}", &either)
            }
            _ => format!("(({either} + {}) == {either})", self.int(levels)),
        }
    }

    /// Sums and equality of lists of the document, which may be sets or have keys.
    pub(super) fn truth_of_lists(&mut self, levels: usize) -> String {
        let Some((place, shape)) = self.place(|shape| matches!(shape, Shape::Set(..) | Shape::List(..)))
        else {
            return self.boolean(levels);
        };
        let other = |writer: &mut Self| match writer.place(|found| found.is_like(&shape)) {
            Some((place, _)) if writer.bytes.below(3) != 0 => place,
            _ => writer.of(&shape, levels),
        };
        let (one, two) = (other(self), other(self));
        match self.bytes.below(5) {
            0 => format!("({place} == {one})"),
            1 => format!("({place} != {one})"),
            2 => format!("(({place} + {one}) == {two})"),
            3 => format!("({two} == ({place} + {one}))"),
            _ => format!("(size({place} + {one}) == {})", self.int(levels)),
        }
    }

    /// A question about rights. One with the verb `later` has no answer.
    pub(super) fn right(&mut self, levels: usize) -> String {
        let target = match self.bytes.below(4) {
            0 => format!("path({})", self.text(levels)),
            1 => format!("serviceAccount('{}', 'x').path('/a')", self.bytes.one_of(&["a", "A", ""])),
            2 if self.has_request => "requestResource".to_owned(),
            _ => {
                let steps = [
                    "subresource('s')",
                    "namespace('n')",
                    "name('x')",
                    "fieldSelector('a=b')",
                    "labelSelector('a in (b, c)')",
                ];
                let many = self.bytes.below(3);
                let steps: String = (0..many).map(|_| format!(".{}", self.bytes.one_of(&steps))).collect();
                format!("group('').resource({}){steps}", self.text(levels))
            }
        };
        let verb = self.bytes.one_of(&["get", "list", "broken", "later"]);
        let check = format!("authorizer.{target}.check('{verb}')");
        match self.bytes.below(4) {
            0 => format!("{check}.errored()"),
            1 => format!("({check}.reason() == {check}.error())"),
            _ => format!("{check}.allowed()"),
        }
    }
}
