//! Expressions with durations, times, quantities, versions, addresses, networks, locators, formats and patterns.

use super::shape::Shape;
use super::words::{
    ADDRESSES, AMOUNTS, DURATIONS, FORMATS, LINKS, NETWORKS, TEXTS, TIMES, VERSIONS, Words, ZONES,
};
use super::write::Writer;

impl Writer<'_, '_> {
    /// A literal of `words`, whole or as the sum of two parts. Words that lack the form of their type are written in parts alone,
    /// because the reference refuses some of such literals when it compiles them.
    fn word(&mut self, words: &Words) -> String {
        let is_bad = self.bytes.below(6) == 5;
        let word = self.bytes.one_of(if is_bad { words.bad } else { words.good });
        if !is_bad && self.bytes.below(2) == 0 { format!("'{word}'") } else { self.split(word) }
    }

    /// A text in two parts, which no compiler puts together.
    fn split(&mut self, word: &str) -> String {
        let places: Vec<usize> = word.char_indices().map(|(at, _)| at).chain([word.len()]).collect();
        let at = places[self.bytes.below(places.len())];
        format!("('{}' + '{}')", &word[..at], &word[at..])
    }

    /// A value of one of these types that no place has.
    pub(super) fn made(&mut self, shape: &Shape) -> String {
        match shape {
            Shape::Duration => format!("duration({})", self.word(&DURATIONS)),
            Shape::Time => format!("timestamp({})", self.word(&TIMES)),
            Shape::Amount => format!("quantity({})", self.word(&AMOUNTS)),
            Shape::Version if self.bytes.below(3) == 0 => format!("semver({}, true)", self.word(&VERSIONS)),
            Shape::Version => format!("semver({})", self.word(&VERSIONS)),
            Shape::Address => format!("ip({})", self.word(&ADDRESSES)),
            Shape::Network => format!("cidr({})", self.word(&NETWORKS)),
            Shape::Link => format!("url({})", self.word(&LINKS)),
            Shape::Uint => self.bytes.one_of(&["0u", "1u", "7u", "18446744073709551615u"]).to_owned(),
            Shape::Bytes(_) => self.bytes.one_of(&["b''", "b'a'", "b'aé'", r"b'\xff'"]).to_owned(),
            other => panic!("no call makes {other:?}"),
        }
    }

    pub(super) fn duration(&mut self, levels: usize) -> String {
        let Some(levels) = levels.checked_sub(1) else { return self.leaf(&Shape::Duration) };
        match self.bytes.below(6) {
            0 => self.leaf(&Shape::Duration),
            1 | 2 => {
                let operator = self.bytes.one_of(&["+", "-"]);
                format!("({} {operator} {})", self.duration(levels), self.duration(levels))
            }
            3 => format!("({} - {})", self.time(levels), self.time(levels)),
            4 => {
                let function = self.bytes.one_of(&["sum", "min", "max"]);
                // An empty list has the zero of its static type, which the slow evaluator does not know.
                format!("([duration('0')] + {}).{function}()", self.list(&Shape::Duration, levels))
            }
            _ => self.made(&Shape::Duration),
        }
    }

    pub(super) fn time(&mut self, levels: usize) -> String {
        let Some(levels) = levels.checked_sub(1) else { return self.leaf(&Shape::Time) };
        match self.bytes.below(6) {
            0 => self.leaf(&Shape::Time),
            1 => format!("({} + {})", self.duration(levels), self.time(levels)),
            2 => {
                let operator = self.bytes.one_of(&["+", "-"]);
                format!("({} {operator} {})", self.time(levels), self.duration(levels))
            }
            3 => format!("timestamp({})", self.int(levels)),
            _ => self.made(&Shape::Time),
        }
    }

    pub(super) fn of_server(&mut self, shape: &Shape, levels: usize) -> String {
        let Some(levels) = levels.checked_sub(1) else { return self.made(shape) };
        match (shape, self.bytes.below(4)) {
            (Shape::Amount, 0 | 1) => {
                let function = self.bytes.one_of(&["add", "sub"]);
                let other = match self.bytes.below(3) {
                    0 => self.bytes.one_of(&["0", "3", "-1000", "9223372036854775807"]).to_owned(),
                    _ => self.of_server(shape, levels),
                };
                format!("{}.{function}({other})", self.of_server(shape, levels))
            }
            (Shape::Address, 0) => format!("{}.ip()", self.of_server(&Shape::Network, levels)),
            (Shape::Network, 0 | 1) => format!("{}.masked()", self.of_server(shape, levels)),
            _ => self.made(shape),
        }
    }

