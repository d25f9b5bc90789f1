//! Requests to other servers: webhooks and issuers of tokens.
//!
//! Owns the rules of such a request: its URL, the addresses that may be dialled, and its bounds. The adapter in `node`
//! resolves, connects and sends. Invariant: an address is checked after the host was resolved, and the address that was
//! checked is the one that is dialled; redirects are answers and never followed.

mod askers;
mod review;
#[cfg(test)]
pub(crate) mod testing;

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::Uri;
use orch_spans::TraceContext;

pub(crate) use self::askers::Askers;
pub use self::review::{ReviewError, ReviewHook, ReviewKind};

/// Bytes of an answer that is read: an answer of a webhook has a few hundred, a set of keys a few thousand.
pub const ANSWER_BYTES_MAX: usize = 1 << 20;
/// Requests to one target that are under way together: what a webhook of the reference's kind answers in parallel.
pub const REQUESTS_MAX: usize = 64;
/// Requests to one target that wait for a place; another is refused at once rather than held until its deadline.
pub const WAITING_MAX: usize = 1024;
/// Longest request, whatever its configuration says: the reference's bound of a webhook's time-out.
pub const TIMEOUT_MAX: Duration = Duration::from_secs(30);

/// Sends requests to one target: a server and whatever its answers refer to.
pub trait Egress: fmt::Debug + Send + Sync {
    /// Sends `request` and reads the whole answer, of any status.
    fn send(&self, request: Outgoing) -> BoxFuture<'_, Result<Reply, EgressError>>;

    /// Completes after `span`, for the pauses between attempts.
    fn pause(&self, span: Duration) -> BoxFuture<'_, ()>;
}

/// A request to another server.
#[derive(Clone)]
pub struct Outgoing {
    /// Where it goes.
    pub url: Url,
    /// The document to POST as JSON; `None`: a GET.
    pub document: Option<Bytes>,
    /// Longest time until the answer is read, waiting for a place and connecting included.
    pub timeout: Duration,
    /// The span that the request is, which the other server is told of; `None`: it is told of no trace.
    pub trace: Option<TraceContext>,
}

/// Documents hold tokens: they are not shown.
impl fmt::Debug for Outgoing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outgoing").field("url", &self.url).finish_non_exhaustive()
    }
}

/// An answer. Its body comes from another server and is not shown.
pub struct Reply {
    /// Status code.
    pub status: u16,
    /// Header `Retry-After`, where it gives seconds.
    pub retry_after: Option<Duration>,
    /// The body, at most [`ANSWER_BYTES_MAX`].
    pub body: Bytes,
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply").field("status", &self.status).field("bytes", &self.body.len()).finish()
    }
}

/// The reason why there is no answer. Never quotes one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EgressError {
    /// An answer named an address that only an operator's file may name.
    #[error("{host}: the address {address} is not dialled unless the configuration names the host")]
    Forbidden {
        /// The host.
        host: String,
        /// The address that it resolved to.
        address: IpAddr,
    },
    /// Plain HTTP to a host that is not this machine.
    #[error("{host}: plain HTTP is only for loopback addresses that the configuration names")]
    Plain {
        /// The host.
        host: String,
    },
    /// The host has no address, nothing listens, or the handshake failed.
    #[error("{host}: {reason}")]
    Unreachable {
        /// The host.
        host: String,
        /// The error of resolving, connecting or the handshake.
        reason: String,
    },
    /// The connection ended before the answer did.
    #[error("{host}: the connection was lost: {reason}")]
    Lost {
        /// The host.
        host: String,
        /// The error of the connection.
        reason: String,
    },
    /// The time is over.
    #[error("{host}: no answer in time")]
    Timeout {
        /// The host.
        host: String,
    },
    /// The answer is larger than [`ANSWER_BYTES_MAX`].
    #[error("{host}: the answer is too large")]
    TooLarge {
        /// The host.
        host: String,
    },
    /// Too many requests wait for this target.
    #[error("{host}: too many requests wait for it")]
    Busy {
        /// The host.
        host: String,
    },
}

