//! Why a server was not reached, and what to do about it: a person at night has this line alone, where no server answers.
//!
//! Owns the next step for each failure of a connection and for refusals of a client's credentials. It asks nothing.

use std::fmt;
use std::io::{Error, ErrorKind};

use http::StatusCode;
use rustls::{AlertDescription, CertificateError};

/// The failure of a connection to a server.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unreached {
    reason: String,
    next: &'static str,
}

impl Unreached {
    /// The connection was not there in time.
    pub(super) fn late() -> Unreached {
        Unreached { reason: "no connection in time".to_owned(), next: SILENT }
    }

    /// The host is no name and no address.
    pub(super) fn unnamed(reason: String) -> Unreached {
        Unreached { reason, next: UNNAMED }
    }
}

/// For the reader of a status: with the next step.
impl fmt::Display for Unreached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n     -> {}", self.reason, self.next)
    }
}

/// For callers that try again: the reason alone.
impl From<Unreached> for String {
    fn from(unreached: Unreached) -> String {
        unreached.reason
    }
}

impl From<Error> for Unreached {
    fn from(error: Error) -> Unreached {
        let tls = error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>());
        let next = tls.map_or_else(|| of_connection(&error), of_tls);
        Unreached { reason: error.to_string(), next }
    }
}

const SILENT: &str = "the machine is off, or something between drops the connection: try nc -vz HOST PORT from here, and from another machine";
const UNNAMED: &str =
    "see what the name stands for here (getent hosts NAME), or name the server by its address with --server";
const BROKEN: &str =
    "look at the log of the member; if another program listens there, name the right port with --server";

fn of_connection(error: &Error) -> &'static str {
    match error.kind() {
        ErrorKind::ConnectionRefused => {
            "nothing listens there: start the member, or see in its log why it ended (systemctl status orch)"
        }
        ErrorKind::TimedOut | ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable => SILENT,
        // A resolver's failures have no kind, and no number of the system.
        _ if error.raw_os_error().is_none() && error.to_string().contains("lookup address") => UNNAMED,
        _ => BROKEN,
    }
}

fn of_tls(error: &rustls::Error) -> &'static str {
    match error {
        rustls::Error::InvalidCertificate(
            CertificateError::Expired | CertificateError::ExpiredContext { .. },
        ) => {
            "its serving certificate has ended, or the clock here runs ahead (date): orch certs renew, and give the member its new files"
        }
        rustls::Error::InvalidCertificate(
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. },
        ) => {
            "the clock here is behind, or was ahead there when the certificate was made: compare date on both"
        }
        rustls::Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => {
            "its certificate has other addresses: use one of them with --server, or orch certs add --member NAME=ADDRESS"
        }
        rustls::Error::InvalidCertificate(_) => {
            "its authority is not the one of this configuration: it is of another cluster, or older than a change of authorities (orch certs \
             rotate-ca); name another one with --kubeconfig"
        }
        rustls::Error::AlertReceived(
            AlertDescription::CertificateExpired
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateUnknown
            | AlertDescription::BadCertificate
            | AlertDescription::UnknownCA,
        ) => OF_CLIENT,
        _ => BROKEN,
    }
}

const OF_CLIENT: &str = "the server does not take the credentials of this configuration: they may have ended (orch certs renew) or be of another cluster; name \
                         another one with --kubeconfig";

/// The next step after a refusal; `None`: its own words say what is to be done.
pub(super) fn next_after(status: StatusCode) -> Option<&'static str> {
    match status {
        StatusCode::UNAUTHORIZED => Some(OF_CLIENT),
        StatusCode::FORBIDDEN => Some(
            "use the administrator's configuration (--kubeconfig admin.conf), or bind its user to cluster-admin",
        ),
        StatusCode::SERVICE_UNAVAILABLE => Some(
            "it starts, or has left the cluster: ask again in a minute, or name another one with --server",
        ),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_of_a_connection_is_named_with_the_next_step() {
        let of_certificate = |error: CertificateError| {
            Error::new(ErrorKind::InvalidData, rustls::Error::InvalidCertificate(error))
        };
        let alert =
            |alert: AlertDescription| Error::new(ErrorKind::InvalidData, rustls::Error::AlertReceived(alert));
        let table: [(Error, &str, &str); 11] = [
            (ErrorKind::ConnectionRefused.into(), "refused", "start the member"),
            (ErrorKind::HostUnreachable.into(), "unreachable", "the machine is off"),
            (ErrorKind::NetworkUnreachable.into(), "unreachable", "nc -vz"),
            (
                Error::other("failed to lookup address information: Name or service not known"),
                "lookup",
                "getent hosts",
            ),
            (of_certificate(CertificateError::Expired), "xpired", "orch certs renew"),
            (of_certificate(CertificateError::NotValidYet), "NotValidYet", "clock"),
            (of_certificate(CertificateError::NotValidForName), "NotValidForName", "--server"),
            (of_certificate(CertificateError::UnknownIssuer), "UnknownIssuer", "another cluster"),
            (alert(AlertDescription::CertificateExpired), "alert", "orch certs renew"),
            (alert(AlertDescription::HandshakeFailure), "alert", "log of the member"),
            (ErrorKind::ConnectionReset.into(), "reset", "log of the member"),
        ];
        for (error, reason, next) in table {
            let shown = Unreached::from(error).to_string();
            let (told, step) = shown.split_once("\n     -> ").unwrap();
            assert!(told.contains(reason) && step.contains(next), "{shown}");
        }
        assert!(Unreached::late().to_string().contains("-> the machine is off"));
        assert_eq!(String::from(Unreached::late()), "no connection in time");
    }

    #[test]
    fn refused_credentials_and_servers_that_are_not_ready_have_a_next_step() {
        for (code, next) in [(401, "orch certs renew"), (403, "admin.conf"), (503, "in a minute")] {
            let step = next_after(StatusCode::from_u16(code).unwrap()).unwrap();
            assert!(step.contains(next), "{code}: {step}");
        }
        assert_eq!(next_after(StatusCode::CONFLICT), None);
    }
}
