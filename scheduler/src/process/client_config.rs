//! The connection to the API server: which file, address or account leads to it.
//!
//! Owns the order of the sources, which is the reference's: the client configuration file, `--master`, the account of
//! the pod around this process, a variable of the environment. It opens no connection.

use std::path::Path;

use http::uri::Scheme;
use orch_proto::Brand;

use crate::client::{Config, ConfigError, ContentType, Endpoint, chain, in_cluster, user_agent};
use crate::config::types::ClientConnection;

/// The configuration of clients. `environment` looks a variable up; `root` is `/` but in tests.
pub(super) fn config(
    connection: &ClientConnection,
    master: Option<&str>,
    brand: &Brand,
    root: &Path,
    environment: impl Fn(&str) -> Option<String>,
) -> Result<Config, String> {
    let content_type: ContentType =
        connection.content_type.parse().map_err(|error| format!("clientConnection.contentType: {error}"))?;
    let burst = u32::try_from(connection.burst)
        .map_err(|_| format!("clientConnection.burst: {} is negative", connection.burst))?;
    let config = source(connection, master, brand, root, environment).map_err(|error| chain(&error))?;
    let accepted = ContentType::first_of(&connection.accept_content_types)
        .map_err(|error| format!("clientConnection.acceptContentTypes: {error}"))?;
    let mut config = config.with_limits(content_type, connection.qps, burst);
    // The server names the manager of fields by it.
    config.user_agent = user_agent(&format!("{}-scheduler", brand.component_prefix));
    Ok(config.accepting(accepted.unwrap_or(content_type)))
}

fn source(
    connection: &ClientConnection,
    master: Option<&str>,
    brand: &Brand,
    root: &Path,
    environment: impl Fn(&str) -> Option<String>,
) -> Result<Config, ConfigError> {
    let master = master.filter(|master| !master.is_empty());
    match (connection.client_config.as_str(), master) {
        ("", Some(master)) => Ok(Config::new(Endpoint::parse_list(master, &Scheme::HTTP)?)),
        ("", None) => match in_cluster(brand, root, &environment) {
            Err(ConfigError::NotInCluster(reason)) => {
                let variable = format!("{}_MASTER", brand.name.to_uppercase());
                match environment(&variable).filter(|value| !value.is_empty()) {
                    Some(address) => Ok(Config::new(Endpoint::parse_list(&address, &Scheme::HTTP)?)),
                    None => Err(ConfigError::NotInCluster(reason)),
                }
            }
            other => other,
        },
        (path, master) => crate::client::from_file(Path::new(path), None, master),
    }
}

#[cfg(test)]
mod tests {
    use orch_proto::brand::ORCH;

    use super::*;

    const FILE: &str = "current-context: a\ncontexts:\n- name: a\n  context: {cluster: c}\nclusters:\n- name: c\n  \
                        cluster: {server: \"http://127.0.0.1:1\"}\n";

    fn addresses(file: &str, master: Option<&str>, variables: &[(&str, &str)]) -> Result<String, String> {
        let connection = ClientConnection {
            client_config: file.to_owned(),
            content_type: "application/json".to_owned(),
            qps: 5.0,
            burst: 7,
            ..ClientConnection::default()
        };
        let environment = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let config = config(&connection, master, &ORCH, Path::new("/nonexistent"), environment)?;
        assert_eq!((config.content_type, config.qps, config.burst), (ContentType::Json, 5.0, 7));
        Ok(config.endpoints.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn the_server_names_the_manager_of_fields_after_the_component() {
        for (brand, expected) in
            [(&ORCH, "orch-scheduler"), (&orch_proto::brand::KUBERNETES, "kube-scheduler")]
        {
            let connection = ClientConnection {
                content_type: "application/json".to_owned(),
                ..ClientConnection::default()
            };
            let address = Some("http://127.0.0.1:2");
            let config = config(&connection, address, brand, Path::new("/nonexistent"), |_| None).unwrap();
            assert_eq!(config.user_agent.split('/').next(), Some(expected));
        }
    }

    #[test]
    fn the_first_source_that_is_given_decides() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("a.conf");
        std::fs::write(&file, FILE).unwrap();
        let file = file.to_str().unwrap();
        let empty = directory.path().join("empty.conf");
        std::fs::write(&empty, "users: null\n").unwrap();
        let empty = empty.to_str().unwrap();
        let variable = [("ORCH_MASTER", "http://127.0.0.1:3")];
        for (file, master, variables, expected) in [
            (file, None, &variable[..], "http://127.0.0.1:1"),
            (file, Some(""), &[], "http://127.0.0.1:1"),
            (
                file,
                Some("http://127.0.0.1:2,http://127.0.0.1:4"),
                &[],
                "http://127.0.0.1:2 http://127.0.0.1:4",
            ),
            (empty, Some("http://127.0.0.1:2"), &variable, "http://127.0.0.1:2"),
            ("", Some("http://127.0.0.1:2"), &variable, "http://127.0.0.1:2"),
            ("", None, &variable, "http://127.0.0.1:3"),
            ("", Some("127.0.0.1:2"), &[], "http://127.0.0.1:2"),
            (file, Some("127.0.0.1:2"), &[], "http://127.0.0.1:2"),
        ] {
            assert_eq!(addresses(file, master, variables).as_deref(), Ok(expected), "{file} {master:?}");
        }
        let error = addresses("", None, &[]).unwrap_err();
        assert_eq!(error, "not in a cluster: ORCH_SERVICE_HOST is not set");
        assert!(addresses("/nonexistent/a.conf", None, &[]).unwrap_err().contains("/nonexistent/a.conf"));
    }

    #[test]
    fn limits_and_forms_that_no_client_has_are_refused() {
        let with = |content_type: &str, burst| {
            let connection = ClientConnection {
                content_type: content_type.to_owned(),
                burst,
                ..ClientConnection::default()
            };
            config(&connection, Some("http://127.0.0.1:2"), &ORCH, Path::new("/nonexistent"), |_| None)
        };
        assert!(with("text/plain", 1).unwrap_err().starts_with("clientConnection.contentType: "));
        assert_eq!(with("", -1).unwrap_err(), "clientConnection.burst: -1 is negative");
        assert_eq!(with(ORCH.protobuf_media_type, 1).unwrap().content_type, ContentType::Protobuf);
    }

    #[test]
    fn answers_come_in_the_first_accepted_form_or_in_that_of_requests() {
        let accepted = |accept_content_types: &str| {
            let connection = ClientConnection {
                content_type: ORCH.protobuf_media_type.to_owned(),
                accept_content_types: accept_content_types.to_owned(),
                ..ClientConnection::default()
            };
            let config =
                config(&connection, Some("http://127.0.0.1:2"), &ORCH, Path::new("/nonexistent"), |_| None)?;
            Ok((config.content_type, config.accepted))
        };
        assert_eq!(accepted(""), Ok((ContentType::Protobuf, ContentType::Protobuf)));
        assert_eq!(accepted("text/plain,application/json"), Ok((ContentType::Protobuf, ContentType::Json)));
        let error: Result<_, String> = accepted("text/plain");
        assert!(error.unwrap_err().starts_with("clientConnection.acceptContentTypes: `text/plain`"));
    }
}
