//! The price of compiling a pattern, from its syntax.
//!
//! Owns the price list: one constant for each kind of work, each measured by the benchmark `price`. The syntax is parsed
//! first, at a price for each byte of text; what follows it (classes as sets of characters, their folding in patterns that
//! ignore case, the automaton) may take ten thousand times as long, and is priced here before it begins.
//! Invariant: the price is never less than half of the time.

use regex_syntax::ast::{
    Ast, ClassBracketed, ClassSet, ClassSetItem, ClassUnicode, ClassUnicodeKind, Flag, Flags, FlagsItemKind,
    GroupKind, RepetitionKind, RepetitionRange,
};

/// Steps of parsing a byte of text.
pub(super) const STEPS_OF_TEXT_BYTE: u64 = 3;
/// Steps of a node of the syntax, and of an item of a class that is one character or a range.
const NODE_STEPS: u64 = 4;
/// Steps of a class with a name, as a set of characters: several hundred ranges.
const NAMED_STEPS: u64 = 60;
/// The same as an item of another class, which is sorted anew for it.
const NAMED_ITEM_STEPS: u64 = 300;
/// Characters, the first ones, nearly each of which has another case.
const CASED_CHARS: u64 = 16 << 10;
/// Characters of the classes of letters, numbers, marks, punctuation, separators and symbols, or fewer; most are of
/// scripts without cases, which are passed over.
pub(super) const NAMED_CHARS: u64 = 8 << 10;
/// Names of other classes that have no more of them: general categories, and scripts that patterns name.
pub(super) const SMALL: [&str; 38] = [
    "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf",
    "Po", "Sm", "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Arabic", "Armenian", "Cyrillic", "Georgian",
    "Greek", "Han", "Hangul", "Hebrew", "Hiragana", "Katakana", "Latin",
];
/// All characters.
const ALL_CHARS: u64 = 0x11_0000;
/// Characters that are folded in ten steps, of the first ones.
const CASED_CHARS_PER_TEN_STEPS: u64 = 27;
/// The same of the others.
const OTHER_CHARS_PER_TEN_STEPS: u64 = 110;
/// Steps of the tables for the first class of an automaton.
const FIRST_CLASS_STEPS: u64 = 350;
/// Bytes of automaton that are made in ten steps.
const AUTOMATON_BYTES_PER_TEN_STEPS: u64 = 100;
/// Bytes of a state.
const STATE_BYTES: u64 = 32;
/// Bytes of a class.
const CLASS_BYTES: u64 = 280;
/// Bytes of an item of a class that is one character, or a range within ASCII.
const ITEM_BYTES: u64 = 16;
/// Bytes of an item that is a range: it is up to four sequences of bytes.
const RANGE_BYTES: u64 = 200;
/// Bytes of a class with a name.
const NAMED_BYTES: u64 = 20 << 10;

/// Steps of parsing the text of a pattern.
pub(super) fn of_text(pattern: &str) -> u64 {
    length(pattern.len()).saturating_add(1).saturating_mul(STEPS_OF_TEXT_BYTE)
}

/// Steps of making an automaton of at most `bytes_max` bytes from the syntax.
pub(super) fn of_syntax(syntax: &Ast, bytes_max: usize) -> u64 {
    let mut walk = Walk { folds: folds(syntax), steps: 0, classes: 0 };
    let bytes = walk.node(syntax).min(length(bytes_max));
    let automaton = bytes.saturating_mul(10) / AUTOMATON_BYTES_PER_TEN_STEPS;
    let first_class = if walk.classes == 0 { 0 } else { FIRST_CLASS_STEPS };
    walk.steps.saturating_add(automaton).saturating_add(first_class)
}

/// A walk over the syntax. It recurses as deeply as the parser lets syntax nest.
struct Walk {
    /// Whether the pattern ignores case somewhere: it counts as if everywhere.
    folds: bool,
    steps: u64,
    classes: u64,
}

impl Walk {
    fn count(&mut self, steps: u64) {
        self.steps = self.steps.saturating_add(steps);
    }