    /// A truth value of these types.
    pub(super) fn truth_of_server(&mut self, levels: usize) -> String {
        let of = |writer: &mut Self, shape| writer.of_server(&shape, levels);
        let shapes = [Shape::Amount, Shape::Version, Shape::Address, Shape::Network, Shape::Link];
        match self.bytes.below(10) {
            0 | 1 => {
                let shape = shapes[self.bytes.below(shapes.len())].clone();
                let operator = self.bytes.one_of(&["==", "!="]);
                format!("({} {operator} {})", of(self, shape.clone()), of(self, shape))
            }
            2 | 3 => {
                let shape = shapes[self.bytes.below(2)].clone();
                let function = self.bytes.one_of(&["isGreaterThan", "isLessThan"]);
                format!("{}.{function}({})", of(self, shape.clone()), of(self, shape))
            }
            4 => match self.bytes.below(7) {
                0 => format!("isQuantity({})", self.word(&AMOUNTS)),
                1 => format!("isSemver({})", self.word(&VERSIONS)),
                2 => format!("isSemver({}, true)", self.word(&VERSIONS)),
                3 => format!("isIP({})", self.word(&ADDRESSES)),
                4 => format!("isCIDR({})", self.word(&NETWORKS)),
                5 => format!("ip.isCanonical({})", self.word(&ADDRESSES)),
                _ => format!("isURL({})", self.word(&LINKS)),
            },
            5 => {
                let functions = [
                    "isUnspecified",
                    "isLoopback",
                    "isLinkLocalUnicast",
                    "isLinkLocalMulticast",
                    "isGlobalUnicast",
                ];
                format!("{}.{}()", of(self, Shape::Address), self.bytes.one_of(&functions))
            }
            6 => {
                let other = match self.bytes.below(4) {
                    0 => {
                        return format!(
                            "{}.containsIP({})",
                            of(self, Shape::Network),
                            of(self, Shape::Address)
                        );
                    }
                    1 => {
                        return format!("{}.containsIP({})", of(self, Shape::Network), self.word(&ADDRESSES));
                    }
                    2 => of(self, Shape::Network),
                    _ => self.word(&NETWORKS),
                };
                format!("{}.containsCIDR({other})", of(self, Shape::Network))
            }
            7 => {
                let format = self.bytes.one_of(FORMATS);
                let text = format!("'{}'", self.bytes.one_of(TEXTS));
                match self.bytes.below(2) {
                    0 => format!("format.{format}().validate({text}).hasValue()"),
                    _ => format!("format.named('{format}').value().validate({text}).hasValue()"),
                }
            }
            8 => format!("{}.isInteger()", of(self, Shape::Amount)),
            _ => format!("('k' in {}.getQuery())", of(self, Shape::Link)),
        }
    }

    pub(super) fn int_of_server(&mut self, levels: usize) -> String {
        let of = |writer: &mut Self, shape| writer.of_server(&shape, levels);
        match self.bytes.below(10) {
            0 | 1 => {
                let functions = [
                    "getFullYear",
                    "getMonth",
                    "getDate",
                    "getDayOfMonth",
                    "getDayOfYear",
                    "getDayOfWeek",
                    "getHours",
                    "getMinutes",
                    "getSeconds",
                    "getMilliseconds",
                ];
                let function = self.bytes.one_of(&functions);
                // The zones that are written here have their present rules.
                if self.bytes.below(2) == 0 {
                    return format!("{}.{function}()", self.time(levels));
                }
                let (time, zone) = (self.bytes.one_of(TIMES.good), self.bytes.one_of(ZONES));
                format!("timestamp('{time}').{function}('{zone}')")
            }
            2 => {
                let function =
                    self.bytes.one_of(&["getHours", "getMinutes", "getSeconds", "getMilliseconds"]);
                format!("{}.{function}()", self.duration(levels))
            }
            3 => format!("int({})", self.time(levels)),
            4 => format!("int({})", self.duration(levels)),
            5 => format!("sign({})", of(self, Shape::Amount)),
            6 => format!("{}.asInteger()", of(self, Shape::Amount)),
            7 => {
                let shape = if self.bytes.below(2) == 0 { Shape::Amount } else { Shape::Version };
                format!("{}.compareTo({})", of(self, shape.clone()), of(self, shape))
            }
            8 => {
                let function = self.bytes.one_of(&["major", "minor", "patch"]);
                format!("{}.{function}()", of(self, Shape::Version))
            }
            _ => match self.bytes.below(2) {
                0 => format!("{}.family()", of(self, Shape::Address)),
                _ => format!("{}.prefixLength()", of(self, Shape::Network)),
            },
        }
    }

