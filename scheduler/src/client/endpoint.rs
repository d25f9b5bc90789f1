//! The address of one API server, and lists of them.
//!
//! Owns the form of addresses in client configuration files and in `--master`: a URL with scheme, host, port and
//! perhaps a path before the API's own, several of them separated by commas. Addresses of one list are members of one
//! cluster: they share certificate authority and credentials, and any may answer.

use std::fmt;
use std::str::FromStr;

use http::Uri;
use http::uri::{Authority, Scheme};

/// The most addresses in one list: clusters have three to seven members.
const ENDPOINTS_MAX: usize = 64;

/// The reason why an address cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// Not a URL with a host.
    #[error("`{0}` is not an address such as https://HOST:PORT")]
    Malformed(String),
    /// Another scheme than http and https.
    #[error("`{0}` has a scheme other than http and https")]
    Scheme(String),
    /// A user or a query in the address.
    #[error("an address holds a user name or a query, which it must not")]
    Extra,
    /// A list without an address.
    #[error("no server address is given")]
    Empty,
    /// A list that is too long.
    #[error("more than {ENDPOINTS_MAX} server addresses are given")]
    TooMany,
}

/// The address of one API server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    scheme: Scheme,
    authority: Authority,
    // Without a slash at its end; empty for most servers.
    prefix: String,
}

impl Endpoint {
    /// Parses a list separated by commas. An address without a scheme has `otherwise`: the reference takes `https` where
    /// anything about TLS is configured, and else `http`.
    pub fn parse_list(text: &str, otherwise: &Scheme) -> Result<Vec<Endpoint>, EndpointError> {
        let texts = text.split(',').map(str::trim).filter(|text| !text.is_empty());
        let endpoints = texts.map(|text| Endpoint::parse(text, otherwise));
        let endpoints = endpoints.collect::<Result<Vec<Endpoint>, _>>()?;
        match endpoints.len() {
            0 => Err(EndpointError::Empty),
            count if count > ENDPOINTS_MAX => Err(EndpointError::TooMany),
            _ => Ok(endpoints),
        }
    }

    /// Host and port, as they stand in the address.
    pub(super) fn host(&self) -> &str {
        self.authority.as_str()
    }

    /// Whether connections are encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.scheme == Scheme::HTTPS
    }

    /// The URI of `path_and_query` at this server.
    ///
    /// # Errors
    /// When `path_and_query` is not valid in a URI; names of objects are encoded before they come here.
    pub(super) fn uri(&self, path_and_query: &str) -> Result<Uri, http::Error> {
        Uri::builder()
            .scheme(self.scheme.clone())
            .authority(self.authority.clone())
            .path_and_query(format!("{}{path_and_query}", self.prefix))
            .build()
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", self.scheme, self.authority, self.prefix)
    }
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    /// Parses one address; `https` where it has no scheme.
    fn from_str(text: &str) -> Result<Self, EndpointError> {
        Endpoint::parse(text, &Scheme::HTTPS)
    }
}

impl Endpoint {
    fn parse(text: &str, otherwise: &Scheme) -> Result<Self, EndpointError> {
        let malformed = || EndpointError::Malformed(text.to_owned());
        let full = if text.contains("://") { text.to_owned() } else { format!("{otherwise}://{text}") };
        let uri: Uri = full.parse().map_err(|_| malformed())?;
        let scheme = uri.scheme().cloned().ok_or_else(malformed)?;
        if scheme != Scheme::HTTP && scheme != Scheme::HTTPS {
            return Err(EndpointError::Scheme(text.to_owned()));
        }
        let authority = uri.authority().cloned().ok_or_else(malformed)?;
        if authority.as_str().contains('@') || uri.query().is_some() {
            return Err(EndpointError::Extra);
        }
        let after_host = authority.as_str().strip_prefix(authority.host()).unwrap_or_default();
        if authority.host().is_empty() || (!after_host.is_empty() && authority.port_u16().is_none()) {
            return Err(malformed());
        }
        Ok(Self { scheme, authority, prefix: uri.path().trim_end_matches('/').to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<&[&str], EndpointError>) {
        let parsed = Endpoint::parse_list(text, &Scheme::HTTP);
        let texts = parsed.map(|list| list.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(texts, expected.map(|list| list.iter().map(|&text| text.to_owned()).collect()), "{text}");
    }

    #[test]
    fn lists_of_addresses_parse() {
        check("https://10.0.0.1:6443", Ok(&["https://10.0.0.1:6443"]));
        check("https://a:1, https://b:2,https://c:3", Ok(&["https://a:1", "https://b:2", "https://c:3"]));
        check("http://[::1]:8080/", Ok(&["http://[::1]:8080"]));
        check("127.0.0.1:6443,https://b", Ok(&["http://127.0.0.1:6443", "https://b"]));
        check("https://proxy/clusters/one/", Ok(&["https://proxy/clusters/one"]));
        check("https://host", Ok(&["https://host"]));
    }

    #[test]
    fn bad_addresses_are_refused() {
        check("", Err(EndpointError::Empty));
        check(" , ", Err(EndpointError::Empty));
        check("ftp://host", Err(EndpointError::Scheme("ftp://host".to_owned())));
        check("https://user:pw@host", Err(EndpointError::Extra));
        check("https://host?x=1", Err(EndpointError::Extra));
        check("https://host:99999", Err(EndpointError::Malformed("https://host:99999".to_owned())));
        check("https://", Err(EndpointError::Malformed("https://".to_owned())));
        check(&["https://h"; 65].join(","), Err(EndpointError::TooMany));
    }

    #[test]
    fn a_prefix_stands_before_the_path() {
        let endpoint: Endpoint = "https://proxy/clusters/one/".parse().unwrap();
        assert_eq!(
            endpoint.uri("/api/v1/pods?limit=5").unwrap(),
            "https://proxy/clusters/one/api/v1/pods?limit=5"
        );
        let endpoint: Endpoint = "https://[::1]:7".parse().unwrap();
        assert_eq!(endpoint.uri("/api").unwrap(), "https://[::1]:7/api");
    }

    #[test]
    fn an_error_does_not_repeat_a_password() {
        let error = Endpoint::parse_list("https://user:hunter2@host", &Scheme::HTTP).unwrap_err();
        assert!(!error.to_string().contains("hunter2"));
    }
}