    /// Bytes of the automaton of a node, whose other steps are counted.
    fn node(&mut self, node: &Ast) -> u64 {
        self.count(NODE_STEPS);
        match node {
            Ast::Empty(_) | Ast::Flags(_) | Ast::Assertion(_) => STATE_BYTES,
            // The other cases of a letter are found while the set of it is made.
            Ast::Literal(_) if self.folds => self.class(4 * STATE_BYTES),
            Ast::Literal(_) => 4 * STATE_BYTES,
            Ast::Dot(_) => self.class(CLASS_BYTES),
            // The syntax has none: they are replaced by their characters.
            Ast::ClassPerl(_) => self.class(CLASS_BYTES),
            Ast::ClassUnicode(class) => {
                let items = self.unicode(class, NAMED_STEPS);
                self.class(items.bytes)
            }
            Ast::ClassBracketed(class) => {
                let items = self.bracketed(class);
                // Of characters of one byte each it is one state.
                let is_state = items.is_ascii && !self.folds;
                let bytes = if is_state { STATE_BYTES } else { CLASS_BYTES };
                self.class(bytes.saturating_add(items.bytes))
            }
            Ast::Repetition(repetition) => {
                let bytes = self.node(&repetition.ast).saturating_add(STATE_BYTES);
                bytes.saturating_mul(times(&repetition.op.kind))
            }
            Ast::Group(group) => self.node(&group.ast),
            Ast::Alternation(any) => self.all(&any.asts),
            Ast::Concat(all) => self.all(&all.asts),
        }
    }

    fn all(&mut self, nodes: &[Ast]) -> u64 {
        nodes
            .iter()
            .fold(STATE_BYTES, |sum, node| sum.saturating_add(self.node(node)).saturating_add(STATE_BYTES))
    }

    fn class(&mut self, bytes: u64) -> u64 {
        self.classes = self.classes.saturating_add(1);
        bytes
    }

    /// Counts finding the other cases of all characters in `items`, unless they are in it already.
    fn fold(&mut self, items: Items) -> Items {
        if self.folds && !items.is_folded {
            let (cased, others) =
                (items.chars.min(CASED_CHARS), items.chars.saturating_sub(CASED_CHARS).min(ALL_CHARS));
            self.count(cased * 10 / CASED_CHARS_PER_TEN_STEPS);
            self.count(others * 10 / OTHER_CHARS_PER_TEN_STEPS);
        }
        Items { is_folded: true, ..items }
    }

    fn bracketed(&mut self, class: &ClassBracketed) -> Items {
        let items = self.set(&class.kind);
        let items = self.fold(items);
        if class.negated { items.negated() } else { items }
    }

    fn set(&mut self, set: &ClassSet) -> Items {
        match set {
            ClassSet::Item(item) => self.item(item),
            ClassSet::BinaryOp(operation) => {
                let (one, other) = (self.set(&operation.lhs), self.set(&operation.rhs));
                let (one, other) = (self.fold(one), self.fold(other));
                self.count(NAMED_ITEM_STEPS);
                one.with(other)
            }
        }
    }

    fn item(&mut self, item: &ClassSetItem) -> Items {
        self.count(NODE_STEPS);
        match item {
            ClassSetItem::Empty(_) => Items::default(),
            ClassSetItem::Literal(one) => Items::of_range(one.c, one.c),
            ClassSetItem::Range(range) => Items::of_range(range.start.c, range.end.c),
            ClassSetItem::Ascii(class) => {
                let items = self.fold(Items::of_named_ascii());
                if class.negated { items.negated() } else { items }
            }
            ClassSetItem::Perl(_) => Items::of_named_ascii(),
            ClassSetItem::Unicode(class) => self.unicode(class, NAMED_ITEM_STEPS),
            ClassSetItem::Bracketed(class) => self.bracketed(class),
            ClassSetItem::Union(union) => union.items.iter().fold(Items::default(), |all, item| {
                let item = self.item(item);
                all.with(item)
            }),
        }
    }

    /// A class with a name. Its other cases are looked for before it is turned around.
    fn unicode(&mut self, class: &ClassUnicode, steps: u64) -> Items {
        self.count(steps);
        let items =
            Items { chars: chars_of(class), bytes: NAMED_BYTES, named: 1, is_folded: false, is_ascii: false };
        let items = self.fold(items);
        if class.is_negated() { items.negated() } else { items }
    }
}

