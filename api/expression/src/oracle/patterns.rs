//! Patterns: what matches, tried way by way.
//!
//! Owns a reader of a part of RE2's syntax (characters, classes, groups, alternatives, repetitions, anchors, a flag for case) and a
//! matcher that tries each way in the order of preference, as the definition says: leftmost, then the first way that ends.

use super::calls::{Called, tenths};
use super::plain::Plain;

/// A part of a pattern.
#[derive(Debug)]
enum Part {
    /// A character of a set of ranges, or one that is not in it.
    One {
        ranges: Vec<(char, char)>,
        is_negated: bool,
    },
    Start,
    End,
    /// A border of a word, or none.
    Border {
        is_wanted: bool,
    },
    /// Parts one after the other, of the first alternative that matches.
    Any(Vec<Vec<Part>>),
    Repeated {
        part: Box<Part>,
        least: usize,
        most: usize,
        is_greedy: bool,
    },
}

struct Reader {
    rest: std::iter::Peekable<std::vec::IntoIter<char>>,
}

const DIGITS: &[(char, char)] = &[('0', '9')];
const WORDS: &[(char, char)] = &[('0', '9'), ('A', 'Z'), ('_', '_'), ('a', 'z')];
const SPACES: &[(char, char)] = &[('\t', '\n'), ('\x0c', '\r'), (' ', ' ')];

impl Reader {
    fn alternatives(&mut self) -> Vec<Vec<Part>> {
        let mut all = vec![Vec::new()];
        while let Some(next) = self.rest.next_if(|next| *next != ')') {
            if next == '|' {
                all.push(Vec::new());
                continue;
            }
            let part = self.part(next);
            let part = self.repeated(part);
            all.last_mut().unwrap().push(part);
        }
        all
    }

    fn part(&mut self, first: char) -> Part {
        let one = |ranges: &[(char, char)], is_negated| Part::One { ranges: ranges.to_vec(), is_negated };
        match first {
            '^' => Part::Start,
            '$' => Part::End,
            '.' => one(&[('\n', '\n')], true),
            '(' => {
                if self.rest.next_if_eq(&'?').is_some() {
                    assert_eq!(self.rest.next(), Some(':'), "groups here have no other flags");
                }
                let group = Part::Any(self.alternatives());
                assert_eq!(self.rest.next(), Some(')'), "a group ends");
                group
            }
            '[' => {
                let is_negated = self.rest.next_if_eq(&'^').is_some();
                let mut ranges = Vec::new();
                while let Some(start) = self.rest.next_if(|next| *next != ']') {
                    let end = self.rest.next_if_eq(&'-').map_or(start, |_| self.rest.next().unwrap());
                    ranges.push((start, end));
                }
                self.rest.next();
                Part::One { ranges, is_negated }
            }
            '\\' => match self.rest.next().unwrap() {
                'd' => one(DIGITS, false),
                'D' => one(DIGITS, true),
                'w' => one(WORDS, false),
                'W' => one(WORDS, true),
                's' => one(SPACES, false),
                'b' => Part::Border { is_wanted: true },
                'B' => Part::Border { is_wanted: false },
                other => one(&[(other, other)], false),
            },
            other => one(&[(other, other)], false),
        }
    }

    fn repeated(&mut self, part: Part) -> Part {
        let (least, most) = match self.rest.peek() {
            Some('*') => (0, usize::MAX),
            Some('+') => (1, usize::MAX),
            Some('?') => (0, 1),
            Some('{') => {
                let text: String = self.rest.by_ref().skip(1).take_while(|next| *next != '}').collect();
                let (least, most) = text.split_once(',').unwrap_or((&text, &text));
                let least = least.parse().unwrap();
                let most = if most.is_empty() { usize::MAX } else { most.parse().unwrap() };
                let is_greedy = self.rest.next_if_eq(&'?').is_none();
                return Part::Repeated { part: Box::new(part), least, most, is_greedy };
            }
            _ => return part,
        };
        self.rest.next();
        let is_greedy = self.rest.next_if_eq(&'?').is_none();
        Part::Repeated { part: Box::new(part), least, most, is_greedy }
    }
}

struct Pattern {
    whole: Part,
    ignores_case: bool,
}

fn read(text: &str) -> Pattern {
    let body = text.strip_prefix("(?i)");
    let letters: Vec<char> = body.unwrap_or(text).chars().collect();
    let mut reader = Reader { rest: letters.into_iter().peekable() };
    Pattern { whole: Part::Any(reader.alternatives()), ignores_case: body.is_some() }
}

