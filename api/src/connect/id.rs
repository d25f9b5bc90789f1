//! Names of pods, services and nodes in paths of proxies: `NAME`, `NAME:PORT` or `SCHEME:NAME:PORT`.

use crate::egress::Scheme;

/// A parsed name. Scheme and port are optional.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProxyId<'a> {
    pub(crate) scheme: Scheme,
    pub(crate) name: &'a str,
    /// Empty where none is named.
    pub(crate) port: &'a str,
}

impl<'a> ProxyId<'a> {
    /// Parses `id`; `None` for other forms and schemes. Without a scheme it is HTTP.
    pub(crate) fn parse(id: &'a str) -> Option<ProxyId<'a>> {
        let mut parts = id.split(':');
        let found = (parts.next()?, parts.next(), parts.next(), parts.next());
        let (scheme, name, port) = match found {
            (name, None, ..) => ("", name, ""),
            (name, Some(port), None, _) => ("", name, port),
            (scheme, Some(name), Some(port), None) => (scheme, name, port),
            _ => return None,
        };
        let scheme = match scheme {
            "" | "http" => Scheme::Http,
            "https" => Scheme::Https,
            _ => return None,
        };
        (!name.is_empty()).then_some(ProxyId { scheme, name, port })
    }
}
