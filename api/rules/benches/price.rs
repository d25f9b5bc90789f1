//! The price list of expressions and patterns, held against the clock.
//!
//! Each row is work that its price was made for, near the worst that is known. Printed are the nanoseconds of a step, which
//! is meant to be a hundred. The program fails where a row is further from the median of all rows than a factor of two
//! (three for upper bounds that are too high), or the median itself than what machines differ by: then a price in
//! `api/rules/src/expression` is wrong, and hostile expressions take longer than they are charged for. Rows are measured
//! in turns, and the fastest of many runs counts, so that other work on the machine changes little.
//!
//! Run with `make prices`.

#![expect(clippy::print_stdout, reason = "a benchmark prints, and measures real time")]

use std::hint::black_box;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cel::{Context, Env, Value};
use orch_rules::expression::{
    Allowance, DeviceBounds, Pattern, Patterns, device_selector_steps, parse, pattern_extension,
};

/// Nanoseconds of a step on the machine that the prices were made on.
const STEP_NS: f64 = 100.0;
/// Factor by which machines differ from it.
const MACHINES: f64 = 3.0;
/// Factor by which a price may be too low.
const LOW: f64 = 2.0;
/// Factor by which a price may be too high: it is a bound for work of many shapes.
const HIGH: f64 = 3.0;
/// Turns in which all rows are measured.
const TURNS: u32 = 7;
/// Time of a row in each turn.
const TURN: Duration = Duration::from_millis(30);

/// Work, and the steps that it is charged for.
struct Row {
    name: &'static str,
    steps: u64,
    work: Box<dyn Fn()>,
}

