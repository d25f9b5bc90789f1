//! Configurations of issuers that are refused, by field, and some that are not.

use super::*;
use crate::cli::OidcArgs;

/// A valid configuration in which `from` is replaced by `to`: `valid`, or its faults.
fn checked(from: &str, to: &str) -> String {
    let text = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n\
        jwt:\n- issuer:\n    url: https://issuer.example\n    audiences: [a]\n  claimValidationRules:\n  \
        - claim: hd\n    requiredValue: example.com\n  - expression: claims.email_verified == true\n  \
        claimMappings:\n    username:\n      expression: claims.email\n    groups:\n      claim: roles\n      prefix: 'g:'\n    \
        uid:\n      claim: sub\n    extra:\n    - key: example.org/tenant\n      valueExpression: claims.tenant\n  \
        userValidationRules:\n  - expression: \"!user.username.startsWith('system:')\"\n";
    assert!(text.contains(from), "{from}");
    let replaced = text.replacen(from, to, 1);
    let file = match faults::parse(&replaced, "AuthenticationConfiguration", &VERSIONS) {
        Ok(file) => file,
        Err(error) => return error,
    };
    match check(file, &["https://own.example".to_owned()]) {
        Ok(configuration) => format!("valid {}", configuration.issuers.len()),
        Err(faults) => faults.to_string(),
    }
}

/// Checks that each change of the valid configuration is told by the text beside it.
fn check_told(changes: &[(&str, &str, &str)]) {
    for (from, to, told) in changes {
        let found = checked(from, to);
        assert!(found.contains(told), "{from:?} to {to:?}: {found}");
        assert!(!found.contains("canary"), "{found}");
    }
}

#[test]
fn a_fault_of_an_issuer_is_told_by_its_field() {
    let url = "    url: https://issuer.example\n";
    check_told(&[
        ("", "", "valid 1"),
        (url, "    url: ''\n", "jwt[0].issuer.url: Required value"),
        (
            url,
            "    url: http://issuer.example\n",
            "jwt[0].issuer.url: Invalid value: \"http://issuer.example\": URL scheme must be https",
        ),
        (url, "    url: https://u:p@issuer.example\n", "URL must not contain a username or password"),
        (url, "    url: https://issuer.example/?a=b\n", "URL must not contain a query"),
        (url, "    url: https://issuer.example/#a\n", "URL must not contain a fragment"),
        (
            url,
            "    url: https://own.example\n",
            "URL must not overlap with disallowed issuers: [https://own.example]",
        ),
        (
            url,
            "    url: https://issuer.example\n    discoveryURL: https://issuer.example/\n",
            "jwt[0].issuer.discoveryURL: Invalid value: \"https://issuer.example/\": discoveryURL must be different from URL",
        ),
        (
            url,
            "    url: https://issuer.example\n    certificateAuthority: canary\n",
            "jwt[0].issuer.certificateAuthority: Invalid value: \"<omitted>\": ",
        ),
        (
            "[a]",
            "[]",
            "jwt[0].issuer.audiences: Required value: at least one jwt[0].issuer.audiences is required",
        ),
        (
            "[a]",
            "[a, b]",
            "jwt[0].issuer.audienceMatchPolicy: Invalid value: \"\": audienceMatchPolicy must be MatchAny for multiple audiences",
        ),
        ("[a]", "[a, b]\n    audienceMatchPolicy: MatchAny", "valid 1"),
        (
            "[a]",
            "[a, a]\n    audienceMatchPolicy: MatchAny",
            "jwt[0].issuer.audiences[1]: Duplicate value: \"a\"",
        ),
        ("[a]", "['']", "jwt[0].issuer.audiences[0]: Required value"),
    ]);
}

