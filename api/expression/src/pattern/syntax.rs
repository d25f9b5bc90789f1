//! The syntax of patterns: that of RE2, which the reference's expressions have.
//!
//! Owns the differences between RE2 and the library's parser. `\w`, `\d`, `\s` and `\b` are those of ASCII in RE2, and those
//! of Unicode, with hundreds of ranges, in the library: they are replaced in the syntax tree. Repetitions of repetitions
//! (`a**`), more than a thousand of them and flags that RE2 does not have are refused. Faults have the reference's texts.
//! Differences in the text are [`super::re2`]'s: so nothing is left of the set operations that the library has in classes.

use std::sync::Arc;

use regex_syntax::ast::parse::Parser;
use regex_syntax::ast::{
    Assertion, AssertionKind, Ast, ClassBracketed, ClassPerl, ClassPerlKind, ClassSet, ClassSetItem,
    ClassSetRange, ClassSetUnion, ErrorKind, Flag, Flags, FlagsItem, FlagsItemKind, Group, GroupKind,
    Literal, LiteralKind, Repetition, RepetitionKind, RepetitionRange, Span,
};

/// Most times that a repetition, with those inside of it, may ask for, as in RE2.
const REPEAT_MAX: u32 = 1000;

/// The syntax tree of `pattern`.
///
/// # Errors
/// It is no pattern of RE2; the text says why and where.
pub(super) fn parse(pattern: &str) -> Result<Ast, Arc<str>> {
    let mut syntax = Parser::new().parse(pattern).map_err(|error| {
        let place = match error.kind() {
            ErrorKind::GroupUnclosed | ErrorKind::GroupUnopened => pattern,
            ErrorKind::EscapeUnexpectedEof => "",
            ErrorKind::RepetitionMissing => operator(pattern, error.span()),
            _ => part(pattern, error.span()),
        };
        fault(name(error.kind()), place)
    })?;
    reduce(&mut syntax, pattern)?;
    Ok(syntax)
}

/// The text of a fault at `place`, a part of the pattern.
pub(super) fn fault(name: &str, place: &str) -> Arc<str> {
    format!("{name}: `{place}`").into()
}

/// The part of the pattern that `span` covers.
pub(super) fn part<'a>(pattern: &'a str, span: &Span) -> &'a str {
    pattern.get(span.start.offset..span.end.offset).unwrap_or(pattern)
}

/// The sign at the beginning of `span`, which is empty.
fn operator<'a>(pattern: &'a str, span: &Span) -> &'a str {
    let rest = pattern.get(span.start.offset..).unwrap_or_default();
    rest.split_at_checked(1).map_or(rest, |(sign, _)| sign)
}

/// The reference's name of a fault.
fn name(kind: &ErrorKind) -> &'static str {
    match kind {
        ErrorKind::ClassUnclosed => "missing closing ]",
        ErrorKind::ClassRangeInvalid | ErrorKind::ClassRangeLiteral | ErrorKind::UnicodeClassInvalid => {
            "invalid character class range"
        }
        ErrorKind::GroupUnclosed => "missing closing )",
        ErrorKind::GroupUnopened => "unexpected )",
        ErrorKind::GroupNameDuplicate { .. }
        | ErrorKind::GroupNameEmpty
        | ErrorKind::GroupNameInvalid
        | ErrorKind::GroupNameUnexpectedEof => "invalid named capture",
        ErrorKind::RepetitionMissing => "missing argument to repetition operator",
        ErrorKind::RepetitionCountInvalid
        | ErrorKind::RepetitionCountDecimalEmpty
        | ErrorKind::RepetitionCountUnclosed
        | ErrorKind::DecimalEmpty
        | ErrorKind::DecimalInvalid => "invalid repeat count",
        ErrorKind::EscapeUnexpectedEof => "trailing backslash at end of expression",
        ErrorKind::FlagDanglingNegation
        | ErrorKind::FlagDuplicate { .. }
        | ErrorKind::FlagRepeatedNegation { .. }
        | ErrorKind::FlagUnexpectedEof
        | ErrorKind::FlagUnrecognized
        | ErrorKind::UnsupportedLookAround => "invalid or unsupported Perl syntax",
        ErrorKind::NestLimitExceeded(_) => "expression nests too deeply",
        // Escapes of several forms, and kinds of later versions.
        _ => "invalid escape sequence",
    }
}

/// Turns the library's syntax into that of RE2, and returns the times that nested repetitions ask for together. It
/// recurses as deeply as the parser lets syntax nest.
fn reduce(syntax: &mut Ast, pattern: &str) -> Result<u32, Arc<str>> {
    let most = |parts: &mut [Ast]| {
        parts.iter_mut().try_fold(1, |most, part| reduce(part, pattern).map(|times| times.max(most)))
    };
    match syntax {
        Ast::Empty(_) | Ast::Literal(_) | Ast::Dot(_) | Ast::ClassUnicode(_) => {}
        Ast::Flags(set) => check_flags(&set.flags, pattern)?,
        Ast::ClassPerl(class) => *syntax = Ast::class_bracketed(ascii_class(class)),
        Ast::Assertion(assertion) => {
            if let Some(border) = ascii_border(assertion) {
                *syntax = border;
            }
        }
        Ast::ClassBracketed(class) => reduce_set(&mut class.kind),
        Ast::Repetition(repetition) => {
            let inner = reduce(&mut repetition.ast, pattern)?;
            return repeated(repetition, pattern, inner);
        }
        Ast::Group(group) => {
            if let GroupKind::NonCapturing(flags) = &group.kind {
                check_flags(flags, pattern)?;
            }
            return reduce(&mut group.ast, pattern);
        }
        Ast::Alternation(any) => return most(&mut any.asts),
        Ast::Concat(all) => return most(&mut all.asts),
    }
    Ok(1)
}

