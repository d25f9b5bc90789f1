//! The form of an `AuthenticationConfiguration`, as the file has it.

use serde::Deserialize;

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct File {
    #[expect(dead_code, reason = "checked by the reader")]
    pub(super) api_version: String,
    #[expect(dead_code, reason = "checked by the reader")]
    pub(super) kind: String,
    #[serde(default)]
    pub(super) jwt: Vec<FileJwt>,
    pub(super) anonymous: Option<FileAnonymous>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct FileJwt {
    #[serde(default)]
    pub(super) issuer: FileIssuer,
    #[serde(default)]
    pub(super) claim_validation_rules: Vec<FileClaimRule>,
    #[serde(default)]
    pub(super) claim_mappings: FileMappings,
    #[serde(default)]
    pub(super) user_validation_rules: Vec<FileUserRule>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct FileIssuer {
    #[serde(default)]
    pub(super) url: String,
    #[serde(default, rename = "discoveryURL")]
    pub(super) discovery_url: String,
    #[serde(default)]
    pub(super) certificate_authority: String,
    #[serde(default)]
    pub(super) audiences: Vec<String>,
    #[serde(default)]
    pub(super) audience_match_policy: String,
    #[serde(default)]
    pub(super) egress_selector_type: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct FileClaimRule {
    #[serde(default)]
    pub(super) claim: String,
    #[serde(default)]
    pub(super) required_value: String,
    #[serde(default)]
    pub(super) expression: String,
    #[serde(default)]
    pub(super) message: String,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileMappings {
    #[serde(default)]
    pub(super) username: FileMapping,
    #[serde(default)]
    pub(super) groups: FileMapping,
    #[serde(default)]
    pub(super) uid: FileMapping,
    #[serde(default)]
    pub(super) extra: Vec<FileExtra>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileMapping {
    #[serde(default)]
    pub(super) claim: String,
    pub(super) prefix: Option<String>,
    #[serde(default)]
    pub(super) expression: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct FileExtra {
    #[serde(default)]
    pub(super) key: String,
    #[serde(default)]
    pub(super) value_expression: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileUserRule {
    #[serde(default)]
    pub(super) expression: String,
    #[serde(default)]
    pub(super) message: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileAnonymous {
    #[serde(default)]
    pub(super) enabled: bool,
    #[serde(default)]
    pub(super) conditions: Vec<FileCondition>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileCondition {
    #[serde(default)]
    pub(super) path: String,
}