/// An absolute URL without user information and fragment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// Whether the connection is encrypted.
    pub scheme: Scheme,
    /// Host name in lower case, or an address without brackets.
    pub host: String,
    /// The port, the scheme's own where the text gives none.
    pub port: u16,
    /// Path and query; at least `/`.
    pub target: String,
}

/// The scheme of a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// `https`.
    Https,
    /// `http`.
    Http,
}

/// The fault of a text that is no URL to be asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// It does not parse, or has no host.
    #[error("not an absolute URL")]
    Malformed,
    /// It has another scheme.
    #[error("URL scheme must be https")]
    Scheme,
    /// It names a user.
    #[error("URL must not contain a username or password")]
    User,
    /// It has a fragment.
    #[error("URL must not contain a fragment")]
    Fragment,
}

impl Url {
    /// Parses `text`.
    ///
    /// # Errors
    /// It is no absolute URL of the schemes, or has parts that are not sent.
    pub fn parse(text: &str) -> Result<Url, UrlError> {
        if text.contains('#') {
            return Err(UrlError::Fragment);
        }
        let uri: Uri = text.parse().map_err(|_| UrlError::Malformed)?;
        let (scheme, port) = match uri.scheme_str() {
            Some("https") => (Scheme::Https, 443),
            Some("http") => (Scheme::Http, 80),
            Some(_) => return Err(UrlError::Scheme),
            None => return Err(UrlError::Malformed),
        };
        let authority = uri.authority().ok_or(UrlError::Malformed)?;
        if authority.as_str().contains('@') {
            return Err(UrlError::User);
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
        if host.is_empty() {
            return Err(UrlError::Malformed);
        }
        // A port that is none is no other one.
        let after_host = authority.as_str().rsplit_once(']').map_or(authority.as_str(), |(_, rest)| rest);
        let port = match after_host.split_once(':') {
            None | Some((_, "")) => port,
            Some((_, text)) => text.parse().map_err(|_| UrlError::Malformed)?,
        };
        let target = uri.path_and_query().map_or("/", |target| target.as_str());
        let target = if target.starts_with('/') { target.to_owned() } else { format!("/{target}") };
        Ok(Url { scheme, host, port, target })
    }

    /// `HOST:PORT` for the header `Host`; without the port where it is the scheme's own.
    pub fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        match (self.scheme, self.port) {
            (Scheme::Https, 443) | (Scheme::Http, 80) => host,
            (_, port) => format!("{host}:{port}"),
        }
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.scheme {
            Scheme::Https => "https",
            Scheme::Http => "http",
        };
        write!(f, "{scheme}://{}{}", self.authority(), self.target)
    }
}

/// The hosts that an operator's file names for one target. Other hosts come from answers of the target, or from objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    named: Vec<String>,
    local: Local,
}

/// The addresses of this machine that hosts may have which no operator's file names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Local {
    /// Those of its interfaces, loopback among them, in encrypted connections.
    Any,
    /// Those of its interfaces but the loopback ones: a server of the same network may be on this machine.
    #[default]
    Interfaces,
    /// None. The dialler asks the system which these are.
    None,
}