/// The content of a class.
#[derive(Clone, Copy, Debug)]
struct Items {
    /// Characters whose other cases are looked for.
    chars: u64,
    /// Bytes of automaton.
    bytes: u64,
    /// Classes with names.
    named: u64,
    /// Whether the other cases of all characters are in it. The library then looks for none.
    is_folded: bool,
    /// Whether it has no characters outside of ASCII.
    is_ascii: bool,
}

/// Nothing.
impl Default for Items {
    fn default() -> Items {
        Items { chars: 0, bytes: 0, named: 0, is_folded: true, is_ascii: true }
    }
}

impl Items {
    fn of_range(start: char, end: char) -> Items {
        let chars = u64::from(u32::from(end)).saturating_sub(u32::from(start).into()).saturating_add(1);
        let is_ascii = end.is_ascii();
        let bytes = if is_ascii || chars == 1 { ITEM_BYTES } else { RANGE_BYTES };
        Items { chars, bytes, named: 0, is_folded: false, is_ascii }
    }

    /// A class with a name in `[[: :]]`: four ranges at most.
    fn of_named_ascii() -> Items {
        Items { chars: 128, bytes: ITEM_BYTES * 4, named: 0, is_folded: false, is_ascii: true }
    }

    fn with(self, other: Items) -> Items {
        let named = self.named.saturating_add(other.named);
        // Two classes together, one of which may be what the other is not, close the gaps that are passed over.
        let chars = if named > 1 { ALL_CHARS } else { self.chars.saturating_add(other.chars) };
        // Together they are no larger than the ranges that all characters fall into.
        let bytes = self.bytes.saturating_add(other.bytes).min(NAMED_BYTES * 2);
        let is_folded = self.is_folded && other.is_folded;
        Items { chars, bytes, named, is_folded, is_ascii: self.is_ascii && other.is_ascii }
    }

    fn negated(self) -> Items {
        Items { chars: ALL_CHARS, is_ascii: false, ..self }
    }
}

/// Characters of a class with a name whose other cases are looked for, before it is turned around.
fn chars_of(class: &ClassUnicode) -> u64 {
    match &class.kind {
        ClassUnicodeKind::OneLetter('L' | 'M' | 'N' | 'P' | 'S' | 'Z') => NAMED_CHARS,
        // few: of constants.
        ClassUnicodeKind::Named(name) if SMALL.contains(&name.as_str()) => NAMED_CHARS,
        ClassUnicodeKind::OneLetter(_) | ClassUnicodeKind::Named(_) | ClassUnicodeKind::NamedValue { .. } => {
            ALL_CHARS
        }
    }
}

fn times(kind: &RepetitionKind) -> u64 {
    match kind {
        RepetitionKind::ZeroOrOne | RepetitionKind::ZeroOrMore => 1,
        RepetitionKind::OneOrMore => 2,
        RepetitionKind::Range(RepetitionRange::Exactly(times)) => u64::from(*times).max(1),
        RepetitionKind::Range(RepetitionRange::AtLeast(times)) => u64::from(*times).saturating_add(1),
        RepetitionKind::Range(RepetitionRange::Bounded(_, most)) => u64::from(*most).max(1),
    }
}

/// Whether the pattern ignores case somewhere.
fn folds(node: &Ast) -> bool {
    match node {
        Ast::Flags(set) => ignore_case(&set.flags),
        Ast::Group(group) => {
            let own = matches!(&group.kind, GroupKind::NonCapturing(flags) if ignore_case(flags));
            own || folds(&group.ast)
        }
        Ast::Repetition(repetition) => folds(&repetition.ast),
        // few: the parts of one node.
        Ast::Alternation(any) => any.asts.iter().any(folds),
        // few: the parts of one node.
        Ast::Concat(all) => all.asts.iter().any(folds),
        Ast::Empty(_)
        | Ast::Literal(_)
        | Ast::Dot(_)
        | Ast::Assertion(_)
        | Ast::ClassUnicode(_)
        | Ast::ClassPerl(_)
        | Ast::ClassBracketed(_) => false,
    }
}

fn ignore_case(flags: &Flags) -> bool {
    let is_of_case = |kind: &FlagsItemKind| *kind == FlagsItemKind::Flag(Flag::CaseInsensitive);
    // few: a flag stands there once.
    flags.items.iter().any(|item| is_of_case(&item.kind))
}

fn length(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}
