//! The flags of `orch kubeconfig`.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{ArgGroup, Args};

use super::cluster::AccessArgs;
use super::duration::parse_duration;

/// Shortest validity of a credential: a shorter one would end before it is used, and is a mistake in the unit.
const VALID_FOR_MIN: Duration = Duration::from_secs(60);

/// First part of `orch kubeconfig --help`. It is set at the command: at the flags the command's summary would replace it.
pub(super) const ABOUT: &str = "Make a client configuration for a further user, or for a service account.\n\n\
        For a user, a new certificate is signed by the authority in --certs-dir: the user is its common name, each group an \
        organization. No request is made, and nothing is kept but the file. For a service account, the cluster is asked for a \
        token, with the credentials of the administrator's client configuration.\n\n\
        The servers and the authority are those of that client configuration. Neither credential gives a right: roles that \
        are bound to the user, its groups or the account do. A certificate cannot be taken back but by --client-crl-file; a \
        token ends with its account.";

/// Flags of `orch kubeconfig`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  \
        orch kubeconfig --user ann --group devs --certs-dir certs --out ann.conf\n  \
        orch kubeconfig --user ann --certs-dir orch-data/pki --out ann.conf               a node for development\n  \
        orch kubeconfig --service-account shop/till --kubeconfig certs/admin.conf --out till.conf --valid-for 24h",
    group = ArgGroup::new("holder").required(true).args(["user", "service_account"])
)]
pub struct KubeconfigArgs {
    /// The user
    #[arg(long, value_name = "NAME", value_parser = parse_subject, requires = "certs_dir")]
    pub user: Option<String>,
    /// A group of the user; repeat for several
    #[arg(long = "group", value_name = "GROUP", value_parser = parse_subject, conflicts_with = "service_account")]
    pub groups: Vec<String>,
    /// The service account
    #[arg(long, value_name = "NAMESPACE/NAME")]
    pub service_account: Option<AccountName>,
    /// Directory made by `orch certs init`, with ca.key in it: signs the user's certificate
    #[arg(long, value_name = "DIR", conflicts_with = "service_account")]
    pub certs_dir: Option<PathBuf>,
    /// How long it is valid: 24h [default: a year for a user; for a service account the server's, an hour]
    #[arg(long, value_name = "TIME", value_parser = parse_validity)]
    pub valid_for: Option<Duration>,
    /// File to write, which must not exist; its owner alone may read it
    #[arg(long, value_name = "PATH")]
    pub out: PathBuf,
    /// The servers to name, and for a service account the credentials that ask for the token. With --certs-dir its
    /// admin.conf comes before the default
    #[command(flatten)]
    pub access: AccessArgs,
}

/// A service account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountName {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl FromStr for AccountName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (namespace, name) =
            text.split_once('/').ok_or_else(|| format!("{text:?} is not NAMESPACE/NAME"))?;
        // Both become parts of a path; the server judges the rest.
        let fits = |part: &str| {
            !part.is_empty()
                && part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c))
        };
        if !fits(namespace) || !fits(name) {
            return Err("names have lower case letters, digits, - and . alone".to_owned());
        }
        Ok(AccountName { namespace: namespace.to_owned(), name: name.to_owned() })
    }
}

fn parse_subject(text: &str) -> Result<String, String> {
    if text.is_empty() || text.chars().any(char::is_control) {
        return Err("a name has at least one character, and no control characters".to_owned());
    }
    Ok(text.to_owned())
}

fn parse_validity(text: &str) -> Result<Duration, String> {
    match parse_duration(text)? {
        valid if valid >= VALID_FOR_MIN => Ok(valid),
        _ => Err("shorter than a minute".to_owned()),
    }
}
