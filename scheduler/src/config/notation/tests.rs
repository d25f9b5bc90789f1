//! Notations of values: durations, numbers, lists and maps.

use super::*;

#[test]
fn integers_have_bounds_and_prefixes() {
    for (text, bits, expected) in [
        ("10259", 64, Ok(10259)),
        ("-1", 64, Ok(-1)),
        ("+7", 32, Ok(7)),
        ("0x10", 32, Ok(16)),
        ("010", 32, Ok(8)),
        ("0", 32, Ok(0)),
        ("2147483647", 32, Ok(2_147_483_647)),
        ("2147483648", 32, Err("strconv.ParseInt: parsing \"2147483648\": value out of range")),
        ("many", 64, Err("strconv.ParseInt: parsing \"many\": invalid syntax")),
        ("", 64, Err("strconv.ParseInt: parsing \"\": invalid syntax")),
        ("1.5", 64, Err("strconv.ParseInt: parsing \"1.5\": invalid syntax")),
        (
            "99999999999999999999",
            64,
            Err("strconv.ParseInt: parsing \"99999999999999999999\": value out of range"),
        ),
    ] {
        assert_eq!(
            parse_int(text, bits).map_err(|reason| reason.0),
            expected.map_err(str::to_owned),
            "{text}"
        );
    }
    assert_eq!(parse_unsigned("4"), Ok(4));
    assert_eq!(parse_unsigned("loud").unwrap_err().0, "strconv.ParseUint: parsing \"loud\": invalid syntax");
    assert_eq!(parse_unsigned("-1").unwrap_err().0, "strconv.ParseUint: parsing \"-1\": invalid syntax");
}

#[test]
fn durations_are_read_and_written_alike() {
    for (text, nanoseconds, written) in [
        ("15s", 15_000_000_000_i64, "15s"),
        ("5m", 300_000_000_000, "5m0s"),
        ("10m0s", 600_000_000_000, "10m0s"),
        ("1h30m", 5_400_000_000_000, "1h30m0s"),
        ("1.5s", 1_500_000_000, "1.5s"),
        ("250ms", 250_000_000, "250ms"),
        ("1500us", 1_500_000, "1.5ms"),
        ("12ns", 12, "12ns"),
        ("-5s", -5_000_000_000, "-5s"),
        ("0", 0, "0s"),
        (".5m", 30_000_000_000, "30s"),
    ] {
        let span = Span::parse(text).unwrap();
        assert_eq!((span.nanoseconds(), span.to_string().as_str()), (nanoseconds, written), "{text}");
        assert_eq!(Span::parse(written), Ok(span));
    }
    for (text, fault) in [
        ("15", "time: missing unit in duration \"15\""),
        ("", "time: invalid duration \"\""),
        ("s", "time: invalid duration \"s\""),
        ("5x", "time: unknown unit \"x\" in duration \"5x\""),
        ("99999999999h", "time: invalid duration \"99999999999h\""),
    ] {
        assert_eq!(Span::parse(text).unwrap_err().0, fault);
    }
}

#[test]
fn lists_may_quote_their_values() {
    assert_eq!(parse_fields("a,b").unwrap(), ["a", "b"]);
    assert_eq!(parse_fields("").unwrap(), [""; 0]);
    assert_eq!(parse_fields("a,,b").unwrap(), ["a", "", "b"]);
    assert_eq!(parse_fields("\"a,b\",\"c\"\"d\"").unwrap(), ["a,b", "c\"d"]);
    assert!(parse_fields("\"a").is_err());
    assert!(parse_fields("a\"b").is_err());
    assert!(parse_fields("\"a\"b").is_err());
    let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    assert_eq!(parse_pairs("m,l=a,b").unwrap(), [pair("m,l", "a,b")]);
    assert_eq!(parse_pairs("\"m,l=a,b\",\"n,k=c\"").unwrap(), [pair("m,l", "a,b"), pair("n,k", "c")]);
    assert_eq!(parse_pairs("x").unwrap_err().0, "x must be formatted as key=value");
}

#[test]
fn truth_and_fractions() {
    assert_eq!(parse_bool("T"), Ok(true));
    assert_eq!(
        parse_bool("perhaps").unwrap_err().0,
        "strconv.ParseBool: parsing \"perhaps\": invalid syntax"
    );
    assert_eq!(parse_float("1.5"), Ok(1.5));
    assert_eq!(parse_float("fast").unwrap_err().0, "strconv.ParseFloat: parsing \"fast\": invalid syntax");
    for (text, fault) in
        [("1e40", "value out of range"), ("1e400", "value out of range"), ("NaN", "not a number")]
    {
        let expected = format!("strconv.ParseFloat: parsing \"{text}\": {fault}");
        assert_eq!(parse_float(text).unwrap_err().0, expected);
    }
    assert_eq!(parse_float("inf"), Ok(f32::INFINITY));
    assert_eq!(quote("a\"b\\\n"), r#""a\"b\\\n""#);
}
