//! Texts. All positions count characters.

use orch_schema::excerpt::is_printable;

use crate::error::{Failure, fault, no_overload};
use crate::evaluate::{Outcome, Run};
use crate::length;
use crate::pattern::{self, Pattern};
use crate::value::{List, Text, Val};

fn out_of_range(at: i64) -> Failure {
    fault(format!("index out of range: {at}"))
}

/// Takes the ticks of a search, which compares some pairs of bytes more than once.
fn search_steps(run: &mut Run<'_>, text: &str, wanted: &str) -> Result<(), Failure> {
    run.read_bytes(text.len().saturating_add(wanted.len()).saturating_mul(4))
}

pub(crate) fn contains<'v>(run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    let [Val::Text(text), Val::Text(wanted)] = arguments else { return Err(no_overload()) };
    search_steps(run, text, wanted)?;
    Ok(Val::Bool(text.contains(&**wanted)))
}

pub(crate) fn starts_with<'v>(_run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    let [Val::Text(text), Val::Text(wanted)] = arguments else { return Err(no_overload()) };
    Ok(Val::Bool(text.starts_with(&**wanted)))
}

pub(crate) fn ends_with<'v>(_run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    let [Val::Text(text), Val::Text(wanted)] = arguments else { return Err(no_overload()) };
    Ok(Val::Bool(text.ends_with(&**wanted)))
}

/// A pattern that is known in the evaluation only, compiled for `text`.
fn compiled(run: &mut Run<'_>, text: &str, source: &str, finds: bool) -> Result<Pattern, Failure> {
    run.match_steps(pattern::UNKNOWN_COMPILE_STEPS)?;
    let compiled =
        if finds { Pattern::compile_unknown_to_find(source) } else { Pattern::compile_unknown(source) };
    let pattern = compiled.map_err(|reason| {
        fault(if finds { format!("Illegal regex: {reason}") } else { reason.to_string() })
    })?;
    run.match_steps(pattern::steps(pattern.steps_of_byte(), length(text.len())))?;
    Ok(pattern)
}

pub(crate) fn matches<'v>(run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    let [Val::Text(text), Val::Text(source)] = arguments else { return Err(no_overload()) };
    Ok(Val::Bool(compiled(run, text, source, false)?.is_match(text)))
}

pub(crate) fn find<'v>(run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    let [Val::Text(text), Val::Text(source)] = arguments else { return Err(no_overload()) };
    let pattern = compiled(run, text, source, true)?;
    find_in(run, text, &pattern)
}

/// The first match of a standing `pattern` in `text`, or the empty text.
pub(crate) fn find_standing<'v>(run: &mut Run<'v>, text: &str, pattern: &Pattern) -> Outcome<'v> {
    run.match_steps(pattern::steps(pattern.steps_of_byte(), length(text.len())))?;
    find_in(run, text, pattern)
}

/// At most `most` matches of a standing `pattern` in `text`; all of a negative number.
pub(crate) fn find_all_standing<'v>(
    run: &mut Run<'v>,
    text: &str,
    pattern: &Pattern,
    most: i64,
) -> Outcome<'v> {
    run.match_steps(pattern::steps(pattern.steps_of_byte(), length(text.len())))?;
    find_all_in(run, text, pattern, most)
}

fn find_in<'v>(run: &mut Run<'v>, text: &str, pattern: &Pattern) -> Outcome<'v> {
    let found = pattern.find_at(text, 0).map_or("", |(start, end)| &text[start..end]);
    run.make_bytes(found.len())?;
    Ok(Val::text(found))
}

pub(crate) fn find_all<'v>(run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    let (text, source, most) = match arguments {
        [Val::Text(text), Val::Text(source)] => (text, source, -1),
        [Val::Text(text), Val::Text(source), Val::Int(most)] => (text, source, *most),
        _ => return Err(no_overload()),
    };
    let pattern = compiled(run, text, source, true)?;
    find_all_in(run, text, &pattern, most)
}

fn find_all_in<'v>(run: &mut Run<'v>, text: &str, pattern: &Pattern, most: i64) -> Outcome<'v> {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let (mut found, mut at, mut behind) = (Vec::new(), 0, None);
    while found.len() < most && at <= text.len() {
        let steps = |bytes: usize| pattern::steps(pattern.steps_of_byte(), length(bytes));
        // A search may look at the whole rest, and mostly ends before.
        run.has_match_steps(steps(text.len() - at))?;
        let match_found = pattern.find_at(text, at);
        run.match_steps(steps(pattern.looked_at(at, match_found, text.len())))?;
        let Some((start, end)) = match_found else { break };
        // An empty match behind a match does not count.
        if start != end || behind != Some(start) {
            run.make_values(1)?;
            run.make_bytes(end - start)?;
            found.push(Val::text(&text[start..end]));
        }
        behind = Some(end);
        let step = if start == end { text[end..].chars().next().map_or(1, char::len_utf8) } else { 0 };
        at = end + step;
    }
    Ok(Val::list(found))
}

