//! Policy rules in the form in which requests are matched against them.
//!
//! Owns the reference's matching of verbs, groups, resources, names and URLs. It knows no role and no user.
//!
//! The rules of a role share their texts: a text that is asked for is looked up once, and rules compare numbers. Most roles
//! do not even name the resource that is asked for, which a [`Sieve`] tells without a look at their rules. Rules take no
//! more memory than they take in the store, and twice that where each of their texts is another, of three letters.

use std::cell::OnceCell;
use std::cmp::Ordering;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use smol_str::{SmolStr, format_smolstr};

use super::policy_rule::{LISTS, PolicyRule};
use crate::authz::Attributes;

/// Matches every verb, group or resource.
pub const ALL: &str = "*";

/// Texts up to this number are looked at one by one, which is quicker than a search by halves.
const SCANNED_MAX: usize = 8;

/// The texts of a role, each once: the shortest first, so that most of them are told apart by their lengths.
#[derive(Clone, Debug, Default)]
struct Texts {
    whole: Box<str>,
    ends: Box<[u32]>,
}

/// The order of texts.
fn compare(one: &str, other: &str) -> Ordering {
    one.len().cmp(&other.len()).then_with(|| one.cmp(other))
}

impl Texts {
    /// `texts` are in their order, each once.
    fn new(texts: &[&str]) -> Texts {
        let mut end = 0;
        let ends = texts.iter().map(|text| {
            end += text.len();
            // The texts of an object, which is far smaller than 4 GiB.
            u32::try_from(end).unwrap_or(u32::MAX)
        });
        Texts { ends: ends.collect(), whole: texts.concat().into() }
    }

    /// The text with this number.
    fn get(&self, number: u32) -> &str {
        let at = number as usize;
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        self.whole.get(start as usize..self.ends[at] as usize).unwrap_or_default()
    }

    /// The number of `text`; `None` where no rule names it.
    fn find(&self, text: &str) -> Option<u32> {
        let (mut low, mut high) = (0, u32::try_from(self.ends.len()).unwrap_or(u32::MAX));
        while low < high {
            let middle = low + (high - low) / 2;
            match compare(self.get(middle), text) {
                Ordering::Less => low = middle + 1,
                Ordering::Equal => return Some(middle),
                Ordering::Greater => high = middle,
            }
        }
        None
    }
}

/// The lists of a rule, in the order in which [`Rules`] holds them.
#[derive(Clone, Copy)]
enum List {
    Verbs,
    Groups,
    Resources,
    Names,
    Urls,
}

/// Where each list of a rule ends among the numbers of a role, and which lists cover everything: of verbs, groups and
/// resources those with `*`, of names the absent one.
#[derive(Clone, Copy, Debug)]
struct Rule {
    ends: [u32; LISTS],
    covers_all: [bool; 4],
}

/// A rule with its lists.
#[derive(Clone, Copy)]
struct RuleView<'a> {
    rule: &'a Rule,
    start: u32,
    numbers: &'a [u32],
}

impl<'a> RuleView<'a> {
    /// Numbers of the texts of a list, sorted.
    fn list(self, list: List) -> &'a [u32] {
        let at = list as usize;
        let start = at.checked_sub(1).map_or(self.start, |before| self.rule.ends[before]);
        self.numbers.get(start as usize..self.rule.ends[at] as usize).unwrap_or_default()
    }

    fn names(self, list: List, text: Option<u32>) -> bool {
        let Some(text) = text else { return false };
        let numbers = self.list(list);
        match numbers.len() {
            // few: see above.
            ..=SCANNED_MAX => numbers.contains(&text),
            _ => numbers.binary_search(&text).is_ok(),
        }
    }

    fn covers(self, list: List, text: Option<u32>) -> bool {
        self.rule.covers_all[list as usize] || self.names(list, text)
    }
}

/// The rules of a role, prepared for matching. Those that differ in nothing but the names of objects are one.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    texts: Texts,
    rules: Box<[Rule]>,
    /// Numbers of texts: the lists of all rules, one behind the other.
    numbers: Box<[u32]>,
}