/// The rest of a pattern: takes the index behind the part that matched, and returns whether the whole pattern matches.
type Then<'t> = &'t mut dyn FnMut(usize) -> bool;

struct Text<'t> {
    letters: &'t [char],
    ignores_case: bool,
}

impl Text<'_> {
    fn is_in(&self, letter: char, ranges: &[(char, char)]) -> bool {
        let is_in = |letter: char| ranges.iter().any(|(start, end)| (*start..=*end).contains(&letter));
        let other = letter.to_lowercase().next().filter(|other| *other != letter);
        let other = other.or_else(|| letter.to_uppercase().next());
        is_in(letter) || self.ignores_case && other.is_some_and(is_in)
    }

    fn is_word(&self, at: usize) -> bool {
        self.letters.get(at).is_some_and(|letter| letter.is_ascii_alphanumeric() || *letter == '_')
    }

    fn part(&self, part: &Part, at: usize, then: Then<'_>) -> bool {
        match part {
            Part::One { ranges, is_negated } => {
                let is_match =
                    self.letters.get(at).is_some_and(|letter| self.is_in(*letter, ranges) != *is_negated);
                is_match && then(at + 1)
            }
            Part::Start => at == 0 && then(at),
            Part::End => at == self.letters.len() && then(at),
            Part::Border { is_wanted } => {
                let is_border = (at > 0 && self.is_word(at - 1)) != self.is_word(at);
                is_border == *is_wanted && then(at)
            }
            Part::Any(all) => all.iter().any(|parts| self.all(parts, at, then)),
            Part::Repeated { part, least, most, is_greedy } => {
                self.times(part, (*least, *most), *is_greedy, at, then)
            }
        }
    }

    fn all(&self, parts: &[Part], at: usize, then: Then<'_>) -> bool {
        match parts {
            [] => then(at),
            [first, rest @ ..] => self.part(first, at, &mut |at| self.all(rest, at, then)),
        }
    }

    fn times(
        &self,
        part: &Part,
        (least, most): (usize, usize),
        is_greedy: bool,
        at: usize,
        then: Then<'_>,
    ) -> bool {
        let may_end = least == 0;
        if may_end && !is_greedy && then(at) {
            return true;
        }
        let left = (least.saturating_sub(1), most.saturating_sub(1));
        let goes_on = most > 0
            && self.part(part, at, &mut |end| {
                // Patterns here repeat nothing that may be empty.
                self.times(part, left, is_greedy, end, then)
            });
        goes_on || may_end && is_greedy && then(at)
    }

    /// Start and end of the first match that begins at or behind `from`.
    fn find(&self, pattern: &Pattern, from: usize) -> Option<(usize, usize)> {
        (from..=self.letters.len()).find_map(|start| {
            let mut end = None;
            self.part(&pattern.whole, start, &mut |at| {
                end = Some(at);
                true
            });
            Some((start, end?))
        })
    }
}

/// The matches of a pattern in a text, at most so many. An empty one that stands where one before it ends is none.
fn find_all(of: &str, source: &str, most: usize) -> Vec<String> {
    let pattern = read(source);
    let letters: Vec<char> = of.chars().collect();
    let text = Text { letters: &letters, ignores_case: pattern.ignores_case };
    let (mut found, mut from, mut end_before) = (Vec::new(), 0, None);
    while found.len() < most {
        let Some((start, end)) = text.find(&pattern, from) else { break };
        if start < end || end_before != Some(start) {
            found.push(letters[start..end].iter().collect());
        }
        end_before = Some(end);
        from = if start < end { end } else { end + 1 };
        if from > letters.len() {
            break;
        }
    }
    found
}

/// Calls with patterns.
pub(super) fn call(name: &str, is_method: bool, arguments: &[Plain]) -> Option<Called> {
    let [Plain::Text(of), Plain::Text(source), rest @ ..] = arguments else { return None };
    let size = |text: &str| crate::length(text.chars().count());
    let cost = tenths(size(of) + 1, 1) * size(source).div_ceil(4);
    let most = match rest {
        [Plain::Int(most)] => usize::try_from(*most).unwrap_or(usize::MAX),
        _ => usize::MAX,
    };
    let word = |word: String| Plain::Text(word);
    Some(match name {
        "matches" => Ok((Plain::Bool(!find_all(of, source, 1).is_empty()), if is_method { cost } else { 1 })),
        "find" => Ok((word(find_all(of, source, 1).pop().unwrap_or_default()), cost)),
        "findAll" => Ok((Plain::List(find_all(of, source, most).into_iter().map(word).collect()), cost)),
        _ => return None,
    })
}
