//! Prompts and texts of commands that make or take away a member's data.
//!
//! Owns the word that confirms, the steps by which further members join, and the form of times. It decides nothing: the
//! command says which word confirms, and what a wrong one means.

use std::io::{self, BufRead, Write};

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// The step that every client takes after a restore or a recovery.
pub(crate) const CLIENTS_LIST_ANEW: &str = "clients list anew once: every version of before is expired";

/// The word that an operator gives to confirm: `given` by a flag, or else typed after `question`. `None` where `typed` has no
/// terminal to read from.
///
/// # Errors
/// The question cannot be written, or the answer not be read.
pub(crate) fn word(
    given: Option<&str>,
    question: &str,
    typed: impl FnOnce() -> io::Result<Option<String>>,
    out: &mut impl Write,
) -> io::Result<Option<String>> {
    if let Some(given) = given {
        return Ok(Some(given.to_owned()));
    }
    write!(out, "\n{question}: ")?;
    out.flush()?;
    typed()
}

/// The next line of `input`, without the space around it; empty at its end.
///
/// # Errors
/// It cannot be read.
pub(crate) fn line(input: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    input.read_line(&mut line)?;
    Ok(line.trim().to_owned())
}

/// The commands by which member `name` joins, with an empty data directory, through the member whose peers reach it at `join`.
/// Indented by `indent`, each with its line break.
pub(crate) fn joining(name: &str, address: &str, join: &str, indent: &str) -> String {
    let commands = [
        format!("orch cluster add {name} {address} --kubeconfig certs/admin.conf"),
        format!("orch serve --name {name} --join {join} --peer-address {address} ..."),
        format!(
            "orch cluster promote {name} --kubeconfig certs/admin.conf      (once it is up and has no lag)"
        ),
    ];
    commands.map(|command| format!("{indent}{command}\n")).concat()
}

/// `time_ms`, milliseconds since 1970, as a date; the number where it is none. 0 stands for an unknown time.
pub(crate) fn date(time_ms: u64) -> String {
    if time_ms == 0 {
        return "unknown".to_owned();
    }
    let date = OffsetDateTime::from_unix_timestamp_nanos(i128::from(time_ms) * 1_000_000);
    let text = date.ok().and_then(|date| date.format(&Rfc3339).ok());
    text.unwrap_or_else(|| format!("{time_ms} ms since 1970"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_confirms_without_a_question_and_a_line_after_it() {
        let asked = |given: Option<&str>, typed: &str| {
            let mut out = Vec::new();
            let word = word(given, "Type b", || line(&mut typed.as_bytes()).map(Some), &mut out).unwrap();
            (word, String::from_utf8(out).unwrap())
        };
        assert_eq!(asked(Some("b"), "c\n"), (Some("b".to_owned()), String::new()));
        assert_eq!(asked(None, " b \nc\n"), (Some("b".to_owned()), "\nType b: ".to_owned()));
        assert_eq!(asked(None, ""), (Some(String::new()), "\nType b: ".to_owned()));
    }

    #[test]
    fn times_are_dates_where_they_can_be() {
        assert_eq!(date(0), "unknown");
        assert_eq!(date(1_700_000_000_000), "2023-11-14T22:13:20Z");
        assert_eq!(date(1_700_000_000_500), "2023-11-14T22:13:20.5Z");
        assert_eq!(date(u64::MAX), "18446744073709551615 ms since 1970");
    }
}
