//! `vectors`: replays the recorded scenarios against any server and prints where its answers differ.
#![expect(clippy::print_stdout, reason = "the differences are what this program is for")]

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Parser;
use orch_cluster_tests::client::{Access, Client, Endpoint, Identity, Trust};
use orch_cluster_tests::cluster::Cluster;
use orch_cluster_tests::vectors::{self, Selection, Users};

/// Replays the recorded scenarios against a server and prints where its answers differ from the reference's.
///
/// Exit status: 0 when every judged step matches, 1 otherwise, 2 on bad usage. Every scenario makes a namespace of its
/// own, so that a second run needs a fresh server or a --suffix.
#[derive(Debug, Parser)]
#[command(name = "vectors", max_term_width = 110)]
struct Options {
    /// Base URL of the server, `https://HOST:PORT`.
    #[arg(long, value_name = "URL", required_unless_present = "start")]
    base: Option<String>,
    /// Start a server on loopback for this run.
    #[arg(long, conflicts_with_all = ["base", "cafile", "tokens"])]
    start: bool,
    /// Certificate authority of the server, PEM; without it any certificate is accepted.
    #[arg(long, value_name = "FILE")]
    cafile: Option<PathBuf>,
    /// Token of a user: `admin` has to be in the group system:masters, `alice` in the group devs without a role.
    #[arg(long = "token", value_name = "USER=TOKEN")]
    tokens: Vec<String>,
    /// Replay only this area; repeat for several.
    #[arg(long = "area")]
    areas: Vec<String>,
    /// Replay only the scenario of this name; repeat for several.
    #[arg(long = "name")]
    names: Vec<String>,
    /// Print figures only.
    #[arg(long)]
    quiet: bool,
    /// Replay only scenarios that need this, which the server must offer: `serviceaccounts` (the admission plugin),
    /// `controllers` (the loop of aggregated roles); repeat for several.
    #[arg(long = "needs")]
    needs: Vec<String>,
    /// Appended to the scenarios' namespaces.
    #[arg(long, default_value = "")]
    suffix: String,
    /// Directory of the recordings.
    #[arg(value_name = "DIR")]
    folder: Option<PathBuf>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<ExitCode> {
    let options = Options::parse();
    let cluster = match options.start {
        true => Some(Cluster::start(vectors::recorded(1, &options.needs)).await?),
        false => None,
    };
    let (folder, quiet) = (options.folder.clone(), options.quiet);
    let users = match &cluster {
        Some(cluster) => Users::of(cluster, 0)?,
        None => users(&options)?,
    };
    let Options { areas, names, needs, suffix, .. } = options;
    let selection = Selection { areas, names, needs, suffix };
    let folder = folder.unwrap_or_else(vectors::folder);
    let outcome = vectors::replay(&vectors::load(&folder, &selection)?, &users).await?;
    if !quiet {
        for text in outcome.differences.values() {
            println!("{text}");
        }
    }
    println!("{}", outcome.table());
    let total = outcome.total();
    Ok(if total.matched == total.judged { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn users(options: &Options) -> Result<Users> {
    let endpoint: Endpoint = options.base.as_deref().unwrap_or_default().parse()?;
    let trust = match &options.cafile {
        Some(path) => {
            Trust::Authority(std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?)
        }
        None => Trust::Anyone,
    };
    let client = |identity| Client::new(endpoint.clone(), Access::new(trust.clone(), identity));
    let token = |user: &str| {
        let found = options.tokens.iter().find_map(|entry| entry.strip_prefix(user)?.strip_prefix('='));
        match found {
            Some(token) => Ok(Identity::Token(token.to_owned())),
            None => bail!("--token {user}=TOKEN is wanted"),
        }
    };
    Ok(Users {
        admin: client(token("admin")?),
        alice: client(token("alice")?),
        anonymous: client(Identity::Anonymous),
    })
}
