//! Prices and bounds of patterns.

use super::*;

use regex_syntax::hir::{Class, ClassUnicode, ClassUnicodeRange, HirKind};

/// The result of compiling, and its steps.
fn compiled_within(limits: PatternLimits, pattern: &str) -> (Result<Pattern, PatternError>, u64) {
    let mut allowance = Allowance::of(u64::MAX);
    let compiled = Pattern::compile(pattern, limits, &mut allowance).unwrap();
    (compiled, u64::MAX - allowance.left())
}

fn compiled(pattern: &str) -> (Result<Pattern, PatternError>, u64) {
    compiled_within(PatternLimits::STANDING, pattern)
}

#[test]
fn patterns_match_as_they_are_written() {
    for (pattern, matches, differs) in [
        (r"^\w+-\d{3}$", "abc-123", "abc-12"),
        ("(?i)^gpu[a-f]$", "GPUb", "GPUx"),
        (r"^(?:\pL|_)+$", "bä_", "b1"),
        ("^a.*b$", "a\u{1f600}b", "ab\n"),
        (r"\bx\b", "a x b", "axb"),
        ("a|^$", "", "b"),
    ] {
        let compiled = compiled(pattern).0.unwrap();
        assert!(compiled.is_match(matches), "{pattern} {matches}");
        assert!(!compiled.is_match(differs), "{pattern} {differs}");
    }
}

/// As in RE2: named classes and borders are those of ASCII, cases and properties those of Unicode.
#[test]
fn classes_are_those_of_re2() {
    for (pattern, matches, differs) in [
        (r"^\w$", "_", "ä"),
        (r"^\W$", "ä", "a"),
        (r"^[\w-]+$", "a-9", "ä"),
        (r"^[^\W_]+$", "aZ9", "a_"),
        (r"^\d$", "7", "\u{0667}"),
        (r"^\D$", "\u{0667}", "7"),
        (r"^\s$", "\x0c", "\x0b"),
        (r"^[[:space:]]$", "\x0b", "\u{a0}"),
        (r"^[[:word:]]+$", "a_9", "ä"),
        (r"^ä\b", "äb", "ä"),
        (r"^ä\B", "ä", "äb"),
        (r"(?i)^Ä$", "ä", "a"),
        (r"(?i)^\w$", "\u{212a}", "ä"),
        (r"(?i)^\W$", "ä", "\u{212a}"),
        (r"(?i)^[\W-]$", "ä", "k"),
        (r"(?i)^\p{Lu}$", "ä", "1"),
        (r"^\p{Greek}$", "λ", "l"),
        // Of definitions of the field: Config Connector, the Container Object Storage Interface.
        ("^[-_[A-Za-z0-9]+@[-_[A-Za-z0-9]+.iam$", "a[_@b[.iam", "a]@b.iam"),
        (r"^(/[^/\0]+)*(/)?$", "/a/b", "/a\0"),
        (r"^[\w-_./]+$", "a-_./", "a b"),
        (r"^[a&&b~~c]+$", "a&~", "d"),
        (r"^[+--]$", ",", "."),
        (r"^x{,2}$", "x{,2}", "xx"),
        (r"^\101\Q.[\E\<$", "A.[<", "Ax[<"),
    ] {
        let compiled = compiled(pattern).0.unwrap();
        assert!(compiled.is_match(matches), "{pattern} {matches}");
        assert!(!compiled.is_match(differs), "{pattern} {differs}");
    }
}