impl Rules {
    /// Prepares `stored`.
    pub fn new(stored: &[PolicyRule]) -> Rules {
        let mut texts: Vec<&str> =
            stored.iter().flat_map(PolicyRule::lists).flatten().map(|text| &**text).collect();
        texts.sort_unstable_by(|one, other| compare(one, other));
        texts.dedup();
        let texts = Texts::new(&texts);
        let mut places = hashbrown::HashMap::new();
        let mut merged: Vec<(&PolicyRule, Vec<&PolicyRule>)> = Vec::new();
        for rule in stored {
            let shape = (&rule.verbs, &rule.api_groups, &rule.resources, &rule.non_resource_urls);
            let place = *places.entry(shape).or_insert(merged.len());
            match merged.get_mut(place) {
                Some((_, like)) => like.push(rule),
                None => merged.push((rule, vec![rule])),
            }
        }
        let mut numbers = Vec::new();
        let rules =
            merged.into_iter().map(|(shape, like)| Rule::new(shape, &like, &texts, &mut numbers)).collect();
        Rules { texts, rules, numbers: numbers.into() }
    }

    /// Whether a rule allows what `asked` holds.
    pub fn allow(&self, asked: &Asked<'_>) -> bool {
        match asked {
            Asked::Path { verb, path } => {
                let verb = self.texts.find(verb);
                let covers_url = |url: &u32| covers_path(self.texts.get(*url), path);
                self.any(|rule| {
                    rule.covers(List::Verbs, verb) && rule.list(List::Urls).iter().any(covers_url)
                })
            }
            Asked::Resource { verb, group, resource, part, name, .. } => {
                let [verb, group, resource] = [verb, group, resource].map(|text| self.texts.find(text));
                let part = part.as_ref().and_then(|part| self.texts.find(part));
                let found = OnceCell::new();
                let name = || *found.get_or_init(|| self.texts.find(name));
                self.any(|rule| {
                    rule.covers(List::Verbs, verb)
                        && rule.covers(List::Groups, group)
                        && (rule.covers(List::Resources, resource) || rule.names(List::Resources, part))
                        && (rule.rule.covers_all[List::Names as usize] || rule.names(List::Names, name()))
                })
            }
        }
    }

    /// Whether one rule covers all of `asked`, so that a user who has that rule may grant `asked`. `look` is told how many texts
    /// are about to be looked up, at least one for each rule.
    ///
    /// # Errors
    /// The error of `look`, which ends the comparison.
    pub(super) fn cover<E>(
        &self,
        asked: &PolicyRule,
        mut look: impl FnMut(usize) -> Result<(), E>,
    ) -> Result<bool, E> {
        let texts = asked.texts();
        for rule in self.views() {
            let urls = rule.list(List::Urls);
            look(1 + texts + urls.len() * asked.non_resource_urls.len())?;
            let has = |list: List, text: &str| rule.names(list, self.texts.find(text));
            let has_all = |list: List, texts: &[SmolStr]| {
                rule.rule.covers_all[list as usize] || texts.iter().all(|text| has(list, text))
            };
            let part = |text: &str| text.split_once('/').map(|(_, part)| format_smolstr!("*/{part}"));
            let has_resource = |text: &SmolStr| {
                has(List::Resources, text) || part(text).is_some_and(|part| has(List::Resources, &part))
            };
            let has_url = |asked: &SmolStr| urls.iter().any(|url| covers_path(self.texts.get(*url), asked));
            let names = &asked.resource_names;
            if has_all(List::Verbs, &asked.verbs)
                && has_all(List::Groups, &asked.api_groups)
                && (rule.rule.covers_all[List::Resources as usize] || asked.resources.iter().all(has_resource))
                // Without a name all objects are asked for.
                && (rule.rule.covers_all[List::Names as usize] || !names.is_empty() && has_all(List::Names, names))
                && asked.non_resource_urls.iter().all(has_url)
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Number of rules that a decision looks at.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.rules.len()
    }

    /// Bytes of memory behind this value.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        let Texts { whole, ends } = &self.texts;
        whole.len() + size_of_val(&**ends) + size_of_val(&*self.rules) + size_of_val(&*self.numbers)
    }

    fn any(&self, mut holds: impl FnMut(RuleView<'_>) -> bool) -> bool {
        self.views().any(&mut holds)
    }

    fn views(&self) -> impl Iterator<Item = RuleView<'_>> {
        let mut start = 0;
        self.rules.iter().map(move |rule| {
            let view = RuleView { rule, start, numbers: &self.numbers };
            start = rule.ends[LISTS - 1];
            view
        })
    }
}

