//! Functions of the server's own types: locators, named formats, questions about rights, keys of JSON patches.

use super::Declared;
use crate::cost::Price::*;
use crate::library::{access_checks, names, patches, urls};

pub(super) const ALL: &[Declared] = &[
    ("url", urls::url, &[("(string) -> URL", Scan)]),
    ("isURL", urls::is_url, &[("(string) -> bool", One)]),
    ("getScheme", urls::scheme_of, &[("URL.() -> string", One)]),
    ("getHost", urls::host, &[("URL.() -> string", One)]),
    ("getHostname", urls::host_name, &[("URL.() -> string", One)]),
    ("getPort", urls::port, &[("URL.() -> string", One)]),
    ("getEscapedPath", urls::path, &[("URL.() -> string", One)]),
    ("getQuery", urls::query, &[("URL.() -> map(string, list(string))", One)]),
    ("format.named", names::named, &[("(string) -> optional(NamedFormat)", One)]),
    ("validate", names::validate, &[("NamedFormat.(string) -> optional(list(string))", Validate)]),
    ("format.dns1123Label", names::dns1123_label, FORMAT),
    ("format.dns1123LabelPrefix", names::dns1123_label_prefix, FORMAT),
    ("format.dns1123Subdomain", names::dns1123_subdomain, FORMAT),
    ("format.dns1123SubdomainPrefix", names::dns1123_subdomain_prefix, FORMAT),
    ("format.dns1035Label", names::dns1035_label, FORMAT),
    ("format.dns1035LabelPrefix", names::dns1035_label_prefix, FORMAT),
    ("format.qualifiedName", names::qualified_name, FORMAT),
    ("format.labelValue", names::label_value, FORMAT),
    ("format.uri", names::uri, FORMAT),
    ("format.uuid", names::uuid, FORMAT),
    ("format.byte", names::byte, FORMAT),
    ("format.date", names::date, FORMAT),
    ("format.datetime", names::datetime, FORMAT),
    ("path", access_checks::path, &[("Authorizer.(string) -> PathCheck", One)]),
    ("group", access_checks::group, &[("Authorizer.(string) -> GroupCheck", One)]),
    ("serviceAccount", access_checks::service_account, &[("Authorizer.(string, string) -> Authorizer", One)]),
    ("resource", access_checks::resource, &[("GroupCheck.(string) -> ResourceCheck", One)]),
    ("subresource", access_checks::subresource, &[("ResourceCheck.(string) -> ResourceCheck", One)]),
    ("namespace", access_checks::namespace, &[("ResourceCheck.(string) -> ResourceCheck", One)]),
    ("name", access_checks::name, &[("ResourceCheck.(string) -> ResourceCheck", One)]),
    (
        "fieldSelector",
        access_checks::field_selector,
        &[("ResourceCheck.(string) -> ResourceCheck", Selector)],
    ),
    (
        "labelSelector",
        access_checks::label_selector,
        &[("ResourceCheck.(string) -> ResourceCheck", Selector)],
    ),
    (
        "check",
        access_checks::check,
        &[("PathCheck.(string) -> Decision", Check), ("ResourceCheck.(string) -> Decision", Check)],
    ),
    ("allowed", access_checks::allowed, &[("Decision.() -> bool", One)]),
    ("reason", access_checks::reason, &[("Decision.() -> string", One)]),
    ("errored", access_checks::errored, &[("Decision.() -> bool", One)]),
    ("error", access_checks::error, &[("Decision.() -> string", One)]),
];

/// Functions of mutations.
pub(super) const MUTATIONS: &[Declared] =
    &[("jsonpatch.escapeKey", patches::escape_key, &[("(string) -> string", Scan)])];

const FORMAT: &[(&str, crate::cost::Price)] = &[("() -> NamedFormat", One)];
