//! The `orch` binary: parses the command line, runs the command, and sets the exit code.

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::CommandFactory;
use orch_node::cli::{
    CertsCommand, Cli, ClusterAct, Command, EncryptionCommand, LogFormat, ParseError, PolicyCommand,
    RotationStep, VERSION, log_format, parse_and_find_files,
};
use orch_node::{
    admin, certs, doctor, encryption, logging, metrics, moving, policy, recovery, reset, run, snapshot,
};
use orch_serving::{Causes, secrecy, stamps};
use time::OffsetDateTime;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Exit code of every failure but usage errors.
const CODE_FAILURE: u8 = 1;
/// Exit code of usage errors: an unknown flag, a bad value, flags that exclude each other. The same as clap's.
const CODE_USAGE: u8 = 2;

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let format = log_format(&arguments);
    match start(arguments) {
        Ok(code) => code,
        // Help and the version are printed, and no failure.
        Err(error) => match error.downcast::<ParseError>() {
            Ok(ParseError::CommandLine(error)) if format == LogFormat::Text || !error.use_stderr() => {
                error.exit()
            }
            Ok(error) => fail(&error.into(), format),
            Err(error) => fail(&error, format),
        },
    }
}

fn start(arguments: Vec<OsString>) -> anyhow::Result<ExitCode> {
    secrecy::keep_secrets().context("cannot keep this process's secrets from others")?;
    // One provider of cryptography in the process, installed before any library asks for the default.
    let is_first = rustls::crypto::ring::default_provider().install_default().is_ok();
    anyhow::ensure!(is_first, "another cryptography provider is installed already");
    stamps::note_beginning();
    dispatch(parse_and_find_files(arguments)?.command)
}

fn dispatch(command: Command) -> anyhow::Result<ExitCode> {
    let done: anyhow::Result<()> = match command {
        Command::Dev(arguments) => {
            logging::start(arguments.shared.log_format, arguments.shared.v)?;
            serve(run::plan_dev(&arguments)?)
        }
        Command::Serve(arguments) => {
            logging::start(arguments.shared.log_format, arguments.shared.v)?;
            serve(run::plan_serve(&arguments)?)
        }
        Command::Certs(command) => run_certs(command),
        Command::Policy(PolicyCommand::Test(arguments)) => {
            return policy::test(&arguments, &mut io::stdout());
        }
        Command::Cluster(ClusterAct::Running(command)) => return admin::run(&command, &mut io::stdout()),
        Command::Cluster(ClusterAct::Recover(arguments)) => {
            Ok(recovery::recover(&arguments, recovery::typed, &mut io::stdout())?)
        }
        Command::Cluster(ClusterAct::MigrateStorage(arguments)) => {
            admin::migrate_storage(&arguments, &mut io::stdout())
        }
        Command::Cluster(ClusterAct::BypassWebhook(arguments)) => {
            admin::bypass_webhook(&arguments, OffsetDateTime::now_utc(), &mut io::stdout())
        }
        Command::Snapshot(command) => snapshot::run(&command, &mut io::stdout(), &mut io::stderr()),
        Command::Import(arguments) => return moving::import(&arguments, &mut io::stdout()),
        Command::Export(arguments) => moving::export(&arguments, &mut io::stdout(), &mut io::stderr()),
        Command::Encryption(EncryptionCommand::Rewrite(arguments)) => {
            let mut out = io::stdout();
            match (&arguments.data_dir, &arguments.encryption_provider_config) {
                (Some(data_dir), Some(config)) => Ok(encryption::rewrite(data_dir, config, &mut out)?),
                _ => admin::rewrite_running(&arguments, &mut out),
            }
        }
        Command::Kubeconfig(arguments) => {
            admin::make_kubeconfig(&arguments, OffsetDateTime::now_utc(), &mut io::stdout())
        }
        Command::Doctor(arguments) => return doctor::doctor(&arguments, &mut io::stdout()),
        Command::Reset(arguments) => {
            Ok(reset::reset(&arguments, &mut io::stdin().lock(), &mut io::stdout())?)
        }
        Command::Version => Ok(writeln!(io::stdout(), "orch {}", *VERSION)?),
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Cli::command(), "orch", &mut io::stdout());
            Ok(())
        }
        Command::Man { dir } => {
            let context = || format!("cannot write manual pages into {}", dir.display());
            clap_mangen::generate_to(Cli::command(), &dir).with_context(context)
        }
    };
    done.map(|()| ExitCode::SUCCESS)
}