#[test]
fn faults_tell_the_reason_and_the_place() {
    for (pattern, told) in [
        ("a(", "missing closing ): `a(`"),
        ("a)", "unexpected ): `a)`"),
        ("a[b", "missing closing ]: `[`"),
        ("[b-a]", "invalid character class range: `b-a`"),
        (r"\p{Xx}", r"invalid character class range: `\p{Xx}`"),
        ("*a", "missing argument to repetition operator: `*`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("a{1001}", "invalid repeat count: `{1001}`"),
        ("((a{2,50}b*){21})?", "invalid repeat count: `{21}`"),
        (r"a\", "trailing backslash at end of expression: ``"),
        (r"\y", r"invalid escape sequence: `\y`"),
        ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
        ("(?x)a", "invalid or unsupported Perl syntax: `x`"),
        ("(?u:a)", "invalid or unsupported Perl syntax: `u`"),
    ] {
        let fault = compiled(pattern).0.unwrap_err();
        assert_eq!(fault.to_string(), format!("error parsing regexp: {told}"), "{pattern}");
    }
}

#[test]
fn patterns_of_people_are_cheap() {
    for (pattern, most) in [
        ("^a[0-9]+$", 1000),
        ("^.*a100.*$", 1000),
        (r"^\w+-\d{3}$", 1500),
        ("(?i)^(a100|h100|l40s?)$", 1500),
        ("^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$", 8000),
        (r"(?i)[\w.-]+", 1000),
        (r"(?i)[\s\S]*", 1000),
        (r"(?i)\p{Lu}+", 10_000),
    ] {
        let (compiled, steps) = compiled(pattern);
        assert!(compiled.is_ok() && steps <= most, "{pattern} {steps}");
    }
}

#[test]
fn a_pattern_that_takes_long_to_compile_is_not_begun() {
    let times = |pattern: &str, times: usize| pattern.repeat(times);
    for pattern in [
        "(?i)".to_owned() + &times(r"[\x{0}-\x{10FFFF}]", 40),
        "(?i)".to_owned() + &times(r"[x\W]", 40),
        times(r"(?i)\p{any}", 40),
        "(?i)[x".to_owned() + &times(r"[^x\W]", 40) + "]",
        times("x", 1025),
    ] {
        let (compiled, steps) = compiled(&pattern);
        assert_eq!(compiled.err(), Some(PatternError::TooLarge), "{pattern}");
        assert!(steps < 4000, "its text was read: {steps}");
    }
    for pattern in [r"(\pL{60}){15}b", r"(?i)(?:[^x]{100}){10}", r"\pL{1000}"] {
        let (compiled, steps) = compiled(pattern);
        assert_eq!(compiled.err(), Some(PatternError::TooLarge), "{pattern}");
        assert!(steps < 40_000, "no larger than an automaton may be: {steps}");
    }
}

#[test]
fn patterns_of_the_operator_may_be_larger() {
    let names: Vec<String> = (0..300).map(|number| format!("team-{number}-admins")).collect();
    let any_of = format!("^(?:{})$", names.join("|"));
    for pattern in [any_of.as_str(), r"^\pL{60}$", "^(?:[^x]{1,100}-){9}$", r"(?i)^[x\W][y\W]$"] {
        assert_eq!(compiled(pattern).0.err(), Some(PatternError::TooLarge), "{pattern}");
        let (compiled, steps) = compiled_within(PatternLimits::CONFIGURED, pattern);
        assert!(compiled.is_ok() && steps < PatternLimits::CONFIGURED.steps, "{pattern} {steps}");
    }
    let endless = r"\pL{1000}";
    let (compiled, steps) = compiled_within(PatternLimits::CONFIGURED, endless);
    assert_eq!(compiled.err(), Some(PatternError::TooLarge));
    assert!(steps < 300_000, "{steps}");
}

/// [`price`] takes these classes for small where other cases are looked for.
#[test]
fn small_classes_have_few_characters_in_ranges_with_cases() {
    let is_cased = |c: char| {
        let mut class = ClassUnicode::new([ClassUnicodeRange::new(c, c)]);
        class.case_fold_simple();
        class.ranges().iter().any(|range| range.start() != c || range.end() != c)
    };
    let cased: Vec<char> = ('\0'..'\u{1f000}').filter(|&c| is_cased(c)).collect();
    assert!(cased.len() > 2500 && *cased.last().unwrap() < '\u{1f000}', "{}", cased.len());
    for name in price::SMALL.into_iter().chain(["L", "M", "N", "P", "S", "Z"]) {
        let hir = regex_syntax::parse(&format!(r"\p{{{name}}}")).unwrap();
        // A single character is no class.
        let HirKind::Class(Class::Unicode(class)) = hir.kind() else { continue };
        let folded = class.ranges().iter().filter(|range| {
            let first = cased.partition_point(|&c| c < range.start());
            cased.get(first).is_some_and(|&c| c <= range.end())
        });
        let chars: u64 = folded.map(|range| u64::try_from(range.len()).unwrap()).sum();
        assert!(chars <= price::NAMED_CHARS, "{name}: {chars}");
    }
}

#[test]
fn steps_are_charged_before_each_stage() {
    let pattern = r"^\w+$";
    let (_, price) = compiled(pattern);
    for steps in [0, 1, price::of_text(pattern), price - 1] {
        assert!(
            Pattern::compile(pattern, PatternLimits::STANDING, &mut Allowance::of(steps)).is_err(),
            "{steps}"
        );
    }
    assert!(Pattern::compile(pattern, PatternLimits::STANDING, &mut Allowance::of(price)).is_ok());
}

#[test]
fn patterns_of_evaluations_are_smaller() {
    assert!(Pattern::compile_unknown(r"^\w+$").is_ok());
    assert!(Pattern::compile_unknown("^[a-z]{1,63}$").is_ok());
    assert!(Pattern::compile_unknown(r"^\w{3}$").is_ok());
    for pattern in [r"\pL{3}".to_owned(), r"(?i)\p{any}".to_owned(), "x".repeat(129)] {
        assert_eq!(Pattern::compile_unknown(&pattern).err(), Some(PatternError::TooLarge), "{pattern}");
    }
}

#[test]
fn a_larger_pattern_takes_longer_for_each_byte() {
    let steps = |pattern: &str| compiled(pattern).0.unwrap().steps_of_byte();
    assert!(steps("^a+$") < 20);
    assert!(steps("(?:a?){1000}@") > 250, "each of two thousand states takes some nanoseconds");
}

/// That of host names in the definitions of OpenShift's configuration: repeated classes of all letters and signs.
const HOSTS: &str = r"^([a-zA-Z0-9\p{S}\p{L}]((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)|([a-zA-Z0-9\p{S}\p{L}](([a-zA-Z0-9-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?)(\.)){1,}([a-zA-Z\p{L}]){2,63})$|^(([a-z0-9][-a-z0-9]{0,61}[a-z0-9]|[a-z0-9]{1,63})[\.]){0,}([a-z0-9][-a-z0-9]{0,61}[a-z0-9]|[a-z0-9]{1,63})$";

fn met(pattern: &str) -> MetPattern {
    MetPattern::new(compiled_within(PatternLimits::SCHEMA, pattern).0.unwrap())
}

/// The answer, and the steps that were charged.
fn charged(pattern: &MetPattern, text: &str) -> (bool, u64) {
    let mut steps = 0;
    let found = pattern.is_match(text, &mut |more| {
        steps += more;
        true
    });
    (found.unwrap(), steps)
}

#[test]
fn texts_of_the_field_cost_a_large_pattern_little_once_its_states_are_there() {
    let hosts = met(HOSTS);
    assert!(hosts.states.is_some());
    let simulated = steps(hosts.pattern.steps_of_byte(), 20);
    let (is_match, first) = charged(&hosts, "route-1.example.com");
    assert!(is_match && first <= simulated + 3 * hosts.pattern.steps_of_byte(), "{first} of {simulated}");
    let all: u64 =
        (2..=500).map(|at| charged(&hosts, &format!("route-{at}.example.com"))).map(|(_, steps)| steps).sum();
    assert!(all < 100 * simulated, "{all} for 499 names, {simulated} for one by simulation");
}

#[test]
fn states_that_are_kept_answer_as_the_simulation_does() {
    for pattern in [
        HOSTS,
        r"^(\pL{1,30})?$",
        r"\pL{40}|\d{3}",
        r"(?i)ä{1,400}$",
        r"\b\pL{30,60}\b",
        r"^$|\pS{60}",
        r"\B|\pL{60}",
    ] {
        let met = met(pattern);
        assert!(met.states.is_some(), "{pattern}");
        for text in [
            "",
            "a",
            "-",
            "a.b",
            "ä",
            "äÄä",
            "a-",
            "123",
            "a b",
            "route-1.example.com",
            "\u{1f600}",
            "a\u{0}b",
            "aéa",
            "ä\u{301}.example",
            &"a".repeat(64),
            &"ä".repeat(64),
            &"a.".repeat(40),
            &"+".repeat(61),
            &format!("x {} y", "b".repeat(31)),
        ] {
            for _ in 0..2 {
                assert_eq!(charged(&met, text).0, met.pattern.is_match(text), "{pattern} {text}");
            }
        }
    }
}

#[test]
fn a_match_ends_where_its_steps_are_refused() {
    let hosts = met(HOSTS);
    for most in [0, BEGIN_STEPS, hosts.pattern.steps_of_byte() * 5] {
        let mut left = most;
        let mut charge = |steps: u64| {
            let may = steps <= left;
            left = left.saturating_sub(steps);
            may
        };
        assert_eq!(hosts.is_match("route-1.example.com", &mut charge), None, "{most}");
    }
    assert!(charged(&hosts, "route-1.example.com").0, "its states are whole");
}
