//! Attacks on a cluster of real processes, and what they cost: memory, processor time, and the waits of a second client.
//!
//! Owns the list of attacks (`Attack`) and the course of each: a cluster of its own, a calm time, the attack, the time
//! after it. `stage` is the cluster with an attacking tenant and an honest one, `honest` the second client, `report` the
//! figures and their table; the others are the attacks. The figures are for people, who compare
//! those of two programs, each in a folder with this one (`make attacks`): bounds are tested in `tests/processes`.

mod devices;
mod graph;
mod honest;
mod hook;
mod lists;
mod report;
mod selectors;
mod stage;
mod streams;
mod webhooks;

use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Parser, ValueEnum};
use tokio::runtime::Builder;

use honest::Work;
pub use report::Report;
pub use selectors::template;
use stage::Stage;

/// Runs attacks against clusters of the programs beside this one, and prints their cost and the waits of a second client.
#[derive(Clone, Debug, Parser)]
#[command(name = "attacks", max_term_width = 110)]
pub struct Options {
    /// The attacks, one after the other; all without one.
    #[arg(value_enum)]
    pub attacks: Vec<Attack>,
    /// Seconds in which the second client is alone.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=600))]
    pub calm_seconds: u64,
    /// Seconds after which an attack that does not end is broken off.
    #[arg(long, default_value_t = 120, value_parser = clap::value_parser!(u64).range(5..=600))]
    pub attack_seconds: u64,
}

/// The attacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Attack {
    /// Four clients write templates of claims of more than a megabyte of costly patterns.
    Selectors,
    /// Claims whose selectors are as costly as the server accepts, and pods that use them; the second client's pods wait.
    Devices,
    /// 22,000 answers of 60 KB on 220 connections, of which no byte is taken.
    Answers,
    /// 22,000 requests on 220 connections, whose small bodies never end.
    Bodies,
    /// Pods with millions of references, and the first request of a kubelet after the server's start.
    Graph,
    /// A tenant lists 8,000 events as a table, metadata only and converted, and watches them so, while they change.
    Lists,
    /// Made-up tokens, for a token webhook that answers never, slowly, without end or with nonsense.
    TokenWebhook,
    /// Requests that an authorization webhook decides about, which answers never, slowly, without end or with nonsense.
    AuthorizationWebhook,
}

impl Attack {
    fn word(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// The second client's work.
    fn work(self) -> Work {
        match self {
            Self::Devices => Work::Pods,
            _ => Work::Writes,
        }
    }

    /// Prepares the attack on a new cluster, if it needs more than a tenant.
    async fn prepare(self) -> Result<Stage> {
        match self {
            Self::Selectors | Self::Answers | Self::Bodies => Stage::start(Vec::new()).await,
            Self::Devices => devices::prepare().await,
            Self::Graph => graph::prepare().await,
            Self::Lists => lists::prepare().await,
            Self::TokenWebhook => webhooks::prepare_authentication().await,
            Self::AuthorizationWebhook => webhooks::prepare_authorization().await,
        }
    }

    /// Attacks until it has nothing more to do, and tells the attackers' answers.
    async fn carry_out(self, stage: &Stage) -> Result<String> {
        match self {
            Self::Selectors => selectors::attack(stage).await,
            Self::Devices => devices::attack(stage).await,
            Self::Answers => streams::hoard_answers(stage).await,
            Self::Bodies => streams::withhold_bodies(stage).await,
            Self::Graph => graph::attack(stage).await,
            Self::Lists => lists::attack(stage).await,
            Self::TokenWebhook => webhooks::attack_authentication(stage).await,
            Self::AuthorizationWebhook => webhooks::attack_authorization(stage).await,
        }
    }
}

/// Carries out the attacks of `options`; progress goes to standard error.
pub fn run(options: &Options) -> Result<Report> {
    let every = Attack::value_variants();
    let attacks = if options.attacks.is_empty() { every } else { &options.attacks };
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let mut report = Report::default();
    for attack in attacks {
        eprintln!("{} ...", attack.word());
        let figures = runtime.block_on(one(*attack, options));
        report.add(attack.word(), figures.with_context(|| format!("the attack {} failed", attack.word()))?);
    }
    Ok(report)
}

async fn one(attack: Attack, options: &Options) -> Result<report::Figures> {
    let stage = Box::pin(attack.prepare()).await?;
    let work = attack.work();
    let calm_time = Duration::from_secs(options.calm_seconds);
    let alone = async {
        tokio::time::sleep(calm_time).await;
        Ok("nobody attacks".to_owned())
    };
    let calm = stage.measure(work, calm_time * 2, alone).await?;
    let most = Duration::from_secs(options.attack_seconds);
    let attacked = stage.measure(work, most, attack.carry_out(&stage)).await?;
    let after = stage.cores_in(Duration::from_secs(5)).await?;
    Ok(report::Figures { calm, attacked, after, ended: stage.ended_processes() })
}
