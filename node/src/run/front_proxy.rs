//! Resolves the flags of front proxies: the files of their authorities and the names of their headers.

use http::header::HeaderName;
use orch_api::authn::front_proxy::IdentityHeaders;

use super::error::RunError;
use crate::cli::FrontProxyArgs;
use crate::tls::ProxyFiles;

/// The front proxies that are trusted; `None` without `--requestheader-client-ca-file`.
pub(super) fn files(arguments: &FrontProxyArgs) -> Option<ProxyFiles> {
    let authorities = arguments.requestheader_client_ca_file.clone()?;
    Some(ProxyFiles { authorities, allowed_names: arguments.requestheader_allowed_names.clone() })
}

/// The headers in which front proxies describe users.
pub(super) fn headers(arguments: &FrontProxyArgs) -> Result<IdentityHeaders, RunError> {
    let prefixes =
        names("requestheader-extra-headers-prefix", &arguments.requestheader_extra_headers_prefix)?;
    Ok(IdentityHeaders {
        usernames: names("requestheader-username-headers", &arguments.requestheader_username_headers)?,
        uids: names("requestheader-uid-headers", &arguments.requestheader_uid_headers)?,
        groups: names("requestheader-group-headers", &arguments.requestheader_group_headers)?,
        extra_prefixes: prefixes.iter().map(|prefix| prefix.as_str().to_owned()).collect(),
    })
}

/// The values of `flag` as names of headers, which are in lower case.
fn names(flag: &str, values: &[String]) -> Result<Vec<HeaderName>, RunError> {
    let parse = |value: &String| {
        HeaderName::from_bytes(value.as_bytes())
            .map_err(|_| RunError::Flags(format!("--{flag}: {value:?} is not the name of a header")))
    };
    values.iter().map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command, parse};

    fn arguments(flags: &str) -> FrontProxyArgs {
        let line = format!("orch dev {flags}");
        let Cli { command } = parse(line.split_whitespace().map(Into::into).collect()).unwrap();
        let Command::Dev(arguments) = command else { panic!("{line}") };
        arguments.shared.front_proxy
    }

    #[test]
    fn flags_of_front_proxies_name_headers_and_authorities() {
        let none = arguments("");
        assert_eq!(files(&none), None);
        let headers_of = |flags: &str| headers(&arguments(flags)).unwrap();
        let found = headers_of("");
        assert_eq!((found.usernames[0].as_str(), found.uids.len()), ("x-remote-user", 0));
        assert_eq!(
            (found.groups[0].as_str(), found.extra_prefixes[0].as_str()),
            ("x-remote-group", "x-remote-extra-")
        );
        let found = headers_of("--requestheader-username-headers=X-A,X-B --requestheader-uid-headers X-Uid");
        assert_eq!((found.usernames[1].as_str(), found.uids[0].as_str()), ("x-b", "x-uid"));
        let given = arguments("--requestheader-client-ca-file p.crt --requestheader-allowed-names a,b");
        let expected =
            ProxyFiles { authorities: "p.crt".into(), allowed_names: vec!["a".to_owned(), "b".to_owned()] };
        assert_eq!(files(&given), Some(expected));
        for wrong in [
            "--requestheader-username-headers=X-A,",
            "--requestheader-extra-headers-prefix=X(",
            "--requestheader-group-headers= ",
        ] {
            let error = headers(&arguments(wrong)).unwrap_err().to_string();
            assert!(error.ends_with("is not the name of a header"), "{wrong}: {error}");
        }
    }
}
