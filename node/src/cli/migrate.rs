//! The flags of `orch cluster migrate-storage`.

use clap::Args;

use super::cluster::AccessArgs;

/// Objects a second without `--rate`: few beside what a cluster writes, so that other clients notice nothing.
const RATE: u32 = 200;
/// Upper end of `--rate`: requests follow one another, and the pauses between them are whole milliseconds.
const RATE_MAX: u32 = 1000;

/// First part of `orch cluster migrate-storage --help`, set at the command: at the flags its summary would replace it.
pub(super) const ABOUT: &str = "Write every object of a custom kind in its storage version.\n\n\
        When the definition of a kind gets another storage version, objects keep the form they were written in until somebody writes them \
        again, and status.storedVersions of the definition names every version that objects may still have. A version that stands \
        there cannot be removed from the definition. This command touches all objects, which changes nothing but their \
        stored form, and then leaves the storage version alone in status.storedVersions.\n\n\
        It is a client like any other: it needs get on the definition, patch on its status, and list and patch on the objects, and reaches any \
        member. Objects in the storage version are asked about and not written. So it may be broken off at any time: give it again, and it goes on \
        with those that are left. status.storedVersions is trimmed only when every object was reached and the storage version \
        is the one it was at the beginning; else it stays, and the reason is told.";

/// Flags of `orch cluster migrate-storage`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        orch cluster migrate-storage widgets.example.com --kubeconfig certs/admin.conf\n  \
        orch cluster migrate-storage widgets.example.com --rate 1000      faster, when few others write\n\n\
    To retire a version v1: add v2 to the definition with `storage: true`, leave v1 `served: true, storage: false`, give this command, \
    move clients to v2, then remove v1.")]
pub struct MigrateArgs {
    /// How to reach the cluster.
    #[command(flatten)]
    pub access: AccessArgs,
    /// The kind: the name of its definition
    #[arg(value_name = "RESOURCE.GROUP", value_parser = parse_definition)]
    pub definition: String,
    /// Objects a second, at most
    #[arg(long, value_name = "N", default_value_t = RATE, value_parser = clap::value_parser!(u32).range(1..=i64::from(RATE_MAX)))]
    pub rate: u32,
}

/// Parses the name of a definition, `RESOURCE.GROUP`.
fn parse_definition(text: &str) -> Result<String, String> {
    let is_name = |part: &str| {
        let of_a_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.');
        !part.is_empty() && part.chars().all(of_a_name) && !part.starts_with('.')
    };
    match text.split_once('.') {
        Some((resource, group)) if is_name(resource) && is_name(group) => Ok(text.to_owned()),
        _ => Err(format!("{text:?} is not RESOURCE.GROUP, the name of a definition")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_definition_is_named_by_resource_and_group() {
        assert_eq!(parse_definition("widgets.example.com").as_deref(), Ok("widgets.example.com"));
        for text in
            ["", "widgets", "widgets.", ".example.com", "Widgets.example.com", "a/b.example.com", "a..b"]
        {
            assert!(parse_definition(text).is_err(), "{text}");
        }
    }
}
