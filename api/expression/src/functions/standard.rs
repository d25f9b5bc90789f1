//! Operators and functions of the language itself.

use super::Declared;
use crate::cost::Price::*;
use crate::library::{access, conversions, logic, numbers, optionals, order, strings, times};

pub(super) const ALL: &[Declared] = &[
    ("_?_:_", logic::special, &[("(bool, A, A) -> A", Zero)]),
    ("_&&_", logic::special, &[("(bool, bool) -> bool", Zero)]),
    ("_||_", logic::special, &[("(bool, bool) -> bool", Zero)]),
    ("!_", logic::not, &[("(bool) -> bool", One)]),
    ("@not_strictly_false", logic::not_strictly_false, &[("(bool) -> bool", One)]),
    ("_==_", logic::equals, &[("(A, A) -> bool", Equal)]),
    ("_!=_", logic::differs, &[("(A, A) -> bool", Differs)]),
    ("_<_", order::less, ORDER),
    ("_<=_", order::less_or_equal, ORDER),
    ("_>_", order::greater, ORDER),
    ("_>=_", order::greater_or_equal, ORDER),
    (
        "_+_",
        numbers::add,
        &[
            ("(bytes, bytes) -> bytes", AddTexts),
            ("(double, double) -> double", One),
            ("(duration, duration) -> duration", One),
            ("(duration, timestamp) -> timestamp", One),
            ("(timestamp, duration) -> timestamp", One),
            ("(int, int) -> int", One),
            ("(list(A), list(A)) -> list(A)", AddLists),
            ("(string, string) -> string", AddTexts),
            ("(uint, uint) -> uint", One),
        ],
    ),
    (
        "_-_",
        numbers::subtract,
        &[
            ("(double, double) -> double", One),
            ("(duration, duration) -> duration", One),
            ("(int, int) -> int", One),
            ("(timestamp, duration) -> timestamp", One),
            ("(timestamp, timestamp) -> duration", One),
            ("(uint, uint) -> uint", One),
        ],
    ),
    ("_*_", numbers::multiply, NUMBERS),
    ("_/_", numbers::divide, NUMBERS),
    ("_%_", numbers::modulo, &[("(int, int) -> int", One), ("(uint, uint) -> uint", One)]),
    ("-_", numbers::negate, &[("(double) -> double", One), ("(int) -> int", One)]),
    (
        "_[_]",
        access::index,
        &[
            ("(list(A), int) -> A", One),
            ("(map(A, B), A) -> B", One),
            ("(optional(list(A)), int) -> optional(A)", One),
            ("(optional(map(A, B)), A) -> optional(B)", One),
        ],
    ),
    (
        "_[?_]",
        access::optional_index,
        &[
            ("(list(A), int) -> optional(A)", One),
            ("(optional(list(A)), int) -> optional(A)", One),
            ("(map(A, B), A) -> optional(B)", One),
            ("(optional(map(A, B)), A) -> optional(B)", One),
        ],
    ),
    ("@in", access::contained, &[("(A, list(A)) -> bool", InList), ("(A, map(A, B)) -> bool", One)]),
    (
        "size",
        access::size,
        &[
            ("(bytes) -> int", One),
            ("(list(A)) -> int", One),
            ("(map(A, B)) -> int", One),
            ("(string) -> int", One),
            ("bytes.() -> int", One),
            ("list(A).() -> int", One),
            ("map(A, B).() -> int", One),
            ("string.() -> int", One),
        ],
    ),
    ("type", conversions::type_of, &[("(A) -> type(A)", One)]),
    ("dyn", conversions::same, &[("(A) -> dyn", One)]),
    ("bool", conversions::to_bool, &[("(bool) -> bool", One), ("(string) -> bool", One)]),
    ("bytes", conversions::to_bytes, &[("(bytes) -> bytes", One), ("(string) -> bytes", BytesOfText)]),
    (
        "double",
        conversions::to_double,
        &[
            ("(double) -> double", One),
            ("(int) -> double", One),
            ("(string) -> double", One),
            ("(uint) -> double", One),
        ],
    ),
    (
        "duration",
        times::duration,
        &[("(duration) -> duration", One), ("(int) -> duration", One), ("(string) -> duration", One)],
    ),
    (
        "int",
        conversions::to_int,
        &[
            ("(int) -> int", One),
            ("(double) -> int", One),
            ("(duration) -> int", One),
            ("(string) -> int", One),
            ("(timestamp) -> int", One),
            ("(uint) -> int", One),
        ],
    ),
    (
        "string",
        conversions::to_string,
        &[
            ("(string) -> string", One),
            ("(bool) -> string", One),
            ("(bytes) -> string", TextOfBytes),
            ("(double) -> string", One),
            ("(duration) -> string", One),
            ("(int) -> string", One),
            ("(timestamp) -> string", One),
            ("(uint) -> string", One),
            ("(IP) -> string", One),
            ("(CIDR) -> string", One),
        ],
    ),
    (
        "timestamp",
        times::timestamp,
        &[("(timestamp) -> timestamp", One), ("(int) -> timestamp", One), ("(string) -> timestamp", One)],
    ),
    (
        "uint",
        conversions::to_uint,
        &[
            ("(uint) -> uint", One),
            ("(double) -> uint", One),
            ("(int) -> uint", One),
            ("(string) -> uint", One),
        ],
    ),
    ("contains", strings::contains, &[("string.(string) -> bool", Contains)]),
    ("endsWith", strings::ends_with, &[("string.(string) -> bool", Affix)]),
    ("startsWith", strings::starts_with, &[("string.(string) -> bool", Affix)]),
    (
        "matches",
        strings::matches,
        // The reference has no price for the first form.
        &[("(string, string) -> bool", One), ("string.(string) -> bool", Matches)],
    ),
    ("getFullYear", times::full_year, TIME),
    ("getMonth", times::month, TIME),
    ("getDayOfYear", times::day_of_year, TIME),
    ("getDayOfMonth", times::day_of_month, TIME),
    ("getDate", times::date, TIME),
    ("getDayOfWeek", times::day_of_week, TIME),
    ("getHours", times::hours, TIME_OR_DURATION),
    ("getMinutes", times::minutes, TIME_OR_DURATION),
    ("getSeconds", times::seconds, TIME_OR_DURATION),
    ("getMilliseconds", times::milliseconds, TIME_OR_DURATION),
    ("optional.of", optionals::of, &[("(A) -> optional(A)", One)]),
    ("optional.ofNonZeroValue", optionals::of_non_zero, &[("(A) -> optional(A)", One)]),
    ("optional.none", optionals::none, &[("() -> optional(A)", One)]),
    ("optional.unwrap", optionals::unwrap, &[("(list(optional(A))) -> list(A)", One)]),
    ("unwrapOpt", optionals::unwrap, &[("list(optional(A)).() -> list(A)", One)]),
    ("hasValue", optionals::has_value, &[("optional(A).() -> bool", One)]),
    ("value", optionals::value, &[("optional(A).() -> A", One)]),
    ("or", logic::special, &[("optional(A).(optional(A)) -> optional(A)", One)]),
    ("orValue", logic::special, &[("optional(A).(A) -> A", One)]),
    ("@insert", logic::special, &[("(map(A, B), A, B) -> map(A, B)", One)]),
    ("@merge", logic::special, &[("(map(A, B), map(A, B)) -> map(A, B)", One)]),
];

const ORDER: &[(&str, crate::cost::Price)] = &[
    ("(bool, bool) -> bool", One),
    ("(int, int) -> bool", One),
    ("(int, double) -> bool", One),
    ("(int, uint) -> bool", One),
    ("(uint, uint) -> bool", One),
    ("(uint, double) -> bool", One),
    ("(uint, int) -> bool", One),
    ("(double, double) -> bool", One),
    ("(double, int) -> bool", One),
    ("(double, uint) -> bool", One),
    ("(string, string) -> bool", Order),
    ("(bytes, bytes) -> bool", Order),
    ("(timestamp, timestamp) -> bool", One),
    ("(duration, duration) -> bool", One),
];

const NUMBERS: &[(&str, crate::cost::Price)] =
    &[("(double, double) -> double", One), ("(int, int) -> int", One), ("(uint, uint) -> uint", One)];

const TIME: &[(&str, crate::cost::Price)] =
    &[("timestamp.() -> int", One), ("timestamp.(string) -> int", One)];

const TIME_OR_DURATION: &[(&str, crate::cost::Price)] =
    &[("timestamp.() -> int", One), ("timestamp.(string) -> int", One), ("duration.() -> int", One)];
