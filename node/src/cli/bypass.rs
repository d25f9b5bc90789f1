//! The flags of `orch cluster bypass-webhook`.

use std::time::Duration;

use clap::Args;

use super::cluster::AccessArgs;
use super::duration::parse_duration;

/// Longest bypass: a day, in which the webhook is mended or its configuration changed.
const SPAN_MAX: Duration = Duration::from_secs(24 * 3600);

/// First part of `orch cluster bypass-webhook --help`, set at the command: at the flags its summary would replace it.
pub(super) const ABOUT: &str = "Leave the admission webhooks of a configuration out for a time, which ends by itself.\n\n\
        For a cluster that a dead webhook locks out: while it is bypassed, writes are not sent to it, and what it would refuse is \
        stored. The command sets an annotation of the configurations of that name, validating and mutating, which no webhook is asked \
        about; it needs patch on them, and reaches any member. The audit log has the command, and each write that passed.\n\n\
        `--for 0s` ends a bypass at once. docs/operations.md says how webhooks are kept from locking a cluster out.";

/// Flags of `orch cluster bypass-webhook`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        orch cluster bypass-webhook policies --kubeconfig certs/admin.conf\n  \
        orch cluster bypass-webhook policies --for 1h\n  \
        orch cluster bypass-webhook policies --for 0s      it is asked again")]
pub struct BypassArgs {
    /// How to reach the cluster.
    #[command(flatten)]
    pub access: AccessArgs,
    /// The name of the ValidatingWebhookConfiguration or MutatingWebhookConfiguration, or of both
    #[arg(value_name = "NAME", value_parser = parse_configuration)]
    pub configuration: String,
    /// How long, by this machine's clock; a day at most
    #[arg(long = "for", value_name = "TIME", default_value = "10m", value_parser = parse_span)]
    pub span: Duration,
}

/// Parses the name of a configuration.
fn parse_configuration(text: &str) -> Result<String, String> {
    match orch_schema::names::dns1123_subdomain(text).is_empty() {
        true => Ok(text.to_owned()),
        false => Err(format!("{text:?} is no name of a configuration")),
    }
}

fn parse_span(text: &str) -> Result<Duration, String> {
    match parse_duration(text)? {
        span if span <= SPAN_MAX => Ok(span),
        _ => Err("longer than a day".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bypass_has_an_end_within_a_day() {
        assert_eq!(parse_span("10m"), Ok(Duration::from_secs(600)));
        assert_eq!(parse_span("0s"), Ok(Duration::ZERO));
        assert_eq!(parse_span("24h"), Ok(SPAN_MAX));
        assert!(parse_span("25h").is_err() && parse_span("-1h").is_err() && parse_span("soon").is_err());
    }

    #[test]
    fn a_configuration_is_named_and_no_path() {
        assert_eq!(parse_configuration("a.b").as_deref(), Ok("a.b"));
        for text in ["", "a/b", "A", "..", "a?b"] {
            assert!(parse_configuration(text).is_err(), "{text}");
        }
    }
}