fn check_flags(flags: &Flags, pattern: &str) -> Result<(), Arc<str>> {
    let is_foreign = |item: &FlagsItem| match &item.kind {
        FlagsItemKind::Flag(Flag::Unicode | Flag::CRLF | Flag::IgnoreWhitespace) => true,
        FlagsItemKind::Negation
        | FlagsItemKind::Flag(
            Flag::CaseInsensitive | Flag::MultiLine | Flag::DotMatchesNewLine | Flag::SwapGreed,
        ) => false,
    };
    // few: a flag stands there once.
    if flags.items.iter().any(is_foreign) {
        return Err(fault("invalid or unsupported Perl syntax", part(pattern, &flags.span)));
    }
    Ok(())
}

/// The times that a repetition asks for, together with those inside of it.
fn repeated(repetition: &Repetition, pattern: &str, inner: u32) -> Result<u32, Arc<str>> {
    if let Ast::Repetition(inner) = &*repetition.ast {
        let both = Span::new(inner.op.span.start, repetition.op.span.end);
        return Err(fault("invalid nested repetition operator", part(pattern, &both)));
    }
    let most = match &repetition.op.kind {
        RepetitionKind::ZeroOrOne | RepetitionKind::ZeroOrMore | RepetitionKind::OneOrMore => 1,
        RepetitionKind::Range(RepetitionRange::Exactly(most) | RepetitionRange::AtLeast(most)) => *most,
        RepetitionKind::Range(RepetitionRange::Bounded(_, most)) => *most,
    };
    let times = most.max(1).saturating_mul(inner);
    if times > REPEAT_MAX {
        return Err(fault("invalid repeat count", part(pattern, &repetition.op.span)));
    }
    Ok(times)
}

fn reduce_set(set: &mut ClassSet) {
    match set {
        ClassSet::Item(item) => reduce_item(item),
        ClassSet::BinaryOp(operation) => {
            reduce_set(&mut operation.lhs);
            reduce_set(&mut operation.rhs);
        }
    }
}

fn reduce_item(item: &mut ClassSetItem) {
    match item {
        ClassSetItem::Empty(_)
        | ClassSetItem::Literal(_)
        | ClassSetItem::Range(_)
        | ClassSetItem::Ascii(_)
        | ClassSetItem::Unicode(_) => {}
        ClassSetItem::Perl(class) => *item = ClassSetItem::Bracketed(Box::new(ascii_class(class))),
        ClassSetItem::Bracketed(class) => reduce_set(&mut class.kind),
        ClassSetItem::Union(union) => union.items.iter_mut().for_each(reduce_item),
    }
}

/// `[0-9A-Za-z_]` for `\w`, and the like. As in RE2, `(?i)` adds the two characters outside of ASCII that have another case
/// inside of it, and `\s` has no vertical tab.
fn ascii_class(class: &ClassPerl) -> ClassBracketed {
    let ranges: &[(char, char)] = match class.kind {
        ClassPerlKind::Digit => &[('0', '9')],
        ClassPerlKind::Space => &[('\t', '\n'), ('\x0c', '\r'), (' ', ' ')],
        ClassPerlKind::Word => &[('0', '9'), ('A', 'Z'), ('_', '_'), ('a', 'z')],
    };
    let literal = |c: char| Literal { span: class.span, kind: LiteralKind::Verbatim, c };
    let range = |&(start, end): &(char, char)| {
        ClassSetItem::Range(ClassSetRange { span: class.span, start: literal(start), end: literal(end) })
    };
    let union = ClassSetUnion { span: class.span, items: ranges.iter().map(range).collect() };
    let kind = ClassSet::Item(ClassSetItem::Union(union));
    ClassBracketed { span: class.span, negated: class.negated, kind }
}

/// `(?-u:\b)` for `\b`, and the like.
fn ascii_border(assertion: &Assertion) -> Option<Ast> {
    match assertion.kind {
        AssertionKind::StartLine
        | AssertionKind::EndLine
        | AssertionKind::StartText
        | AssertionKind::EndText => return None,
        AssertionKind::WordBoundary
        | AssertionKind::NotWordBoundary
        | AssertionKind::WordBoundaryStart
        | AssertionKind::WordBoundaryEnd
        | AssertionKind::WordBoundaryStartAngle
        | AssertionKind::WordBoundaryEndAngle
        | AssertionKind::WordBoundaryStartHalf
        | AssertionKind::WordBoundaryEndHalf => {}
    }
    let span = assertion.span;
    let item = |kind: FlagsItemKind| FlagsItem { span, kind };
    let items = vec![item(FlagsItemKind::Negation), item(FlagsItemKind::Flag(Flag::Unicode))];
    let kind = GroupKind::NonCapturing(Flags { span, items });
    Some(Ast::group(Group { span, kind, ast: Box::new(Ast::assertion(assertion.clone())) }))
}
