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
fn faults_of_durations_have_the_texts_of_the_reference() {
    assert_eq!(parse_duration("1h30m").unwrap().to_string(), "1h30m0s");
    for (text, fault) in [
        ("15", "time: missing unit in duration \"15\""),
        ("5x", "time: unknown unit \"x\" in duration \"5x\""),
        ("99999999999h", "time: invalid duration \"99999999999h\""),
    ] {
        assert_eq!(parse_duration(text).unwrap_err().0, fault);
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