impl Rule {
    /// The rule of the shape of `shape`, for the names of all of `like`. Its lists are added to `numbers`.
    fn new(shape: &PolicyRule, like: &[&PolicyRule], texts: &Texts, numbers: &mut Vec<u32>) -> Rule {
        // once: each rule is in one `like` of `Rules::new`.
        let is_of_all_names = like.iter().any(|rule| rule.resource_names.is_empty());
        let has_all = |list: &[SmolStr]| list.iter().any(|text| text == ALL);
        let covers_all =
            [has_all(&shape.verbs), has_all(&shape.api_groups), has_all(&shape.resources), is_of_all_names];
        let mut ends = [0; LISTS];
        for (at, list) in shape.lists().into_iter().enumerate() {
            let start = numbers.len();
            let mut add = |list: &[SmolStr]| numbers.extend(list.iter().filter_map(|text| texts.find(text)));
            match at {
                at if at == List::Names as usize => match is_of_all_names {
                    true => {}
                    false => like.iter().for_each(|rule| add(&rule.resource_names)),
                },
                // A list that covers everything is not held.
                at if covers_all.get(at) == Some(&true) => {}
                _ => add(list),
            }
            numbers[start..].sort_unstable();
            let mut kept = start;
            for at in start..numbers.len() {
                if at == start || numbers[at] != numbers[kept - 1] {
                    numbers[kept] = numbers[at];
                    kept += 1;
                }
            }
            numbers.truncate(kept);
            ends[at] = u32::try_from(kept).unwrap_or(u32::MAX);
        }
        Rule { ends, covers_all }
    }
}

/// The bit of `text` among 64, by its hash.
fn bit(text: &str) -> u64 {
    1 << (BuildHasherDefault::<DefaultHasher>::default().hash_one(text) % 64)
}

/// A filter before the rules of a role, by the resources that they name (a Bloom filter of one hash). It lets through
/// every request that a rule allows, and some others.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sieve {
    /// The bit of each named resource; all of them where a rule is about every resource or about a part of every one.
    resources: u64,
    has_urls: bool,
}

impl Sieve {
    /// The sieve of `rules`.
    pub fn new(rules: &Rules) -> Sieve {
        let of_text = |text: &str| if text.starts_with("*/") { u64::MAX } else { bit(text) };
        let of = |rule: RuleView<'_>| match rule.rule.covers_all[List::Resources as usize] {
            true => u64::MAX,
            false => {
                let named = rule.list(List::Resources).iter().map(|number| of_text(rules.texts.get(*number)));
                named.fold(0, |bits, of| bits | of)
            }
        };
        Sieve {
            resources: rules.views().fold(0, |bits, rule| bits | of(rule)),
            has_urls: rules.any(|rule| !rule.list(List::Urls).is_empty()),
        }
    }

    /// `false`: no rule allows what `asked` holds.
    pub fn passes(self, asked: &Asked<'_>) -> bool {
        match asked {
            Asked::Path { .. } => self.has_urls,
            Asked::Resource { bit, .. } => self.resources & bit != 0,
        }
    }
}

/// Attributes, prepared for matching.
#[derive(Debug)]
pub enum Asked<'a> {
    /// A request for a resource.
    Resource {
        /// The verb.
        verb: &'a str,
        /// The API group.
        group: &'a str,
        /// Resource and sub-resource, as rules spell them.
        resource: &'a str,
        /// The bit of the resource in a [`Sieve`].
        bit: u64,
        /// The sub-resource of all resources (`*/status`), if any is asked for.
        part: Option<SmolStr>,
        /// The object's name, possibly empty.
        name: &'a str,
    },
    /// A request to a path that names no resource.
    Path {
        /// The verb.
        verb: &'a str,
        /// The path.
        path: &'a str,
    },
}

impl<'a> Asked<'a> {
    /// Prepares `attributes`. `qualified` is the resource as rules spell it.
    pub fn new(attributes: Attributes<'a>, qualified: &'a str) -> Self {
        match attributes {
            Attributes::Path { verb, path } => Asked::Path { verb, path },
            Attributes::Resource(asked) => Asked::Resource {
                verb: asked.verb,
                group: asked.group,
                resource: qualified,
                bit: bit(qualified),
                part: Some(asked.subresource)
                    .filter(|part| !part.is_empty())
                    .map(|part| format_smolstr!("*/{part}")),
                name: asked.name,
            },
        }
    }
}

/// Whether the path of a rule covers `path`.
fn covers_path(rule: &str, path: &str) -> bool {
    rule == path || rule.strip_suffix(ALL).is_some_and(|beginning| path.starts_with(beginning))
}
