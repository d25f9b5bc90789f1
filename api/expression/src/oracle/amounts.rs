//! Quantities and versions, from their texts.
//!
//! Owns what the definition says of them: a quantity is a sign, a decimal and a suffix, rounded away from zero to nano-units and cut at
//! 2^63 - 1; it is an integer where the reference holds it as one. A version has the rules of semver 2.

use std::cmp::Ordering;

use super::calls::{Called, scan};
use super::plain::{Plain, Version};

const NANO: i128 = 1_000_000_000;
/// The largest quantity, in nano-units.
const MOST: i128 = i64::MAX as i128 * NANO;
const SUFFIXES: [(&str, i128, i128); 16] = [
    ("", NANO, 1),
    ("n", 1, 1),
    ("u", 1000, 1),
    ("m", 1_000_000, 1),
    ("k", NANO, 1000),
    ("M", NANO, 1_000_000),
    ("G", NANO, NANO),
    ("T", NANO, NANO * 1000),
    ("P", NANO, NANO * 1_000_000),
    ("E", NANO, NANO * NANO),
    ("Ki", NANO, 1 << 10),
    ("Mi", NANO, 1 << 20),
    ("Gi", NANO, 1 << 30),
    ("Ti", NANO, 1 << 40),
    ("Pi", NANO, 1 << 50),
    ("Ei", NANO, 1 << 60),
];

/// The nano-units of a quantity's text. Numbers without a digit are zero.
fn amount(text: &str) -> Result<i128, String> {
    let format =
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
    if text.is_empty() {
        return Err(format.to_owned());
    }
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let (whole, rest) = unsigned.split_at(digits(unsigned));
    let (fraction, suffix) = match rest.strip_prefix('.') {
        Some(rest) => rest.split_at(digits(rest)),
        None => ("", rest),
    };
    let behind_letters = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
    let behind_sign = behind_letters.strip_prefix(['+', '-']).unwrap_or(behind_letters);
    if behind_sign.bytes().any(|byte| !byte.is_ascii_digit()) {
        return Err(format.to_owned());
    }
    let known = SUFFIXES.iter().find(|(name, ..)| *name == suffix).map(|(_, unit, times)| (*unit, *times));
    let (unit, times, power) = match (known, suffix.strip_prefix(['e', 'E'])) {
        (Some((unit, times)), _) => (unit, times, 0),
        (None, Some(exponent)) => match exponent.parse::<i32>() {
            Ok(power) => (NANO, 1, power),
            Err(_) => return Err("unable to parse quantity's suffix".to_owned()),
        },
        (None, None) => return Err("unable to parse quantity's suffix".to_owned()),
    };
    let digits = format!("0{whole}{fraction}");
    let mut scaled = digits.parse::<i128>().unwrap() * unit * times;
    let down = i32::try_from(fraction.len()).unwrap() - power;
    let tens = 10_i128.pow(down.unsigned_abs());
    scaled = if down < 0 { scaled * tens } else { scaled / tens + i128::from(scaled % tens != 0) };
    let scaled = scaled.min(MOST);
    Ok(if text.starts_with('-') { -scaled } else { scaled })
}

/// A version, or the reason why the text is none.
fn version(text: &str) -> Result<Version, String> {
    if text.is_empty() {
        return Err("Version string empty".to_owned());
    }
    let parts: Vec<&str> = text.splitn(3, '.').collect();
    let [major, minor, rest] = parts[..] else {
        return Err("No Major.Minor.Patch elements found".to_owned());
    };
    let (major, minor) = (number("Major", major)?, number("Minor", minor)?);
    let (rest, build) = rest.split_once('+').map_or((rest, None), |(rest, build)| (rest, Some(build)));
    let (patch, before) = rest.split_once('-').map_or((rest, None), |(patch, before)| (patch, Some(before)));
    let patch = number("Patch", patch)?;
    let is_word = |part: &str| part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    for part in before.into_iter().flat_map(|before| before.split('.')) {
        if part.is_empty() {
            return Err("Prerelease is empty".to_owned());
        }
        if is_number(part) && part.len() > 1 && part.starts_with('0') {
            return Err(format!("Numeric PreRelease version must not contain leading zeroes {part:?}"));
        }
        if !is_word(part) {
            return Err(format!("Invalid character(s) found in prerelease {part:?}"));
        }
    }
    for part in build.into_iter().flat_map(|build| build.split('.')) {
        if part.is_empty() {
            return Err("Build meta data is empty".to_owned());
        }
        if !is_word(part) {
            return Err(format!("Invalid character(s) found in build meta data {part:?}"));
        }
    }
    let before = before.map(|before| before.split('.').map(str::to_owned).collect()).unwrap_or_default();
    Ok(Version { numbers: [major, minor, patch], before })
}

