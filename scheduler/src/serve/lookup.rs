//! Looks up authorities of clients and front proxies in the cluster, where the flags name none, and follows them.
//!
//! Owns the name and members of the config map that the API server keeps for that. It is read again each [`LOOK_EVERY`]:
//! authorities that are no longer there are trusted no longer, and a look that failed is repeated. Where they
//! cannot be read or used, the former authorities stay in use.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use orch_proto::Brand;

use super::authentication::ProxyHeaders;
use super::review::Reviewer;
use super::tls::{Authorities, Clients, MaterialError, Tls};

/// The config map.
const NAME: &str = "extension-apiserver-authentication";

/// Time between looks: the longest that an authority counts after it was taken away.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// The authorities and proxy headers that flags or the cluster's config map name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Trust {
    pub(super) users: Option<Authorities>,
    pub(super) proxies: Option<Authorities>,
    pub(super) allowed_names: Vec<String>,
    pub(super) headers: ProxyHeaders,
}

/// A config map that is looked at again and again.
pub(super) struct Lookup {
    /// The trust that the flags give.
    pub(super) given: Trust,
    pub(super) reviewer: Arc<dyn Reviewer>,
    pub(super) brand: &'static Brand,
    /// The names of headers that authentication uses.
    pub(super) headers: Arc<ArcSwap<ProxyHeaders>>,
}

impl Lookup {
    /// Follows the config map and never ends. `trust` is what is in force in `tls`.
    pub(super) async fn follow(self, mut trust: Trust, tls: Tls) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            match self.changed(&trust).await {
                Ok(None) => {}
                Ok(Some((found, clients))) => {
                    tracing::info!("the cluster names other authorities of clients");
                    self.headers.store(Arc::new(found.headers.clone()));
                    tls.replace_clients(clients);
                    trust = found;
                }
                Err(error) => {
                    tracing::warn!(error, "authorities of clients cannot be looked up: the former stay");
                }
            }
        }
    }

    /// The trust now, if that is not `trust`.
    async fn changed(&self, trust: &Trust) -> Result<Option<(Trust, Clients)>, String> {
        let mut found = self.given.clone();
        complete(&mut found, self.reviewer.as_ref(), self.brand).await?;
        if found == *trust {
            return Ok(None);
        }
        let clients = found.clients().map_err(|error| error.to_string())?;
        Ok(Some((found, clients)))
    }
}

impl Trust {
    /// Whether flags name authorities of both kinds, so that nothing is looked up.
    pub(super) fn is_complete(&self) -> bool {
        self.users.is_some() && self.proxies.is_some()
    }

    /// The clients of these authorities, which are read.
    pub(super) fn clients(&self) -> Result<Clients, MaterialError> {
        Clients::load(self.users.clone(), self.proxies.clone(), self.allowed_names.clone())
    }
}

/// Fills what is missing in `trust`. Fails where the config map cannot be read, or is not there.
pub(super) async fn complete(
    trust: &mut Trust,
    reviewer: &dyn Reviewer,
    brand: &Brand,
) -> Result<(), String> {
    if trust.is_complete() {
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
    use parking_lot::Mutex;

    use super::super::review::{Access, AccessVerdict, ReviewError};
    use super::super::user::User;
    use super::*;

    #[derive(Default)]
    struct Holds(Mutex<Option<BTreeMap<String, String>>>);

    impl Holds {
        fn new(data: Option<BTreeMap<String, String>>) -> Holds {
            Holds(Mutex::new(data))
        }
    }

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
            async move { Ok(self.0.lock().clone()) }.boxed()
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
    async fn settings_that_flags_leave_open_are_looked_up() {
        let mut trust = Trust { users: Some(Authorities::File("users.pem".into())), ..Trust::default() };
        complete(&mut trust, &Holds::new(Some(data())), &ORCH).await.unwrap();
        assert_eq!(trust.users, Some(Authorities::File("users.pem".into())), "a flag wins");
        assert_eq!(trust.proxies, Some(Authorities::Text("PROXIES".into())));
        assert_eq!(trust.allowed_names, ["front"]);
        assert_eq!(trust.headers.names, ["X-User"]);
    }

    #[tokio::test]
    async fn a_missing_config_map_and_bad_lists_are_faults() {
        let mut trust = Trust::default();
        assert!(complete(&mut trust, &Holds::new(None), &ORCH).await.unwrap_err().ends_with("not found"));
        let mut bad = data();
        bad.insert("requestheader-allowed-names".into(), "front".into());
        assert!(complete(&mut trust, &Holds::new(Some(bad)), &ORCH).await.is_err());
    }

    /// A certificate that signs, in PEM.
    fn authority() -> String {
        let certified = rcgen::generate_simple_self_signed(vec!["authority".to_owned()]).unwrap();
        certified.cert.pem()
    }

    #[tokio::test]
    async fn authorities_of_the_cluster_are_followed() {
        let map = |authority: &str| Some([("client-ca-file".to_owned(), authority.to_owned())].into());
        let holds = Arc::new(Holds::default());
        let lookup = Lookup {
            given: Trust::default(),
            reviewer: holds.clone(),
            brand: &ORCH,
            headers: Arc::default(),
        };
        let none = Trust::default();
        assert!(lookup.changed(&none).await.is_err(), "a look that fails is no answer");
        let (old, new) = (authority(), authority());
        *holds.0.lock() = map(&old);
        let (first, clients) = lookup.changed(&none).await.unwrap().unwrap();
        assert_eq!(first.users, Some(Authorities::Text(old)));
        assert!(clients.handshake().is_some());
        assert!(lookup.changed(&first).await.unwrap().is_none());
        *holds.0.lock() = map(&new);
        let (second, _) = lookup.changed(&first).await.unwrap().unwrap();
        assert_eq!(second.users, Some(Authorities::Text(new)));
        *holds.0.lock() = map("nonsense");
        assert!(lookup.changed(&second).await.is_err(), "what cannot be used changes nothing");
    }

    #[tokio::test(start_paused = true)]
    async fn an_authority_that_the_cluster_no_longer_names_is_trusted_no_longer() {
        let holds = Arc::new(Holds::new(Some(data())));
        let (tls, headers) = (Tls::for_test(), Arc::<ArcSwap<ProxyHeaders>>::default());
        let lookup = Lookup { given: Trust::default(), reviewer: holds.clone(), brand: &ORCH, headers };
        let headers = lookup.headers.clone();
        let members = [
            ("requestheader-client-ca-file", authority()),
            ("requestheader-username-headers", "[\"X-User\"]".to_owned()),
        ];
        *holds.0.lock() = Some(members.map(|(name, text)| (name.to_owned(), text)).into());
        tokio::spawn(lookup.follow(Trust::default(), tls.clone()));
        assert!(tls.clients().handshake().is_none());
        tokio::time::sleep(LOOK_EVERY * 2).await;
        assert!(tls.clients().handshake().is_some());
        assert_eq!(headers.load().names, ["X-User"]);
        *holds.0.lock() = Some(BTreeMap::new());
        tokio::time::sleep(LOOK_EVERY * 2).await;
        assert!(tls.clients().handshake().is_none());
        assert_eq!(**headers.load(), ProxyHeaders::default());
    }
}
