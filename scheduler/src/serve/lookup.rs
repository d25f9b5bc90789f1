//! Looks up authorities of clients and front proxies in the cluster, where the flags name none.
//!
//! Owns the name and members of the config map that the API server keeps for that.

use std::collections::BTreeMap;

use orch_proto::Brand;

use super::authentication::ProxyHeaders;
use super::review::Reviewer;
use super::tls::Authorities;

/// The config map.
const NAME: &str = "extension-apiserver-authentication";

/// Who is trusted, as far as flags say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Trust {
    pub(super) users: Option<Authorities>,
    pub(super) proxies: Option<Authorities>,
    pub(super) allowed_names: Vec<String>,
    pub(super) headers: ProxyHeaders,
}

/// Fills what is missing in `trust`. Fails where the config map cannot be read, or is not there.
pub(super) async fn complete(
    trust: &mut Trust,
    reviewer: &dyn Reviewer,
    brand: &Brand,
) -> Result<(), String> {
    if trust.users.is_some() && trust.proxies.is_some() {
        return Ok(());
    }
    let namespace = brand.system_namespace;
    let data = reviewer.config_map(namespace, NAME).await.map_err(|error| error.to_string())?;
    let data = data.ok_or_else(|| format!("configmap {namespace}/{NAME} not found"))?;
    let text = |name: &str| data.get(name).filter(|text| !text.is_empty()).cloned();
    if trust.users.is_none() {
        trust.users = text("client-ca-file").map(Authorities::Text);
    }
    if trust.proxies.is_none()
        && let Some(authorities) = text("requestheader-client-ca-file")
    {
        trust.proxies = Some(Authorities::Text(authorities));
        trust.allowed_names = list(&data, "requestheader-allowed-names")?;
        trust.headers = ProxyHeaders {
            names: list(&data, "requestheader-username-headers")?,
            groups: list(&data, "requestheader-group-headers")?,
            extra_prefixes: list(&data, "requestheader-extra-headers-prefix")?,
        };
    }
    Ok(())
}

/// A member that is a list in JSON; an absent one is empty.
fn list(data: &BTreeMap<String, String>, name: &str) -> Result<Vec<String>, String> {
    match data.get(name) {
        None => Ok(Vec::new()),
        Some(text) => {
            serde_json::from_str(text).map_err(|error| format!("{name} of configmap {NAME}: {error}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use futures::future::BoxFuture;
    use orch_proto::brand::ORCH;

    use super::super::review::{Access, AccessVerdict, ReviewError};
    use super::super::user::User;
    use super::*;

    struct Holds(Option<BTreeMap<String, String>>);

    impl Reviewer for Holds {
        fn review_token<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Option<User>, ReviewError>> {
            unreachable!("only the config map is read")
        }

        fn review_access<'a>(&'a self, _: Access<'a>) -> BoxFuture<'a, Result<AccessVerdict, ReviewError>> {
            unreachable!("only the config map is read")
        }

        fn config_map<'a>(
            &'a self,
            namespace: &'a str,
            name: &'a str,
        ) -> BoxFuture<'a, Result<Option<BTreeMap<String, String>>, ReviewError>> {
            assert_eq!((namespace, name), ("orch-system", NAME));
            async move { Ok(self.0.clone()) }.boxed()
        }
    }

    fn data() -> BTreeMap<String, String> {
        let members = [
            ("client-ca-file", "USERS"),
            ("requestheader-client-ca-file", "PROXIES"),
            ("requestheader-allowed-names", "[\"front\"]"),
            ("requestheader-username-headers", "[\"X-User\"]"),
        ];
        members.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
    }

    #[tokio::test]
    async fn what_flags_do_not_say_is_looked_up() {
        let mut trust = Trust { users: Some(Authorities::File("users.pem".into())), ..Trust::default() };
        complete(&mut trust, &Holds(Some(data())), &ORCH).await.unwrap();
        assert_eq!(trust.users, Some(Authorities::File("users.pem".into())), "a flag wins");
        assert_eq!(trust.proxies, Some(Authorities::Text("PROXIES".into())));
        assert_eq!(trust.allowed_names, ["front"]);
        assert_eq!(trust.headers.names, ["X-User"]);
    }

    #[tokio::test]
    async fn a_missing_config_map_and_bad_lists_are_faults() {
        let mut trust = Trust::default();
        assert!(complete(&mut trust, &Holds(None), &ORCH).await.unwrap_err().ends_with("not found"));
        let mut bad = data();
        bad.insert("requestheader-allowed-names".into(), "front".into());
        assert!(complete(&mut trust, &Holds(Some(bad)), &ORCH).await.is_err());
    }
}
