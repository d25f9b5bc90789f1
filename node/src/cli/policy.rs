//! The flags of `orch policy`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::cluster::Output;
use super::node::BrandName;

/// What to do with admission policies.
#[derive(Debug, Subcommand)]
pub enum PolicyCommand {
    /// Try admission policies on objects, without a cluster
    #[command(long_about = TEST_ABOUT)]
    Test(PolicyTestArgs),
}

/// First part of `orch policy test --help`, set at the command: at the flags its summary would replace it.
const TEST_ABOUT: &str = "Try admission policies on objects, without a cluster.\n\n\
        Each object is written to a server in memory whose only admission plugins are the policies of the files: it is decoded, defaulted \
        and validated as on a member, matched against the rules and selectors of the policies and their bindings, and judged by the same \
        code. Nothing is stored, no server is asked, and no network is used. For each policy that is about the write it prints what each \
        expression said and what it cost, of ten million that one policy may take.\n\n\
        The files may hold whatever policies need, in any order and as YAML or JSON: bindings, parameters, namespaces with their labels, \
        definitions of custom kinds, roles with their bindings for questions about rights. A policy for which no file has a binding is bound \
        to everything: a validating one with the action Deny, and with the parameter of --params.\n\n\
        Exit codes: 0 where every write is admitted, 3 where a policy refuses one (with --expect deny the other way round), 1 where an object \
        or a policy cannot be used, 2 for a wrong flag.";

/// The write that is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TriedOperation {
    /// The objects are new.
    Create,
    /// The objects of --old-object are changed.
    Update,
    /// The objects are removed.
    Delete,
}

/// The outcome that is expected of every write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Expected {
    /// No policy refuses it.
    Allow,
    /// A policy refuses it.
    Deny,
}

/// Flags of `orch policy test`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        orch policy test policy.yaml --object deployment.yaml\n  \
        orch policy test policy.yaml binding.yaml --object new.yaml --old-object old.yaml\n  \
        orch policy test policies/*.yaml --object pod.yaml --params limits.yaml --user ann --group devs\n  \
        orch policy test policy.yaml --object bad.yaml --expect deny -o json")]
pub struct PolicyTestArgs {
    /// Policies of both kinds, bindings, and what they need
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Objects to write, each by itself; repeat for several files
    #[arg(long = "object", value_name = "FILE", required = true)]
    pub objects: Vec<PathBuf>,
    /// The same objects before the write, by kind, namespace and name, which makes it an update
    #[arg(long = "old-object", value_name = "FILE")]
    pub old_objects: Vec<PathBuf>,
    /// The parameter of policies that name its kind and have no binding in the files
    #[arg(long, value_name = "FILE")]
    pub params: Option<PathBuf>,
    /// The namespace of the objects, with its labels; without it and among the files it has none but its name
    #[arg(long, value_name = "FILE")]
    pub namespace_object: Option<PathBuf>,
    /// The write [default: update with --old-object, else create]
    #[arg(long, value_name = "OPERATION", value_enum)]
    pub operation: Option<TriedOperation>,
    /// Who writes [default: an administrator in system:masters]
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// A group of the user; repeat for several
    #[arg(long = "group", value_name = "GROUP", requires = "user")]
    pub groups: Vec<String>,
    /// Fail unless every write ends so
    #[arg(long, value_name = "OUTCOME", value_enum)]
    pub expect: Option<Expected>,
    /// Names of groups and labels: orch or kubernetes [default: that of the policies' apiVersion]
    #[arg(long, value_name = "NAME")]
    pub brand: Option<BrandName>,
    /// How to print it
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = Output::Text)]
    pub output: Output,
}
