//! Types of flag values that are more than a number or a text.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use orch_schema::SignedDuration;

use crate::config::notation::{
    Reason, parse_bool, parse_duration, parse_fields, parse_float, parse_int, parse_pairs, parse_unsigned,
    quote,
};

/// An occurrence of a flag with a list; lists of several occurrences follow each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct List(pub Vec<String>);

/// An occurrence of a flag with pairs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pairs(pub Vec<(String, String)>);

/// A certificate and its key for clients that ask for certain names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SniPair {
    /// File of the certificate, followed by its intermediates.
    pub certificate: PathBuf,
    /// File of the key.
    pub key: PathBuf,
    /// Names it is for; empty for those in the certificate.
    pub names: Vec<String>,
}

/// A feature gate and whether it is on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeatureGate {
    /// The gate's name.
    pub name: String,
    /// Whether it is on.
    pub is_on: bool,
}

/// A verbosity for the modules whose name matches a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VmodulePattern {
    /// Name of a module, with `*` and `?`.
    pub pattern: String,
    /// Its verbosity.
    pub level: u32,
}

pub(super) fn boolean(text: &str) -> Result<bool, Reason> {
    parse_bool(text)
}

pub(super) fn integer(text: &str) -> Result<i64, Reason> {
    parse_int(text, 64)
}

pub(super) fn integer32(text: &str) -> Result<i32, Reason> {
    let value = parse_int(text, 32)?;
    i32::try_from(value).map_err(|error| Reason::new(error.to_string()))
}

pub(super) fn float(text: &str) -> Result<f32, Reason> {
    parse_float(text)
}

pub(super) fn unsigned(text: &str) -> Result<u32, Reason> {
    parse_unsigned(text)
}

pub(super) fn span(text: &str) -> Result<SignedDuration, Reason> {
    parse_duration(text)
}

pub(super) fn list(text: &str) -> Result<List, Reason> {
    parse_fields(text).map(List)
}

pub(super) fn pairs(text: &str) -> Result<Pairs, Reason> {
    parse_pairs(text).map(Pairs)
}

/// A path. An empty one, which means none, is taken out by `Flags::forget_empty_paths`.
pub(super) fn path(text: &str) -> Result<PathBuf, Reason> {
    Ok(PathBuf::from(text))
}

/// An IP address; a blank text means all interfaces.
pub(super) fn address(text: &str) -> Result<IpAddr, Reason> {
    match text.trim() {
        "" => Ok(IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
        trimmed => trimmed.parse().map_err(|_| Reason::new(format!("failed to parse IP: {}", quote(text)))),
    }
}

/// `certificate,key` or `certificate,key:name,name`.
pub(super) fn sni_pair(text: &str) -> Result<SniPair, Reason> {
    let (files, names) = match text.split_once(':') {
        Some((files, names)) => (files, names.split(',').map(|name| name.trim().to_owned()).collect()),
        None => (text, Vec::new()),
    };
    let unpaired = || Reason::new("expected comma separated certificate and key file paths");
    let (certificate, key) = files.split_once(',').ok_or_else(unpaired)?;
    if key.contains(',') {
        return Err(unpaired());
    }
    let (certificate, key) = (certificate.trim(), key.trim());
    if certificate.is_empty() || key.is_empty() {
        return Err(Reason::new("expected non-empty certificate and key file paths"));
    }
    Ok(SniPair { certificate: certificate.into(), key: key.into(), names })
}

/// `pattern=N,pattern=N`.
pub(super) fn vmodule(text: &str) -> Result<Vec<VmodulePattern>, Reason> {
    let item = |item: &str| {
        let (pattern, level) = item
            .split_once('=')
            .filter(|(pattern, _)| !pattern.is_empty())
            .ok_or_else(|| Reason::new(format!("{} does not have the pattern=N format", quote(item))))?;
        let level = parse_unsigned(level)
            .map_err(|reason| Reason::new(format!("parsing verbosity in {}: {reason}", quote(item))))?;
        Ok(VmodulePattern { pattern: pattern.to_owned(), level })
    };
    text.split(',').filter(|text| !text.is_empty()).map(item).collect()
}

/// Parses the gates of all occurrences of `--feature-gates`. They are read when the program starts, not while flags are
/// parsed: the reference reports a bad one in a log line, without the usage.
pub(in crate::config) fn feature_gates(texts: &[String]) -> Result<Vec<FeatureGate>, Reason> {
    let items = texts.iter().flat_map(|text| text.split(',')).map(str::trim).filter(|item| !item.is_empty());
    let gate = |item: &str| {
        let (name, value) = item
            .split_once('=')
            .ok_or_else(|| Reason::new(format!("missing bool value for feature gate {item}")))?;
        let (name, value) = (name.trim(), value.trim());
        let is_on = parse_bool(value)
            .map_err(|reason| Reason::new(format!("invalid value of {name}={value}, err: {reason}")))?;
        Ok(FeatureGate { name: name.to_owned(), is_on })
    };
    items.map(gate).collect()
}
