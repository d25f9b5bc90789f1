//! Prices and bounds of patterns.

use super::*;

/// What compiling came to, and its steps.
fn compiled(pattern: &str) -> (Result<Pattern, PatternError>, u64) {
    let mut allowance = Allowance::of(u64::MAX);
    let compiled = Pattern::compile(pattern, &mut allowance).unwrap();
    (compiled, u64::MAX - allowance.left())
}

#[test]
fn patterns_match_as_they_are_written() {
    for (pattern, matches, differs) in [
        (r"^\w+-\d{3}$", "abc-123", "abc-12"),
        ("(?i)^gpu[a-f]$", "GPUb", "GPUx"),
        (r"^(?:[\pL--\pN]|_)+$", "bä_", "b1"),
        ("^a.*b$", "a\u{1f600}b", "ab\n"),
        (r"\bx\b", "a x b", "axb"),
        ("a|^$", "", "b"),
    ] {
        let compiled = compiled(pattern).0.unwrap();
        assert!(compiled.is_match(matches), "{pattern} {matches}");
        assert!(!compiled.is_match(differs), "{pattern} {differs}");
    }
}

#[test]
fn patterns_of_people_are_cheap() {
    for (pattern, most) in [
        ("^a[0-9]+$", 1000),
        ("^.*a100.*$", 1000),
        (r"^\w+-\d{3}$", 20_000),
        ("(?i)^(a100|h100|l40s?)$", 1500),
        ("^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$", 8000),
        (r"(?i)[\w.-]+", 10_000),
    ] {
        let (compiled, steps) = compiled(pattern);
        assert!(compiled.is_ok() && steps <= most, "{pattern} {steps}");
    }
}

#[test]
fn what_takes_long_to_compile_is_not_begun() {
    let times = |pattern: &str, times: usize| pattern.repeat(times);
    for pattern in [
        "(?i)".to_owned() + &times(r"[\x{0}-\x{10FFFF}]", 40),
        "(?i)".to_owned() + &times(r"[\w\W]", 40),
        times(r"(?i)\p{any}", 40),
        "(?i)[".to_owned() + &times(r"[^\w]", 40) + "]",
        times("x", 1025),
    ] {
        let (compiled, steps) = compiled(&pattern);
        assert_eq!(compiled.err(), Some(PatternError::TooLarge), "{pattern}");
        assert!(steps < 4000, "its text was read: {steps}");
    }
    for pattern in [r"(\pL{60}){20}b", "((a{100}){100}){10}b", r"(?:(?:\w{1000}){1000}){1000}"] {
        let (compiled, steps) = compiled(pattern);
        assert_eq!(compiled.err(), Some(PatternError::TooLarge), "{pattern}");
        assert!(steps < 40_000, "no larger than an automaton may be: {steps}");
    }
    assert_eq!(compiled("(").0.err(), Some(PatternError::Invalid));
}

#[test]
fn steps_are_charged_before_each_stage() {
    let pattern = r"^\w+$";
    let (_, price) = compiled(pattern);
    for steps in [0, 1, price::of_text(pattern), price - 1] {
        assert!(Pattern::compile(pattern, &mut Allowance::of(steps)).is_err(), "{steps}");
    }
    assert!(Pattern::compile(pattern, &mut Allowance::of(price)).is_ok());
}

#[test]
fn patterns_of_evaluations_are_smaller() {
    assert!(Pattern::compile_unknown(r"^\w+$").is_ok());
    assert!(Pattern::compile_unknown("^[a-z]{1,63}$").is_ok());
    for pattern in [r"\w{3}".to_owned(), r"(?i)\p{any}".to_owned(), "x".repeat(129)] {
        assert_eq!(Pattern::compile_unknown(&pattern).err(), Some(PatternError::TooLarge), "{pattern}");
    }
}

#[test]
fn a_larger_pattern_takes_longer_for_each_byte() {
    let steps = |pattern: &str| compiled(pattern).0.unwrap().steps_of_byte();
    assert!(steps("^a+$") < 20);
    assert!(steps("(?:a?){2000}@") > 500, "each of four thousand states takes some nanoseconds");
}