/// The place in bytes of the character at `at`; that behind the last one for the number of characters.
fn place(text: &str, at: i64) -> Option<usize> {
    let at = usize::try_from(at).ok()?;
    if text.is_ascii() {
        return (at <= text.len()).then_some(at);
    }
    text.char_indices().map(|(place, _)| place).chain([text.len()]).nth(at)
}

pub(crate) fn char_at<'v>(run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    let [Val::Text(text), Val::Int(at)] = arguments else { return Err(no_overload()) };
    run.read_bytes(text.len())?;
    let start = place(text, *at).ok_or_else(|| out_of_range(*at))?;
    Ok(Val::text(text[start..].chars().next().map(String::from).unwrap_or_default()))
}

/// The characters before the byte at `at`.
fn characters_before(text: &str, at: usize) -> Val<'static> {
    Val::Int(i64::try_from(text[..at].chars().count()).unwrap_or(i64::MAX))
}

pub(crate) fn index_of<'v>(run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    match arguments {
        [Val::Text(text), Val::Text(wanted)] => {
            search_steps(run, text, wanted)?;
            Ok(text.find(&**wanted).map_or(Val::Int(-1), |at| characters_before(text, at)))
        }
        [Val::Text(text), Val::Text(wanted), Val::Int(from)] => {
            search_steps(run, text, wanted)?;
            // So in the reference, also where there is no such place.
            if wanted.is_empty() {
                return Ok(Val::Int(*from));
            }
            if *from < 0 {
                return Err(out_of_range(*from));
            }
            let found = place(text, *from).and_then(|from| Some(from + text[from..].find(&**wanted)?));
            Ok(found.map_or(Val::Int(-1), |at| characters_before(text, at)))
        }
        [Val::List(list), wanted] => index_in(run, list, wanted, false),
        _ => Err(no_overload()),
    }
}

pub(crate) fn last_index_of<'v>(run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    match arguments {
        [Val::Text(text), Val::Text(wanted)] => {
            search_steps(run, text, wanted)?;
            Ok(text.rfind(&**wanted).map_or(Val::Int(-1), |at| characters_before(text, at)))
        }
        [Val::Text(text), Val::Text(wanted), Val::Int(from)] => {
            search_steps(run, text, wanted)?;
            // So in the reference, also where there is no such place.
            if wanted.is_empty() {
                return Ok(Val::Int(*from));
            }
            if *from < 0 {
                return Err(out_of_range(*from));
            }
            // The match begins at the offset or before it.
            let from = place(text, *from).filter(|at| *at < text.len());
            let end = from.map(|from| text.floor_char_boundary(from + wanted.len()));
            let found = end.and_then(|end| text[..end].rfind(&**wanted));
            Ok(found.map_or(Val::Int(-1), |at| characters_before(text, at)))
        }
        [Val::List(list), wanted] => index_in(run, list, wanted, true),
        _ => Err(no_overload()),
    }
}

fn index_in<'v>(run: &mut Run<'v>, list: &List<'v>, wanted: &Val<'v>, is_last: bool) -> Outcome<'v> {
    let mut found = -1;
    for (at, item) in list.iter().enumerate() {
        run.tick(1)?;
        if run.equal(&item, wanted)? {
            found = i64::try_from(at).unwrap_or(i64::MAX);
            if !is_last {
                break;
            }
        }
    }
    Ok(Val::Int(found))
}

fn changed<'v>(run: &mut Run<'v>, arguments: &[Val<'v>], change: fn(&str) -> String) -> Outcome<'v> {
    let [Val::Text(text)] = arguments else { return Err(no_overload()) };
    run.make_bytes(text.len())?;
    Ok(Val::text(change(text)))
}

pub(crate) fn lower_ascii<'v>(run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    changed(run, arguments, str::to_ascii_lowercase)
}

pub(crate) fn upper_ascii<'v>(run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    changed(run, arguments, str::to_ascii_uppercase)
}

pub(crate) fn trim<'v>(run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    changed(run, arguments, |text| text.trim().to_owned())
}

