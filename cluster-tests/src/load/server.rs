//! The servers of a run: processes that it starts, or servers that the command line names.
//!
//! Owns the options that name servers, trust and identity, and turns them into targets and process ids.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;

use super::target::Target;
use crate::client::{Access, Endpoint, Identity, Trust};
use crate::cluster::{self, Cluster};

/// Servers, trust and identity.
#[derive(Debug, Clone, Args)]
pub(super) struct ServerOptions {
    /// Base URL of a server, `https://HOST:PORT`; repeat it to spread the clients over several.
    #[arg(long = "base", value_name = "URL")]
    pub(super) bases: Vec<String>,
    /// Start a cluster of this many `orch serve` processes on loopback and measure that.
    #[arg(long, value_name = "NODES", conflicts_with = "bases")]
    pub(super) start: Option<usize>,
    /// Further flag of the `orch serve` processes that are started, such as `--enable-priority-and-fairness=false`;
    /// repeat it for several.
    #[arg(long = "serve-flag", value_name = "FLAG", allow_hyphen_values = true, requires = "start")]
    pub(super) serve_flags: Vec<String>,
    /// Client configuration file (kubeconfig format): server, authority and credentials.
    #[arg(long, value_name = "FILE")]
    pub(super) kubeconfig: Option<PathBuf>,
    /// Certificate authority of the servers, PEM.
    #[arg(long, value_name = "FILE")]
    pub(super) cafile: Option<PathBuf>,
    /// Accept any server certificate.
    #[arg(long)]
    pub(super) insecure_skip_verify: bool,
    /// Bearer token of the clients.
    #[arg(long, conflicts_with = "client_cert")]
    pub(super) token: Option<String>,
    /// Client certificate, PEM.
    #[arg(long, value_name = "FILE", requires = "client_key")]
    pub(super) client_cert: Option<PathBuf>,
    /// Key of the client certificate, PEM.
    #[arg(long, value_name = "FILE", requires = "client_cert")]
    pub(super) client_key: Option<PathBuf>,
    /// Process ids of the servers (and of their store), on this machine: for CPU time and memory.
    #[arg(long, value_delimiter = ',')]
    pub(super) pids: Vec<u32>,
}

/// The servers of a run.
pub(super) struct Servers {
    /// The processes that were started; they end when it is dropped.
    pub(super) cluster: Option<Cluster>,
    /// The target of each server, with the administrator's access where the servers were started.
    pub(super) targets: Vec<Target>,
    /// Empty where the servers ran before and no ids were given.
    pub(super) pids: Vec<u32>,
}

impl ServerOptions {
    /// Starts the servers, or finds those that are named.
    pub(super) fn open(&self) -> Result<Servers> {
        // The aggregated server of a work is on this machine.
        let mut flags = vec!["--allow-loopback-aggregation".to_owned()];
        flags.extend(self.serve_flags.iter().cloned());
        let asked = |nodes| cluster::Options { flags, ..cluster::Options::nodes(nodes) };
        let cluster = self.start.map(asked).map(Cluster::start_blocking).transpose()?;
        let (targets, pids) = match &cluster {
            Some(cluster) => {
                let target = |(endpoint, access)| Target { endpoint, access };
                (cluster.doors().into_iter().map(target).collect(), cluster.pids())
            }
            None => (self.targets()?, self.pids.clone()),
        };
        Ok(Servers { cluster, targets, pids })
    }

    fn targets(&self) -> Result<Vec<Target>> {
        let mut bases = self.bases.clone();
        let mut access = None;
        if let Some(path) = &self.kubeconfig {
            let (server, found) = Access::from_kubeconfig(path)?;
            access = Some(found);
            if bases.is_empty() {
                bases.push(server);
            }
        }
        if bases.is_empty() {
            bail!("no server is named: --base URL, --kubeconfig FILE or --start NODES is wanted");
        }
        let access = match access {
            Some(access) => access,
            None => Access::new(self.trust()?, self.identity()?),
        };
        bases
            .iter()
            .map(|base| Ok(Target { endpoint: base.parse::<Endpoint>()?, access: access.clone() }))
            .collect()
    }

    fn trust(&self) -> Result<Trust> {
        match &self.cafile {
            Some(path) => Ok(Trust::Authority(
                fs::read(path).with_context(|| format!("cannot read {}", path.display()))?,
            )),
            None if self.insecure_skip_verify => Ok(Trust::Anyone),
            None if self.bases.iter().all(|base| base.starts_with("http://")) => Ok(Trust::Anyone),
            None => bail!("whom to trust? --cafile FILE or --insecure-skip-verify is wanted"),
        }
    }

    fn identity(&self) -> Result<Identity> {
        if let Some(token) = &self.token {
            return Ok(Identity::Token(token.clone()));
        }
        let (Some(chain), Some(key)) = (&self.client_cert, &self.client_key) else {
            return Ok(Identity::Anonymous);
        };
        let read = |path: &PathBuf| fs::read(path).with_context(|| format!("cannot read {}", path.display()));
        Ok(Identity::Certificate { chain: read(chain)?, key: read(key)? })
    }
}