#[test]
fn a_fault_of_a_rule_is_told_by_its_field() {
    let name = "      expression: claims.email\n";
    check_told(&[
        (
            "claim: hd\n",
            "claim: hd\n    message: m\n",
            "jwt[0].claimValidationRules[0].message: Invalid value: \"m\": may not be specified when claim is set",
        ),
        (
            "claims.email_verified == true",
            "claims.email_verified",
            "jwt[0].claimValidationRules[1].expression: Invalid value: \"claims.email_verified\": must evaluate to bool",
        ),
        (
            "claims.email_verified == true",
            "claims.hd == 'x'",
            "claims.email_verified must be used in claimMappings.username.expression",
        ),
        (name, "", "jwt[0].claimMappings.username: Required value: claim or expression is required"),
        (
            name,
            "      claim: sub\n",
            "jwt[0].claimMappings.username.prefix: Required value: prefix is required when claim is set",
        ),
        (name, "      claim: sub\n      prefix: ''\n", "valid 1"),
        (
            name,
            "      claim: sub\n      expression: claims.sub\n",
            "jwt[0].claimMappings.username: Invalid value: \"\": claim and expression can't both be set",
        ),
        (name, "      expression: claim.sub\n", "undeclared reference to 'claim'"),
        (
            "example.org/tenant",
            "tenant",
            "jwt[0].claimMappings.extra[0].key: Invalid value: \"tenant\": must be a domain-prefixed path",
        ),
        ("example.org/tenant", "example.org/Tenant", "must be lowercase"),
        ("example.org/tenant", "a.orch.io/tenant", "reserved for the server's own use"),
        (
            "      valueExpression: claims.tenant\n",
            "",
            "jwt[0].claimMappings.extra[0].valueExpression: Required value",
        ),
        ("user.username", "user.name", "jwt[0].userValidationRules[0].expression: Invalid value: "),
        (
            "jwt:\n",
            "anonymous: {enabled: false, conditions: [{path: /x}]}\njwt:\n",
            "enabled should be set to true when conditions are defined",
        ),
        ("jwt:\n", "surplus: 1\njwt:\n", "surplus"),
    ]);
}

#[test]
fn anonymous_requests_are_served_where_the_file_says() {
    let said = |text: &str| {
        let text =
            format!("apiVersion: apiserver.config.k8s.io/v1beta1\nkind: AuthenticationConfiguration\n{text}");
        let file = faults::parse(&text, "AuthenticationConfiguration", &VERSIONS).unwrap();
        check(file, &[]).unwrap().anonymous
    };
    assert_eq!(said(""), Anonymous::Unsaid);
    assert_eq!(said("anonymous: {enabled: false}"), Anonymous::Refused);
    assert_eq!(said("anonymous: {enabled: true}"), Anonymous::Everywhere);
    let at = said("anonymous: {enabled: true, conditions: [{path: /livez}, {path: /readyz}]}");
    assert_eq!(at, Anonymous::At(vec!["/livez".to_owned(), "/readyz".to_owned()]));
}

#[test]
fn two_issuers_have_different_urls() {
    let entry = "- issuer: {url: 'https://a.example', audiences: [a]}\n  \
        claimMappings: {username: {claim: sub, prefix: ''}}\n";
    let text = format!(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\njwt:\n{entry}{entry}"
    );
    let file = faults::parse(&text, "AuthenticationConfiguration", &VERSIONS).unwrap();
    let told = check(file, &[]).map(drop).unwrap_err().to_string();
    assert_eq!(told, "jwt[1].issuer.url: Duplicate value: \"https://a.example\"");
}

#[test]
fn flags_describe_an_issuer_with_the_references_defaults() {
    let flags = |claim: Option<&str>, url: &str| OidcArgs {
        oidc_issuer_url: Some(url.to_owned()),
        oidc_client_id: Some("a".to_owned()),
        oidc_username_claim: claim.map(str::to_owned),
        oidc_required_claim: Some("hd=example.com,t=1".parse().unwrap()),
        ..OidcArgs::default()
    };
    let made = |flags: &OidcArgs| of_flags(flags, None, &["https://own.example".to_owned()]);
    assert!(made(&OidcArgs::default()).unwrap().is_none());
    assert_eq!(made(&flags(None, "https://a.example")).unwrap().unwrap().issuers.len(), 1);
    for (url, told) in [
        (
            "http://a.example",
            "jwt[0].issuer.url: Invalid value: \"http://a.example\": URL scheme must be https",
        ),
        ("https://own.example", "URL must not overlap with disallowed issuers"),
    ] {
        let refused = made(&flags(Some("email"), url)).map(drop).unwrap_err().to_string();
        assert!(refused.contains(told), "{refused}");
    }
    for (claim, prefix, expected) in [
        (None, None, "https://a.example#"),
        (Some("email"), None, ""),
        (None, Some("-"), ""),
        (Some("email"), Some("p:"), "p:"),
    ] {
        let flags = OidcArgs {
            oidc_username_claim: claim.map(str::to_owned),
            oidc_username_prefix: prefix.map(str::to_owned),
            ..flags(None, "https://a.example")
        };
        assert_eq!(flags::username_prefix(&flags), expected, "{claim:?} {prefix:?}");
    }
    assert!("hd".parse::<crate::cli::RequiredClaims>().is_err());
}