pub(crate) fn substring<'v>(run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    let (text, start, end) = match arguments {
        [Val::Text(text), Val::Int(start)] => (text, *start, None),
        [Val::Text(text), Val::Int(start), Val::Int(end)] => (text, *start, Some(*end)),
        _ => return Err(no_overload()),
    };
    run.make_bytes(text.len())?;
    if let Some(end) = end
        && start > end
    {
        return Err(fault(format!("invalid substring range. start: {start}, end: {end}")));
    }
    let from = place(text, start).ok_or_else(|| out_of_range(start))?;
    let to = match end {
        Some(end) => place(text, end).ok_or_else(|| out_of_range(end))?,
        None => text.len(),
    };
    Ok(Val::text(&text[from..to]))
}

pub(crate) fn replace<'v>(run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    let (text, old, new, most) = match arguments {
        [Val::Text(text), Val::Text(old), Val::Text(new)] => (text, old, new, -1),
        [Val::Text(text), Val::Text(old), Val::Text(new), Val::Int(most)] => (text, old, new, *most),
        _ => return Err(no_overload()),
    };
    search_steps(run, text, old)?;
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let places = text.matches(&**old).take(most).count();
    run.make_bytes(text.len().saturating_add(places.saturating_mul(new.len())))?;
    Ok(Val::text(text.replacen(&**old, new, most)))
}

pub(crate) fn split<'v>(run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    let (text, separator, most) = match arguments {
        [Val::Text(text), Val::Text(separator)] => (text, separator, -1),
        [Val::Text(text), Val::Text(separator), Val::Int(most)] => (text, separator, *most),
        _ => return Err(no_overload()),
    };
    search_steps(run, text, separator)?;
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    run.make_bytes(text.len())?;
    run.make_values(parts(text, separator, most).count())?;
    Ok(match text {
        Text::Borrowed(text) => {
            // The parts are lent where the whole is.
            Val::list(parts(text, separator, most).map(|part| Val::Text(Text::Borrowed(part))).collect())
        }
        Text::Shared(text) => Val::list(parts(text, separator, most).map(Val::text).collect()),
    })
}

/// At most `most` parts, the last of which is the rest.
fn parts<'t>(text: &'t str, separator: &str, most: usize) -> Box<dyn Iterator<Item = &'t str> + 't> {
    if most == 0 || text.is_empty() && separator.is_empty() {
        return Box::new(std::iter::empty());
    }
    if !separator.is_empty() {
        return Box::new(text.splitn(most, &*separator.to_owned()).collect::<Vec<_>>().into_iter());
    }
    let mut starts: Vec<usize> = text.char_indices().map(|(at, _)| at).take(most).collect();
    starts.push(text.len());
    Box::new((0..starts.len() - 1).map(move |at| &text[starts[at]..starts[at + 1]]))
}

pub(crate) fn join<'v>(run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    let (list, separator) = match arguments {
        [Val::List(list)] => (list, ""),
        [Val::List(list), Val::Text(separator)] => (list, &**separator),
        _ => return Err(no_overload()),
    };
    let mut joined = String::new();
    for (at, item) in list.iter().enumerate() {
        let Val::Text(text) = &item else { return Err(fault(format!("join: invalid input: {item}"))) };
        run.tick(1)?;
        run.make_bytes(text.len().saturating_add(separator.len()))?;
        if at > 0 {
            joined.push_str(separator);
        }
        joined.push_str(text);
    }
    Ok(Val::text(joined))
}

pub(crate) fn quote<'v>(run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    let [Val::Text(text)] = arguments else { return Err(no_overload()) };
    run.make_bytes(text.len().saturating_mul(2).saturating_add(2))?;
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    text.chars().for_each(|letter| push_escaped(letter, &mut quoted));
    quoted.push('"');
    Ok(Val::text(quoted))
}

/// Adds a letter as it stands between quotes.
fn push_escaped(letter: char, out: &mut String) {
    match letter {
        '\u{7}' => out.push_str("\\a"),
        '\u{8}' => out.push_str("\\b"),
        '\u{c}' => out.push_str("\\f"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        '\u{b}' => out.push_str("\\v"),
        '\\' => out.push_str("\\\\"),
        '"' => out.push_str("\\\""),
        other => out.push(other),
    }
}

/// Adds `text` in quotes, with letters that are not printed as their numbers.
pub(super) fn push_quoted(text: &str, out: &mut String) {
    out.push('"');
    for letter in text.chars() {
        let number = u32::from(letter);
        match letter {
            '\u{7}'..='\u{d}' | '"' | '\\' => push_escaped(letter, out),
            '\0'..='\u{1f}' | '\u{7f}' => out.push_str(&format!("\\x{number:02x}")),
            other if is_printable(other) => out.push(other),
            _ if number <= 0xffff => out.push_str(&format!("\\u{number:04x}")),
            _ => out.push_str(&format!("\\U{number:08x}")),
        }
    }
    out.push('"');
}