impl Reach {
    /// The target's own hosts: those of `urls`.
    pub fn of<'a>(urls: impl IntoIterator<Item = &'a Url>) -> Reach {
        let named = urls.into_iter().map(|url| url.host.clone()).collect();
        Reach { named, local: Local::default() }
    }

    /// No host is named: whoever may write certain objects of the API names them. Webhooks on this machine are common in
    /// tests and at edge sites; `local` says whether they may be there.
    pub fn of_objects(local: Local) -> Reach {
        Reach { named: Vec::new(), local }
    }

    /// Whether the host of `url` may be at an address of an interface of this machine.
    pub fn may_be_here(&self, url: &Url) -> bool {
        // few: the hosts of one target.
        self.local != Local::None || self.named.contains(&url.host)
    }

    /// Whether `address`, to which the host of `url` resolved, may be dialled.
    ///
    /// # Errors
    /// The address belongs to this machine or its link, or is a cloud's metadata service, and no operator named its
    /// host; or the scheme is plain HTTP and the address is another machine's.
    pub fn check(&self, url: &Url, address: IpAddr) -> Result<(), EgressError> {
        // few: the hosts of one target.
        let is_named = self.named.contains(&url.host);
        let address = embedded(address);
        if url.scheme == Scheme::Http && !(is_named && address.is_loopback()) {
            return Err(EgressError::Plain { host: url.host.clone() });
        }
        let is_local_hook = self.local == Local::Any && address.is_loopback();
        if !is_named && !is_local_hook && is_of_this_machine(address) {
            return Err(EgressError::Forbidden { host: url.host.clone(), address });
        }
        Ok(())
    }
}

/// The IPv4 address that `address` reaches where it is an IPv6 form of one: mapped, compatible (::/96), translated
/// (64:ff9b::/96, 64:ff9b:1::/48) or 6to4 (2002::/16). Otherwise `address`.
pub(crate) fn embedded(address: IpAddr) -> IpAddr {
    let IpAddr::V6(six) = address.to_canonical() else { return address.to_canonical() };
    let octets = six.octets();
    let four = |from: usize| {
        IpAddr::V4(Ipv4Addr::new(octets[from], octets[from + 1], octets[from + 2], octets[from + 3]))
    };
    match six.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, _, _] | [0x64, 0xff9b, 1, ..] => four(12),
        // `::` and `::1` are addresses of IPv6 itself.
        [0, 0, 0, 0, 0, 0, high, low] if high != 0 || low > 1 => four(12),
        [0x2002, ..] => four(2),
        _ => address,
    }
}