/// Runs a node to its end. After a failure the store can still be open and its threads running, and they must not be
/// waited for: the process ends without exit handlers, since RocksDB's would abort it while its threads run.
fn serve(plan: run::Plan) -> anyhow::Result<()> {
    metrics::install();
    let Err(error) = run::run(plan, &mut io::stdout()) else { return Ok(()) };
    report(&error.into());
    signal_hook::low_level::exit(i32::from(CODE_FAILURE))
}

fn run_certs(command: CertsCommand) -> anyhow::Result<()> {
    let now = OffsetDateTime::now_utc();
    let mut out = io::stdout().lock();
    match command {
        CertsCommand::Init(arguments) => {
            let (made, dir) = (certs::init(&arguments, now)?, arguments.dir.display());
            if made.is_empty() {
                return Ok(writeln!(out, "{dir} has all of them already")?);
            }
            for path in made {
                writeln!(out, "made {}", path.display())?;
            }
            writeln!(
                out,
                "\nKeep ca.key and peer-ca.key in a safe place, off the members, but for ca.key where members sign certificates \
                 on request."
            )?;
            writeln!(out, "Show them: orch certs inspect {dir}")?;
        }
        CertsCommand::Add(arguments) => {
            for path in certs::add_members(&arguments, now)? {
                writeln!(out, "wrote {}", path.display())?;
            }
        }
        CertsCommand::Inspect(arguments) => {
            for path in &arguments.paths {
                let found = certs::inspect(path)?;
                anyhow::ensure!(!found.is_empty(), "{}", certs::no_certificate_in(path));
                for facts in found {
                    writeln!(out, "{facts}")?;
                }
            }
        }
        CertsCommand::Renew(arguments) => {
            write_renewed(&mut out, "renewed", &certs::renew(&arguments, now)?)?;
        }
        CertsCommand::RotateCa(arguments) => {
            write_renewed(&mut out, "wrote", &certs::rotate(&arguments, now)?)?;
            writeln!(out, "\n{}", after_step(arguments.step))?;
        }
    }
    Ok(())
}

fn write_renewed(out: &mut impl Write, verb: &str, renewed: &certs::Renewed) -> io::Result<()> {
    for path in &renewed.written {
        writeln!(out, "{verb} {}", path.display())?;
    }
    for name in &renewed.forgotten {
        writeln!(out, "took {name} out of the client configurations: members/{name} is gone")?;
    }
    Ok(())
}

/// The operator's next act after a step of a rotation.
fn after_step(step: RotationStep) -> &'static str {
    match step {
        RotationStep::Begin => {
            "Give these to every member and client; when all members have read them: orch certs rotate-ca issue"
        }
        RotationStep::Issue => {
            "Give these to every member; when all members have read them: orch certs rotate-ca finish"
        }
        RotationStep::Finish => "Give these to every member. The old authority is no longer trusted.",
    }
}

fn fail(error: &anyhow::Error, format: LogFormat) -> ExitCode {
    // Before its log has begun, too, a node that was asked for JSON writes no other line.
    if logging::format().is_none() && format == LogFormat::Json {
        // Its failure leaves the plain text.
        let _ = logging::start(format, 0);
    }
    report(error);
    let is_usage = error.downcast_ref::<run::RunError>().is_some_and(run::RunError::is_usage)
        || error.downcast_ref::<ParseError>().is_some_and(ParseError::is_usage);
    ExitCode::from(if is_usage { CODE_USAGE } else { CODE_FAILURE })
}

fn report(error: &anyhow::Error) {
    if logging::format() == Some(LogFormat::Json) {
        let text = match error.downcast_ref::<ParseError>() {
            // Its text tells the cause already.
            Some(ParseError::CommandLine(error)) => error.to_string(),
            _ => Causes(error.as_ref()).to_string(),
        };
        // The parser of the command line begins its own texts so.
        let error = text.strip_prefix("error: ").unwrap_or(&text).trim_end();
        return tracing::error!(error, "the node ends");
    }
    // Standard error may be closed; the error then has no other destination.
    let _ = writeln!(io::stderr(), "error: {}", Causes(error.as_ref()));
}