fn main() -> ExitCode {
    let rows: Vec<Row> = [parsing(), compiling(), matching(), evaluating()].into_iter().flatten().collect();
    let mut fastest = vec![f64::MAX; rows.len()];
    for _ in 0..TURNS {
        for (row, fastest) in rows.iter().zip(&mut fastest) {
            *fastest = fastest.min(measure(&row.work));
        }
    }
    let of_step: Vec<f64> = rows
        .iter()
        .zip(&fastest)
        .map(|(row, ns)| ns / f64::from(u32::try_from(row.steps).unwrap_or(u32::MAX)))
        .collect();
    let mut sorted = of_step.clone();
    sorted.sort_by(f64::total_cmp);
    let median = sorted[sorted.len() / 2];
    let mut is_right = (STEP_NS / MACHINES..STEP_NS * MACHINES).contains(&median);
    for ((row, ns), of_step) in rows.iter().zip(&fastest).zip(&of_step) {
        let fits = *of_step <= median * LOW && *of_step >= median / HIGH;
        is_right &= fits;
        let fault = if fits { "" } else { "  <- wrong" };
        println!(
            "{:36} {:>10.1} us {:>9} steps {:>8.1} ns a step{fault}",
            row.name,
            ns / 1e3,
            row.steps,
            of_step
        );
    }
    println!("median {median:.1} ns a step, {STEP_NS} on the machine that the prices were made on");
    if is_right { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Nanoseconds of the fastest run within a turn.
fn measure(work: &dyn Fn()) -> f64 {
    let began = Instant::now();
    let mut fastest = f64::MAX;
    while began.elapsed() < TURN {
        let run = Instant::now();
        work();
        fastest = fastest.min(run.elapsed().as_secs_f64() * 1e9);
    }
    fastest
}

fn environment() -> Env {
    let mut environment = Env::stdlib();
    for extension in
        [cel::extensions::strings, cel::extensions::lists, cel::extensions::math, pattern_extension]
    {
        environment.add_extension(extension).expect("each extension is added once");
    }
    environment
}

/// Steps that `work` takes.
fn steps(work: impl FnOnce(&mut Allowance)) -> u64 {
    let mut allowance = Allowance::of(u64::MAX);
    work(&mut allowance);
    u64::MAX - allowance.left()
}

/// `first`, and `next` as often as it fits into a selector.
fn filled(first: &str, next: &str, last: &str) -> String {
    format!("{first}{}{last}", next.repeat((9_900 - first.len() - last.len()) / next.len()))
}

fn parsing() -> Vec<Row> {
    let environment = Arc::new(environment());
    let nested = format!("||{}1{}", "[".repeat(20), "]".repeat(20));
    let rows = [
        ("parse a list", filled("[1", ",1", "].size() > 0")),
        ("parse a map", filled("{1:1", ",1:1", "}.size() > 0")),
        ("parse comparisons", filled("a<1", "||a<1", "")),
        ("parse loops", filled("true", "||[1].all(a,a>0)", "")),
        ("parse calls", filled("true", "||a.f(a)", "")),
        ("parse nested lists", filled("true", &nested, "")),
        ("parse disjunctions", filled("true", "||true", "")),
        ("parse a text", filled("'", "x", "' == ''")),
    ];
    let row = |(name, source): (&'static str, String)| {
        let environment = environment.clone();
        let run = move |allowance: &mut Allowance| {
            let parsed = parse(&environment, &source, allowance).expect("the steps suffice");
            drop(black_box(parsed.expect("it is an expression")));
        };
        Row { name, steps: steps(&run), work: Box::new(move || run(&mut Allowance::of(u64::MAX))) }
    };
    rows.into_iter().map(row).collect()
}

fn compiling() -> Vec<Row> {
    let named = format!("[{}]", r"\p{Cn}\pL".repeat(90));
    let rows = [
        ("compile one named class", r"\w".to_owned()),
        ("compile a class of named ones", named),
        ("compile letters of any case", format!("(?i){}", "k".repeat(1000))),
        ("fold all characters", r"(?i)[\x{0}-\x{10FFFF}]".to_owned()),
        ("fold a class and its opposite", r"(?i)[\w\W]".to_owned()),
        ("fold characters with cases", r"(?i)[\x{400}-\x{3fff}]".to_owned()),
        ("an automaton of classes", r"\w{11}".to_owned()),
        ("an automaton that is too large", r"\w{1000}".to_owned()),
    ];
    let row = |(name, pattern): (&'static str, String)| {
        let run = move |allowance: &mut Allowance| {
            drop(black_box(Pattern::compile(&pattern, allowance).expect("the steps suffice")));
        };
        Row { name, steps: steps(&run), work: Box::new(move || run(&mut Allowance::of(u64::MAX))) }
    };
    rows.into_iter().map(row).collect()
}

fn matching() -> Vec<Row> {
    let rows = [
        ("match optional letters", "(?:a?){2000}@"),
        ("match nested repetitions", "(?:(?:a?){30}){30}@"),
        ("match borders", r"(?:\b|\B|a){300}@"),
    ];
    let row = |(name, pattern): (&'static str, &str)| {
        let compiled = Pattern::compile(pattern, &mut Allowance::of(u64::MAX));
        let pattern = compiled.expect("the steps suffice").expect("it is a pattern");
        let text = "a".repeat(64);
        let steps = pattern.steps_of_byte() * 65;
        let work = move || {
            black_box(pattern.is_match(black_box(&text)));
        };
        Row { name, steps, work: Box::new(work) }
    };
    rows.into_iter().map(row).collect()
}

fn evaluating() -> Vec<Row> {
    let hundred = format!("[{}]", vec!["1"; 100].join(","));
    let rows = [
        ("evaluate nested loops", format!("{hundred}.all(a, {hundred}.all(b, a + b > 0))")),
        ("evaluate a pair search", format!("'{0}'.indexOf('{0}b') > 0", "a".repeat(4000))),
        ("evaluate distinct values", format!("{hundred}.map(a, a + 1).distinct().size() > 0")),
    ];
    let environment = Arc::new(environment());
    let row = |(name, source): (&'static str, String)| {
        let mut allowance = Allowance::of(u64::MAX);
        let parsed = parse(&environment, &source, &mut allowance).expect("the steps suffice");
        let mut expression = parsed.expect("it is an expression");
        let patterns = Patterns::compile_all(&mut expression, &mut allowance).expect("the steps suffice");
        let steps =
            device_selector_steps(&expression, DeviceBounds::API, &|name| patterns.steps_of_byte(name));
        let environment = environment.clone();
        let work = move || {
            let context = Context::with_env(environment.clone());
            drop(black_box(Value::resolve(&expression, &context)));
        };
        Row { name, steps, work: Box::new(work) }
    };
    rows.into_iter().map(row).collect()
}