    pub(super) fn text_of_server(&mut self, levels: usize) -> String {
        match self.bytes.below(6) {
            0 => format!("string({})", self.duration(levels)),
            1 => format!("string({})", self.time(levels)),
            2 => {
                let shape = if self.bytes.below(2) == 0 { Shape::Address } else { Shape::Network };
                format!("string({})", self.of_server(&shape, levels))
            }
            3 => {
                let functions = ["getScheme", "getHost", "getHostname", "getPort", "getEscapedPath"];
                let function = self.bytes.one_of(&functions);
                format!("{}.{function}()", self.of_server(&Shape::Link, levels))
            }
            4 => format!("{}.getQuery()['k'][0]", self.of_server(&Shape::Link, levels)),
            _ => {
                let (text, pattern) = (self.text(levels), self.pattern(2));
                format!("{text}.find(r'{pattern}')")
            }
        }
    }

    pub(super) fn place_in_text(&mut self, levels: usize) -> String {
        let text = self.text(levels);
        let function = self.bytes.one_of(&["indexOf", "lastIndexOf"]);
        if self.bytes.below(2) == 0 {
            return format!("{text}.{function}({})", self.text(levels));
        }
        let part = self.bytes.one_of(&["a", "b", "é", "ab", " ", ""]);
        format!("{text}.{function}('{part}', {})", self.bytes.one_of(&["0", "1", "2", "5", "-1", "30"]))
    }

    /// A text of parts, the number of which is given.
    pub(super) fn text_with_bound(&mut self, levels: usize) -> String {
        let (text, part) = (self.text(levels), self.text(levels));
        let most = self.bytes.one_of(&["0", "1", "2", "-1", "9"]);
        match self.bytes.below(3) {
            0 => format!("{text}.replace({part}, {}, {most})", self.text(levels)),
            1 => format!("{text}.split({part}, {most}).join('-')"),
            _ => format!("strings.quote({text})"),
        }
    }

    pub(super) fn formatted(&mut self, levels: usize) -> String {
        match self.bytes.below(4) {
            0 => format!("'%s, %d%%'.format([{}, {}])", self.text(levels), self.int(levels)),
            1 => format!("'%b %o %x %X'.format([{0}, {0}, {0}, {0}])", self.int(levels)),
            2 => format!("'%s %s %b'.format([{0}, {1}, {1}])", self.duration(levels), self.boolean(levels)),
            _ => {
                let items = [Shape::Int, Shape::Text(0), Shape::Time, Shape::Duration, Shape::Bool];
                let item = items[self.bytes.below(items.len())].clone();
                format!("'%s'.format([{}])", self.list(&item, levels))
            }
        }
    }

    pub(super) fn matched(&mut self, levels: usize) -> String {
        let (text, pattern) = (self.text(levels), self.pattern(3));
        match self.bytes.below(3) {
            0 => format!("{text}.findAll(r'{pattern}')"),
            1 => format!("{text}.findAll(r'{pattern}', {})", self.bytes.one_of(&["0", "1", "2", "-1"])),
            // A pattern that is known in the evaluation only.
            _ => format!("{text}.findAll((r'{pattern}' + ''))"),
        }
    }

    /// A pattern that the slow evaluator reads.
    pub(super) fn whole_pattern(&mut self) -> String {
        let flag = if self.bytes.below(5) == 4 { "(?i)" } else { "" };
        let start = if self.bytes.below(4) == 3 { "^" } else { "" };
        let end = if self.bytes.below(4) == 3 { "$" } else { "" };
        format!("{flag}{start}{}{end}", self.pattern(3))
    }

    fn pattern(&mut self, levels: usize) -> String {
        let Some(levels) = levels.checked_sub(1) else { return self.letter() };
        match self.bytes.below(7) {
            0 | 1 => self.letter(),
            2 | 3 => format!("{}{}", self.pattern(levels), self.pattern(levels)),
            4 => format!("({}|{})", self.pattern(levels), self.pattern(levels)),
            5 => {
                let sign =
                    self.bytes.one_of(&["*", "+", "?", "{2}", "{1,2}", "{2,}", "*?", "+?", "??", "{0,2}?"]);
                // Only what is never empty is repeated.
                format!("{}{sign}", self.letter())
            }
            _ => {
                let sign = self.bytes.one_of(&["*", "+", "{1,2}", "+?"]);
                format!("(?:{}{}){sign}", self.letter(), self.pattern(levels))
            }
        }
    }

    fn letter(&mut self) -> String {
        let letters =
            ["a", "b", "é", "7", ".", "[ab7]", "[^a]", "[a-é]", r"\d", r"\w", r"\W", r"\s", "A", " ", r"\."];
        self.bytes.one_of(&letters).to_owned()
    }
}