/// Whether `address` is this machine's, its link's, a group's or a metadata service's.
pub(crate) fn is_of_this_machine(address: IpAddr) -> bool {
    /// Metadata services of clouds that are not link-local (169.254.169.254): Amazon, Google and Oracle on IPv6.
    const METADATA_SIX: [Ipv6Addr; 3] = [
        Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254),
        Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254),
        Ipv6Addr::new(0xfd00, 0xc1, 0, 0, 0, 0, 0xa9fe, 0xa9fe),
    ];
    /// The same on IPv4: Alibaba, Oracle, and the host service of Azure.
    const METADATA_FOUR: [Ipv4Addr; 3] =
        [Ipv4Addr::new(100, 100, 100, 200), Ipv4Addr::new(192, 0, 0, 192), Ipv4Addr::new(168, 63, 129, 16)];
    match address {
        IpAddr::V4(four) => {
            four.is_loopback()
                || four.is_link_local()
                || four.is_broadcast()
                || four.is_multicast()
                || four.octets()[0] == 0
                // few: the constants above.
                || METADATA_FOUR.contains(&four)
        }
        IpAddr::V6(six) => {
            six.is_loopback()
                || six.is_unspecified()
                || six.is_multicast()
                || six.is_unicast_link_local()
                // few: the constants above.
                || METADATA_SIX.contains(&six)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_absolute_and_carry_nothing_that_is_not_sent() {
        for (text, expected) in [
            ("https://Example.com", Ok("https://example.com/")),
            ("https://example.com:8443/a?b=c", Ok("https://example.com:8443/a?b=c")),
            ("https://[::1]:1/x", Ok("https://[::1]:1/x")),
            ("http://127.0.0.1:80/x", Ok("http://127.0.0.1/x")),
            ("https://[::1]/x", Ok("https://[::1]/x")),
            ("https://example.com:/x", Ok("https://example.com/x")),
            ("https://example.com:65536/x", Err(UrlError::Malformed)),
            ("https://127.0.0.1:99999999999/x", Err(UrlError::Malformed)),
            ("https://a@example.com/", Err(UrlError::User)),
            ("https://example.com/#a", Err(UrlError::Fragment)),
            ("file:///etc/passwd", Err(UrlError::Malformed)),
            ("gopher://example.com/", Err(UrlError::Scheme)),
            ("example.com", Err(UrlError::Malformed)),
            ("/a", Err(UrlError::Malformed)),
            ("", Err(UrlError::Malformed)),
        ] {
            let found = Url::parse(text).map(|url| url.to_string());
            assert_eq!(found, expected.map(str::to_owned), "{text:?}");
        }
    }

    #[test]
    fn addresses_of_this_machine_are_dialled_only_where_an_operator_names_the_host() {
        let named = Url::parse("https://issuer.example/").unwrap();
        let other = Url::parse("https://other.example/").unwrap();
        let reach = Reach::of([&named]);
        for address in [
            "127.0.0.1",
            "0.0.0.0",
            "169.254.169.254",
            "224.0.0.1",
            "255.255.255.255",
            "::1",
            "::",
            "fe80::1",
            "ff02::1",
            "fd00:ec2::254",
            "::ffff:127.0.0.1",
            "64:ff9b::a9fe:a9fe",
            "2002:7f00:1::",
            "64:ff9b:1::7f00:1",
            "::127.0.0.1",
            "100.100.100.200",
            "192.0.0.192",
            "168.63.129.16",
            "fd20:ce::254",
            "fd00:c1::a9fe:a9fe",
        ] {
            let address = address.parse().unwrap();
            assert_eq!(reach.check(&named, address), Ok(()), "{address}");
            let refused = reach.check(&other, address).unwrap_err();
            assert!(matches!(refused, EgressError::Forbidden { .. }), "{address}: {refused}");
        }
        for address in ["10.0.0.1", "192.0.2.1", "2001:db8::1", "fd00::1"] {
            assert_eq!(reach.check(&other, address.parse().unwrap()), Ok(()), "{address}");
        }
    }

    #[test]
    fn hosts_of_objects_are_never_metadata_services_and_on_this_machine_only_where_that_is_allowed() {
        let url = Url::parse("https://hook.example/").unwrap();
        let is_dialled = |reach: Reach, address: &str| reach.check(&url, address.parse().unwrap()).is_ok();
        for local in [Local::Any, Local::Interfaces, Local::None] {
            let reach = || Reach::of_objects(local);
            for loopback in ["127.0.0.1", "127.8.0.1", "::1", "::ffff:127.0.0.1"] {
                assert_eq!(is_dialled(reach(), loopback), local == Local::Any, "{loopback}");
            }
            assert_eq!(reach().may_be_here(&url), local != Local::None);
            for refused in
                ["169.254.169.254", "0.0.0.0", "::", "fe80::1", "fd00:ec2::254", "64:ff9b::a9fe:a9fe"]
            {
                assert!(!is_dialled(reach(), refused), "{refused}");
            }
            assert!(is_dialled(reach(), "10.0.0.1"));
            let plain = Url::parse("http://hook.example/").unwrap();
            assert!(reach().check(&plain, "127.0.0.1".parse().unwrap()).is_err());
        }
    }

    #[test]
    fn plain_http_stays_on_this_machine() {
        let plain = Url::parse("http://hook.example/").unwrap();
        let loopback: IpAddr = "127.0.0.1".parse().unwrap();
        assert_eq!(Reach::of([&plain]).check(&plain, loopback), Ok(()));
        for (reach, address) in [(Reach::of([&plain]), "10.0.0.1"), (Reach::default(), "127.0.0.1")] {
            let refused = reach.check(&plain, address.parse().unwrap()).unwrap_err();
            assert!(matches!(refused, EgressError::Plain { .. }), "{refused}");
        }
    }
}
