//! Paths that are neither resources nor discovery: the version, and what verifiers of service account tokens read.
//!
//! Owns their operations and the definition of the version, which has no message, because it has no Protobuf form. What
//! a node does not serve is not described.

use orch_schema::json;
use orch_schema::value::{Map, Value};

use super::operation::{Answered, Offer, Operation};
use super::paths::Path;
use crate::authn::service_account::{DISCOVERY_PATH, KEYS_PATH};

/// Whether a node serves the documents that verifiers of service account tokens read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TokenKeys {
    /// It does not.
    #[default]
    Absent,
    /// It serves both.
    Served,
}

/// A path with a document of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Page {
    Version,
    Issuer,
    Keys,
}

/// Name of the definition of the version.
pub(super) const VERSION_INFO: &str = "version.Info";

const VERSION_DESCRIPTION: &str =
    "The version of a server: the release whose behaviour it has, and the program.";

/// Whether a member of the version is always there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Presence {
    Required,
    Optional,
}

/// Members of the version, each a string, and their descriptions.
const VERSION_MEMBERS: [(&str, Presence, &str); 13] = [
    (
        "buildDate",
        Presence::Required,
        "Time of the commit that the program was built from, RFC 3339; of 1970 where it is unknown.",
    ),
    ("compiler", Presence::Required, "The compiler that built the program."),
    ("emulationMajor", Presence::Optional, "Major version of the release whose behaviour is in force."),
    ("emulationMinor", Presence::Optional, "Minor version of the release whose behaviour is in force."),
    (
        "gitCommit",
        Presence::Required,
        "The commit that the program was built from; empty where it is unknown.",
    ),
    (
        "gitTreeState",
        Presence::Required,
        "clean, or dirty where sources differed from the commit; empty where it is unknown.",
    ),
    (
        "gitVersion",
        Presence::Required,
        "The release and the program's own version behind it, a semantic version.",
    ),
    ("goVersion", Presence::Required, "Always empty: the program is not written in that language."),
    ("major", Presence::Required, "Major version of the release."),
    (
        "minCompatibilityMajor",
        Presence::Optional,
        "Major version of the oldest release that clients and members may be of.",
    ),
    (
        "minCompatibilityMinor",
        Presence::Optional,
        "Minor version of the oldest release that clients and members may be of.",
    ),
    ("minor", Presence::Required, "Minor version of the release."),
    ("platform", Presence::Required, "Operating system and processor, as linux/amd64."),
];

/// The pages of a node by path, without slashes at its ends.
pub(super) fn pages(keys: TokenKeys) -> impl Iterator<Item = (String, Page)> {
    let of_tokens = [(DISCOVERY_PATH, Page::Issuer), (KEYS_PATH, Page::Keys)];
    let of_tokens = of_tokens.into_iter().filter(move |_| keys == TokenKeys::Served);
    let all = std::iter::once(("/version", Page::Version)).chain(of_tokens);
    all.map(|(path, page)| (path.trim_start_matches('/').to_owned(), page))
}

/// The path item of `page`.
pub(super) fn page(path: &str, page: Page) -> Path {
    let (id, tag, description, answer) = match page {
        Page::Version => ("getCodeVersion", "version", "read the version of this server", Answered::Version),
        Page::Issuer => (
            "getServiceAccountIssuerOpenIDConfiguration",
            "WellKnown",
            "read the OpenID configuration of the issuer of service account tokens",
            Answered::Text(&["application/json"]),
        ),
        Page::Keys => (
            "getServiceAccountIssuerOpenIDKeyset",
            "openid",
            "read the public keys that verify service account tokens",
            Answered::Text(&["application/jwk-set+json"]),
        ),
    };
    let operation = Operation {
        method: "get",
        action: "",
        id: id.to_owned(),
        description: description.to_owned(),
        parameters: &[],
        body: None,
        codes: &[200],
        answer,
        offer: Offer::All,
        streams: false,
        kind: Value::Null,
        tag: tag.to_owned(),
    };
    Path { path: format!("/{path}/"), parameters: Vec::new(), operations: vec![operation] }
}

/// The definition of the version.
pub(super) fn version_info() -> Value {
    let property = |(name, _, description): &(&str, Presence, &str)| {
        ((*name).to_owned(), json!({"description": *description, "type": "string"}))
    };
    let properties: Map = VERSION_MEMBERS.iter().map(property).collect();
    let required = VERSION_MEMBERS.iter().filter(|(_, presence, _)| *presence == Presence::Required);
    let required: Vec<&str> = required.map(|(name, ..)| *name).collect();
    json!({"description": VERSION_DESCRIPTION, "type": "object", "properties": properties, "required": required})
}
