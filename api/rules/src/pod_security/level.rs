//! Levels and versions of the pod security standards, and the labels of a namespace that choose them.
//!
//! Owns what labels are valid, and what counts where one is absent or wrong: a wrong `enforce` is `restricted`, a wrong
//! `audit` or `warn` is `privileged`. Warnings follow `enforce` where only that is named and is the stricter one.

use std::fmt;

use orch_proto::Brand;

use crate::validate::{FieldError, FieldErrors, Path};

/// The levels, from the loosest to the strictest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Everything is allowed.
    #[default]
    Privileged,
    /// Blocks known privilege escalations.
    Baseline,
    /// Pods follow today's practice of hardening.
    Restricted,
}

impl Level {
    /// Every level.
    pub const ALL: [Level; 3] = [Level::Privileged, Level::Baseline, Level::Restricted];

    /// The level called `name`.
    pub fn named(name: &str) -> Option<Level> {
        // few: three levels.
        Level::ALL.into_iter().find(|level| level.name() == name)
    }

    /// Its name in labels.
    pub fn name(self) -> &'static str {
        match self {
            Level::Privileged => "privileged",
            Level::Baseline => "baseline",
            Level::Restricted => "restricted",
        }
    }
}

/// The version of the standards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Version {
    /// That of this server.
    #[default]
    Latest,
    /// `v1.` and this number. Versions later than this server's are its own.
    Minor(u64),
}

impl Version {
    /// The version called `text`: `latest`, or `v1.25`.
    pub fn named(text: &str) -> Option<Version> {
        if text == "latest" {
            return Some(Version::Latest);
        }
        let digits = text.strip_prefix("v1.")?;
        let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
        let is_plain = digits == "0" || !digits.starts_with('0');
        digits.parse().ok().filter(|_| is_number && is_plain).map(Version::Minor)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Version::Latest => f.write_str("latest"),
            Version::Minor(minor) => write!(f, "v1.{minor}"),
        }
    }
}

/// A level in one version. Formats as `baseline:latest`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LevelVersion {
    /// The level.
    pub level: Level,
    /// The version.
    pub version: Version,
}

impl LevelVersion {
    /// Whether both allow the same: the level `privileged` has no versions.
    fn is_equivalent(self, other: LevelVersion) -> bool {
        self == other || (self.level, other.level) == (Level::Privileged, Level::Privileged)
    }
}

impl fmt::Display for LevelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.level.name(), self.version)
    }
}

/// The consequence for a pod that breaks a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// It is refused.
    Enforce,
    /// An audit event says so.
    Audit,
    /// The client is warned.
    Warn,
}

impl Mode {
    /// Every mode.
    pub const ALL: [Mode; 3] = [Mode::Enforce, Mode::Audit, Mode::Warn];

    /// Its name in labels.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Enforce => "enforce",
            Mode::Audit => "audit",
            Mode::Warn => "warn",
        }
    }
}

/// A name of this plugin's below the brand's domain: `enforce` becomes `pod-security.orch.io/enforce`.
pub fn label(brand: &Brand, name: &str) -> String {
    format!("pod-security.{}", brand.label(name))
}

/// The levels of a namespace, by mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// Pods beyond it are refused.
    pub enforce: LevelVersion,
    /// Pods and templates beyond it are marked in audit events.
    pub audit: LevelVersion,
    /// Clients are warned of pods and templates beyond it.
    pub warn: LevelVersion,
}

impl Policy {
    /// The policy of a namespace with the labels that `value_of` finds, and what is wrong with them. Modes without
    /// labels have those of `defaults`.
    pub fn of<'l>(
        brand: &Brand,
        value_of: impl Fn(&str) -> Option<&'l str>,
        defaults: Policy,
    ) -> (Policy, FieldErrors) {
        let (mut policy, mut errors) = (defaults, FieldErrors::new());
        let mut named = [false; 3];
        for (mode, is_named) in Mode::ALL.into_iter().zip(&mut named) {
            let chosen = policy.of_mode_mut(mode);
            let key = label(brand, mode.name());
            if let Some(text) = value_of(&key) {
                let level = Level::named(text);
                // A wrong label of the mode warn is still a choice of the namespace.
                *is_named = level.is_some() || mode == Mode::Warn;
                chosen.level = level.unwrap_or(match mode {
                    Mode::Enforce => Level::Restricted,
                    Mode::Audit | Mode::Warn => Level::Privileged,
                });
                errors.extend(level.is_none().then(|| wrong(&key, text, WRONG_LEVEL)));
            }
            let key = label(brand, &format!("{}-version", mode.name()));
            if let Some(text) = value_of(&key) {
                let version = Version::named(text);
                chosen.version = version.unwrap_or_default();
                errors.extend(version.is_none().then(|| wrong(&key, text, WRONG_VERSION)));
            }
        }
        let [names_enforce, _, names_warn] = named;
        if names_enforce && !names_warn && policy.enforce.level > policy.warn.level {
            policy.warn.level = policy.enforce.level;
            if value_of(&label(brand, "warn-version")).is_none() {
                policy.warn.version = policy.enforce.version;
            }
        }
        (policy, errors)
    }

    /// The level and version of `mode`.
    pub fn of_mode(&self, mode: Mode) -> LevelVersion {
        match mode {
            Mode::Enforce => self.enforce,
            Mode::Audit => self.audit,
            Mode::Warn => self.warn,
        }
    }

    fn of_mode_mut(&mut self, mode: Mode) -> &mut LevelVersion {
        match mode {
            Mode::Enforce => &mut self.enforce,
            Mode::Audit => &mut self.audit,
            Mode::Warn => &mut self.warn,
        }
    }

    /// Whether no mode has a rule.
    pub fn is_privileged(&self) -> bool {
        Mode::ALL.into_iter().all(|mode| self.of_mode(mode).level == Level::Privileged)
    }

    /// Whether both allow the same in each mode.
    pub fn is_equivalent(&self, other: &Policy) -> bool {
        Mode::ALL.into_iter().all(|mode| self.of_mode(mode).is_equivalent(other.of_mode(mode)))
    }
}

/// The fault of a text that is no level.
pub const WRONG_LEVEL: &str = "must be one of privileged, baseline, restricted";
/// The fault of a text that is no version.
pub const WRONG_VERSION: &str = "must be \"latest\" or \"v1.x\"";

fn wrong(key: &str, value: &str, detail: &str) -> FieldError {
    FieldError::invalid_str(Path::new("metadata").child("labels").key(key), value, detail)
}
