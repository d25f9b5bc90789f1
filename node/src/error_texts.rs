//! No error of this crate, or of a crate below that reaches the command line, prints the same text twice.

use std::error::Error;
use std::io::{Error as IoError, ErrorKind};
use std::path::PathBuf;

use orch_api::authn::TokenFileError;
use orch_raft::disk::rocks::OpenError;
use orch_raft::member::StartError;
use orch_raft::transport::tonic::{ClusterPinError, PeerNameError, PeerTlsError};
use orch_serving::Causes;

use crate::admin::{AccessError, RequestError};
use crate::certs::CertsError;
use crate::cli::{FileError, ParseError};
use crate::run::RunError;
use crate::server::{BindError, SocketError};
use crate::tls::MaterialError;
use crate::token_keys::KeyFileError;

fn io() -> IoError {
    IoError::from(ErrorKind::AddrInUse)
}

fn path() -> PathBuf {
    "/data/file".into()
}

fn run_errors() -> Vec<RunError> {
    vec![
        RunError::Flags("--name is missing".to_owned()),
        RunError::File { flag: "client-ca-file", path: path(), source: io() },
        RunError::Tokens { path: path(), source: TokenFileError::NoUser { line: 2 } },
        RunError::NotOurs { path: path() },
        CertsError::File { action: "read", path: path(), source: io() }.into(),
        CertsError::Exists { path: path() }.into(),
        RunError::Material {
            origin: "--tls-cert-file".to_owned(),
            source: MaterialError::Unreadable { path: path(), source: io() },
        },
        RunError::TokenKeys {
            origin: "--service-account-key-file",
            source: KeyFileError::Unreadable { path: path(), source: io() },
        },
        RunError::Signing {
            signer: "",
            source: CertsError::File { action: "read", path: path(), source: io() },
        },
        RunError::PeerMaterial { path: path(), source: PeerTlsError::Nameless(PeerNameError::Missing) },
        RunError::PeerMaterial { path: path(), source: PeerTlsError::KeyMismatch("no".to_owned()) },
        OpenError::InUse { path: path(), holder: "process 1".to_owned() }.into(),
        RunError::Member { path: path(), source: StartError::Disk { reason: "rot".to_owned() } },
        bind_error(" (choose another)").into(),
        RunError::Resolve { flag: "peer-address", address: "h:1".to_owned(), reason: "none".to_owned() },
        SocketError { path: path(), hint: " (another process answers there)", source: io() }.into(),
        RunError::DataDir { path: path(), source: io() },
        RunError::DataFile { action: "read", path: path(), source: io() },
        RunError::Brand { asked: "orch".to_owned(), found: "kubernetes".to_owned() },
        RunError::UnknownBrand("acme".to_owned()),
        ClusterPinError::Malformed("a b".to_owned()).into(),
        RunError::System { action: "start threads", source: io() },
        RunError::Fatal("disk".to_owned()),
        RunError::Peers("port".to_owned()),
        RunError::Interrupted,
    ]
}

fn bind_error(hint: &str) -> BindError {
    BindError { address: ([127, 0, 0, 1], 1).into(), purpose: "HTTPS", source: io(), hint: hint.to_owned() }
}

#[test]
fn every_error_says_its_reason_once() {
    let mut errors: Vec<Box<dyn Error>> = Vec::new();
    errors.extend(run_errors().into_iter().map(|error| Box::new(error) as Box<dyn Error>));
    errors.push(Box::new(AccessError::Unreadable {
        origin: "--kubeconfig",
        path: path(),
        hint: "",
        source: io(),
    }));
    errors.push(Box::new(RequestError::Unreachable("\n  h:1: refused".to_owned())));
    errors.push(Box::new(ParseError::from(FileError::Unreadable { path: path(), source: io() })));
    errors.push(Box::new(ParseError::Unreadable {
        flag: "oidc-ca-file".to_owned(),
        path: path(),
        source: io(),
    }));
    errors.push(Box::new(FileError::Syntax { path: path(), reason: "line 1".to_owned() }));
    errors.push(Box::new(CertsError::Make {
        name: "ca".to_owned(),
        source: rcgen::Error::CouldNotParseCertificate,
    }));
    for error in errors {
        let text = Causes(&*error).to_string();
        let sentences: Vec<&str> = text.split(": ").collect();
        for (at, sentence) in sentences.iter().enumerate() {
            assert!(!sentences[..at].contains(sentence), "{error:?} is printed as {text:?}");
        }
        let mut cause = error.source();
        while let Some(inner) = cause {
            assert_eq!(text.matches(&inner.to_string()).count(), 1, "{error:?} is printed as {text:?}");
            cause = inner.source();
        }
    }
}

#[test]
fn the_reason_of_the_system_is_printed() {
    let error = RunError::from(bind_error(""));
    assert_eq!(Causes(&error).to_string(), format!("cannot listen on 127.0.0.1:1 for HTTPS: {}", io()));
}
