//! Expressions with durations, times, quantities, versions, addresses, networks, locators, formats and patterns.

use super::shape::Shape;
use super::write::Writer;

/// Texts of a type: those that have its form, and others.
struct Words {
    good: &'static [&'static str],
    bad: &'static [&'static str],
}

const DURATIONS: Words = Words {
    good: &["0", "1h", "90m", "-1.5s", "1h2m3.004005006s", "1us", "300ns", "26h", "2562047h", "0.1ms", "+5m"],
    bad: &["", "1", "h", "1x", "1h-2m", "1.2.3s", "9223372037s", "1 h", ".s"],
};
const TIMES: Words = Words {
    good: &[
        "2024-02-29T23:59:59Z",
        "2009-02-13T23:31:30.123Z",
        "2026-03-29T01:00:00+00:00",
        "2026-10-25T00:59:59.999999999Z",
        "2026-11-01T05:59:59-00:30",
        "2030-12-31T23:30:00-14:00",
    ],
    bad: &[
        "2024-02-30T00:00:00Z",
        "2024-01-01t00:00:00Z",
        "2024-01-01T00:00:00z",
        "2024-01-01T00:00:60Z",
        "2024-01-01T24:00:00Z",
        "2024-01-01T00:00:00",
        "2024-01-01 00:00:00Z",
        "2024-01-01T00:00:00.Z",
        "0000-12-31T23:59:59Z",
        "0001-01-01T00:00:00+01:00",
        "9999-12-31T23:59:59-01:00",
        "",
    ],
};
const ZONES: &[&str] = &[
    "UTC",
    "",
    "Asia/Tokyo",
    "Asia/Kolkata",
    "Europe/Berlin",
    "America/New_York",
    "+05:30",
    "-08:00",
    "02:15",
    "-00:45",
    "30:75",
    "Z",
    "europe/berlin",
    "No/Where",
    "ab:00",
    "01:cd",
];
const AMOUNTS: Words = Words {
    good: &[
        "0", "1", "-3", "1.5", "100m", "2Ki", "1e3", "1.5Gi", "9E", "20E", ".5", "5.", "+7k", "1E2", "1e-3",
        "0.1n", "1n", "1048576", "1Mi", "-0.5u", "1Pi", "m", ".", "-", "1000m", "2.0",
    ],
    bad: &["", "1kk", "1 ", "1.2.3", "one", "1KiB", "1e", "1e+", "1e5.0", "k1m", "0x1"],
};
const VERSIONS: Words = Words {
    good: &[
        "1.2.3",
        "0.0.1",
        "1.2.3-alpha.1",
        "1.2.3-alpha.10",
        "1.2.3-alpha",
        "1.2.3-rc.1+b.01",
        "1.2.3+x",
        "1.2.3-0a",
        "10.20.30",
        "1.2.3-a-b",
    ],
    bad: &[
        "",
        "1",
        "1.2",
        "v1.2.3",
        "1.2.3.4",
        "01.2.3",
        "1.02.3",
        "1.2.03",
        "1.2.3-",
        "1.2.3-01",
        "1.2.3-a..b",
        "1.2.3+",
        "1.2.3-é",
        "1.2.3+_",
        "a.b.c",
        "1.x.3",
        "1.2-a",
        "v1",
        "1..2",
        "99999999999999999999.0.0",
    ],
};
const ADDRESSES: Words = Words {
    good: &[
        "1.2.3.4",
        "127.0.0.1",
        "0.0.0.0",
        "169.254.1.1",
        "224.0.0.5",
        "255.255.255.255",
        "10.0.0.1",
        "::",
        "::1",
        "2001:db8::1",
        "2001:DB8:0:0:1::1",
        "fe80::1",
        "ff02::1",
        "1:0:0:2:0:0:0:3",
        "::1.2.3.4",
        "1:2:3:4:5:6:7::",
    ],
    bad: &[
        "",
        "no",
        "1.2.3",
        "1.2.3.4.5",
        "1.2.3.256",
        "1.2.3.04",
        "1.2.x.4",
        "1.2..4",
        "1:2",
        "1:2:3:4:5:6:7:8:9",
        "::12345",
        "1::2::3",
        "g::",
        "fe80::1%eth0",
        "::ffff:1.2.3.4",
    ],
};
const NETWORKS: Words = Words {
    good: &[
        "10.0.0.0/8",
        "10.1.2.3/16",
        "1.2.3.4/32",
        "0.0.0.0/0",
        "2001:db8::/32",
        "2001:db8::1/127",
        "::/0",
        "fe80::1/10",
    ],
    bad: &[
        "1.2.3.4",
        "10.0.0.0/33",
        "10.0.0.0/08",
        "10.0.0.0/",
        "10.0.0.0/+8",
        "1.2.3/8",
        "::ffff:1.2.3.4/96",
    ],
};
const LINKS: Words = Words {
    good: &[
        "https://a.example:8443/b/c?k=v&k=w&l",
        "/only/path?x=a+b",
        "mailto:x",
        "HTTP://[::1]:80/é a",
        "https://u:p@h/",
        "http://h?x=1;2&y=%20",
        "https://h",
        "a:/b",
    ],
    bad: &["", "rel/path", "://x", "https://h:p/", "https://[::1/"],
};
const TEXTS: &[&str] = &[
    "abc",
    "a-b",
    "-a",
    "1a",
    "a.b",
    "A/b",
    "a/b/c",
    "a-",
    "-",
    "123e4567-e89b-12d3-a456-426614174000",
    "123e4567e89b12d3a456426614174000",
    "123e4567-e89b12d3a456426614174000",
    "aGk=",
    "aG=",
    "2026-02-28",
    "2026-02-30",
    "2026-01-01t00:00:00.5+01:00",
    "",
];
const FORMATS: &[&str] = &[
    "dns1123Label",
    "dns1123LabelPrefix",
    "dns1123Subdomain",
    "dns1123SubdomainPrefix",
    "dns1035Label",
    "dns1035LabelPrefix",
    "qualifiedName",
    "labelValue",
    "uuid",
    "byte",
    "date",
    "datetime",
];

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
        let part = self.bytes.one_of(&["a", "b", "é", "ab", " "]);
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