fn is_number(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

fn number(which: &str, text: &str) -> Result<u64, String> {
    if !is_number(text) {
        return Err(format!("Invalid character(s) found in {} number {text:?}", which.to_ascii_lowercase()));
    }
    if text.len() > 1 && text.starts_with('0') {
        return Err(format!("{which} number must not contain leading zeroes {text:?}"));
    }
    text.parse().map_err(|_| match text {
        "" => "strconv.ParseUint: parsing \"\": invalid syntax".to_owned(),
        _ => format!("strconv.ParseUint: parsing {text:?}: value out of range"),
    })
}

/// A version that need not be whole.
fn normalized(text: &str) -> Result<Version, String> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let mut parts: Vec<String> = text.splitn(3, '.').map(str::to_owned).collect();
    for part in &mut parts {
        if part.len() > 1 {
            let trimmed = part.trim_start_matches('0');
            let zero = if trimmed.starts_with(|c: char| c.is_ascii_digit()) { "" } else { "0" };
            *part = format!("{zero}{trimmed}");
        }
    }
    if parts.len() < 3 && parts.last().is_some_and(|last| last.contains(['-', '+'])) {
        return Err("short version cannot contain PreRelease/Build meta data".to_owned());
    }
    parts.resize(3, "0".to_owned());
    version(&parts.join("."))
}

impl Version {
    /// The order of semver 2: a version is above those that come before it, whose parts are compared one by one.
    pub(super) fn precedence(&self, other: &Version) -> Ordering {
        let numbers = self.numbers.cmp(&other.numbers);
        let has_before = |version: &Version| !version.before.is_empty();
        let part = |one: &String, other: &String| match (one.parse::<u64>(), other.parse::<u64>()) {
            (Ok(one), Ok(other)) => one.cmp(&other),
            (Ok(_), Err(_)) => Ordering::Less,
            (Err(_), Ok(_)) => Ordering::Greater,
            (Err(_), Err(_)) => one.cmp(other),
        };
        numbers.then(has_before(other).cmp(&has_before(self))).then_with(|| {
            let differing = self.before.iter().zip(&other.before).map(|(one, other)| part(one, other));
            let lengths = self.before.len().cmp(&other.before.len());
            differing.into_iter().find(|order| order.is_ne()).unwrap_or(lengths)
        })
    }
}

fn order_of(order: Ordering) -> Called {
    Ok((Plain::Int(order as i64), 1))
}

/// Calls with quantities and versions.
pub(super) fn call(name: &str, arguments: &[Plain]) -> Option<Called> {
    let made = |text: &str, made: Result<Plain, String>| made.map(|value| (value, scan(text)));
    let truth = |holds: bool, cost: u64| Ok((Plain::Bool(holds), cost));
    let sum = |one: i128, other: i128| Ok((Plain::Amount(one + other), 1));
    Some(match (name, arguments) {
        ("quantity", [Plain::Text(text)]) => made(text, amount(text).map(Plain::Amount)),
        ("isQuantity", [Plain::Text(text)]) => truth(amount(text).is_ok(), scan(text)),
        ("semver", [Plain::Text(text)] | [Plain::Text(text), Plain::Bool(false)]) => {
            made(text, version(text).map(Plain::Version))
        }
        ("semver", [Plain::Text(text), _]) => made(text, normalized(text).map(Plain::Version)),
        ("isSemver", [Plain::Text(text)] | [Plain::Text(text), Plain::Bool(false)]) => {
            truth(version(text).is_ok(), scan(text))
        }
        ("isSemver", [Plain::Text(text), _]) => truth(normalized(text).is_ok(), scan(text)),
        ("sign", [Plain::Amount(amount)]) => order_of(amount.cmp(&0)),
        ("isInteger", [Plain::Amount(amount)]) => {
            truth(amount % NANO == 0 && i64::try_from(amount / NANO).is_ok(), 1)
        }
        ("asInteger", [Plain::Amount(amount)]) => match i64::try_from(amount / NANO) {
            Ok(units) if amount % NANO == 0 => Ok((Plain::Int(units), 1)),
            _ => Err("cannot convert value to integer".to_owned()),
        },
        #[expect(clippy::cast_precision_loss, reason = "the function is approximate")]
        ("asApproximateFloat", [Plain::Amount(amount)]) => Ok((Plain::Double(*amount as f64 / 1e9), 1)),
        ("add", [Plain::Amount(one), Plain::Amount(other)]) => sum(*one, *other),
        ("add", [Plain::Amount(one), Plain::Int(other)]) => sum(*one, i128::from(*other) * NANO),
        ("sub", [Plain::Amount(one), Plain::Amount(other)]) => sum(*one, -other),
        ("sub", [Plain::Amount(one), Plain::Int(other)]) => sum(*one, -i128::from(*other) * NANO),
        ("compareTo" | "isGreaterThan" | "isLessThan", [one, other]) => {
            let order = match (one, other) {
                (Plain::Amount(one), Plain::Amount(other)) => one.cmp(other),
                (Plain::Version(one), Plain::Version(other)) => one.precedence(other),
                other => panic!("no expression here compares {other:?}"),
            };
            match name {
                "compareTo" => order_of(order),
                "isGreaterThan" => truth(order.is_gt(), 1),
                _ => truth(order.is_lt(), 1),
            }
        }
        ("major" | "minor" | "patch", [Plain::Version(version)]) => {
            let at = ["major", "minor", "patch"].iter().position(|part| *part == name)?;
            Ok((Plain::Int(i64::try_from(version.numbers[at]).unwrap()), 1))
        }
        _ => return None,
    })
}
