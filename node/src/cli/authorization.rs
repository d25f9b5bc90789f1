//! The flags of authorization.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;

use super::duration::parse_duration;

const AUTHORIZATION: &str = "Authorization";

/// The flags of authorization. None of them has a default here: whether one was given decides what goes with it.
#[derive(Clone, Debug, Default, Args)]
pub struct AuthorizationArgs {
    /// Who decides, in this order: Node, RBAC, Webhook, AlwaysDeny, and for dev alone AlwaysAllow [default: Node,RBAC]
    #[arg(long, value_name = "MODE,...", help_heading = AUTHORIZATION)]
    pub authorization_mode: Option<AuthorizationModes>,
    /// The same in a file, an AuthorizationConfiguration as of the reference; it is read again when it changes
    #[arg(long, value_name = "FILE", help_heading = AUTHORIZATION)]
    pub authorization_config: Option<PathBuf>,
    /// Client configuration of the mode Webhook: the server that is asked
    #[arg(long, value_name = "FILE", help_heading = AUTHORIZATION)]
    pub authorization_webhook_config_file: Option<PathBuf>,
    /// How long the mode Webhook remembers that a request is allowed [default: 5m]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, help_heading = AUTHORIZATION)]
    pub authorization_webhook_cache_authorized_ttl: Option<Duration>,
    /// How long the mode Webhook remembers that a request is not allowed [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, help_heading = AUTHORIZATION)]
    pub authorization_webhook_cache_unauthorized_ttl: Option<Duration>,
    /// Version of the documents that the mode Webhook sends: v1 or v1beta1 [default: v1beta1]
    #[arg(long, value_name = "VERSION", value_parser = ["v1", "v1beta1"], help_heading = AUTHORIZATION)]
    pub authorization_webhook_version: Option<String>,
}

impl AuthorizationArgs {
    /// Whether a flag of the mode Webhook was given.
    pub fn has_webhook(&self) -> bool {
        self.authorization_webhook_config_file.is_some()
            || self.authorization_webhook_cache_authorized_ttl.is_some()
            || self.authorization_webhook_cache_unauthorized_ttl.is_some()
            || self.authorization_webhook_version.is_some()
    }
}

/// A mode of authorization.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthorizationMode {
    /// Every request is allowed.
    AlwaysAllow,
    /// No request is allowed.
    AlwaysDeny,
    /// Nodes, by what runs on them.
    Node,
    /// Roles and bindings.
    Rbac,
    /// Another server.
    Webhook,
}

impl AuthorizationMode {
    /// All modes, in the order of their names.
    pub const ALL: [AuthorizationMode; 5] = [
        AuthorizationMode::AlwaysAllow,
        AuthorizationMode::AlwaysDeny,
        AuthorizationMode::Node,
        AuthorizationMode::Rbac,
        AuthorizationMode::Webhook,
    ];

    /// The mode's name.
    pub fn name(self) -> &'static str {
        match self {
            AuthorizationMode::AlwaysAllow => "AlwaysAllow",
            AuthorizationMode::AlwaysDeny => "AlwaysDeny",
            AuthorizationMode::Node => "Node",
            AuthorizationMode::Rbac => "RBAC",
            AuthorizationMode::Webhook => "Webhook",
        }
    }

    /// The mode called `name`.
    pub fn named(name: &str) -> Option<AuthorizationMode> {
        Self::ALL.into_iter().find(|mode| mode.name() == name)
    }
}

/// Modes in the order given; at least one, each once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthorizationModes(pub Vec<AuthorizationMode>);

impl FromStr for AuthorizationModes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut modes = Vec::new();
        for name in text.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            let mode = AuthorizationMode::named(name);
            let mode = mode.ok_or_else(|| {
                let names = AuthorizationMode::ALL.map(AuthorizationMode::name).join(", ");
                format!("authorization-mode {name:?} is not a valid mode; the modes are {names}")
            })?;
            // few: there are five modes.
            if modes.contains(&mode) {
                return Err(format!("authorization-mode {name:?} has mode specified more than once"));
            }
            modes.push(mode);
        }
        if modes.is_empty() {
            return Err("at least one authorization-mode must be passed".to_owned());
        }
        Ok(AuthorizationModes(modes))
    }
}
