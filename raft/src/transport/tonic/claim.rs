//! The identity that a member claims with every call and stream, and its check.
//!
//! The certificate proves a name. The metadata adds the id, the cluster and the purpose; they must fit the name and
//! this member's own cluster before a frame is read. Everything in them is a claim until [`Gate::admit`] has passed.

use std::sync::{Arc, OnceLock};

use tonic::metadata::{Ascii, MetadataMap, MetadataValue};
use tonic::service::Interceptor;
use tonic::{Request, Status};

use super::incoming::PeerInfo;
use crate::transport::{Known, NodeId, Purpose};
use crate::warnings::Warnings;

const KEY_NODE_ID: &str = "orch-node-id";
const KEY_NODE_NAME: &str = "orch-node-name";
const KEY_CLUSTER: &str = "orch-cluster";
const KEY_PURPOSE: &str = "orch-purpose";
/// Bytes of a cluster's id. Ours are UUIDs.
const CLUSTER_BYTES_MAX: usize = 64;

/// The failure of [`ClusterPin::pin`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClusterPinError {
    /// A member belongs to one cluster for ever.
    #[error("this member belongs to cluster {pinned}, not to {given}")]
    Other {
        /// Id of the cluster pinned before.
        pinned: Arc<str>,
        /// Id of the cluster given now.
        given: String,
    },
    /// An id is 1 to 64 visible ASCII characters.
    #[error("{0:?} is not a cluster id")]
    Malformed(String),
}

/// The cluster this member belongs to, once it is known. Clones share it: transport and server take one each.
#[derive(Clone, Debug, Default)]
pub struct ClusterPin(Arc<OnceLock<Arc<str>>>);

impl ClusterPin {
    /// Sets the cluster id, once. Until then this member sends no cluster id and refuses no peer for its own; peers
    /// decide by whether they know the id.
    pub fn pin(&self, cluster: &str) -> Result<(), ClusterPinError> {
        let is_visible = cluster.bytes().all(|byte| byte.is_ascii_graphic());
        if cluster.is_empty() || cluster.len() > CLUSTER_BYTES_MAX || !is_visible {
            return Err(ClusterPinError::Malformed(cluster.to_owned()));
        }
        let pinned = self.0.get_or_init(|| cluster.into());
        if **pinned == *cluster {
            return Ok(());
        }
        Err(ClusterPinError::Other { pinned: Arc::clone(pinned), given: cluster.to_owned() })
    }

    /// The cluster id; `None` until it is pinned.
    pub fn cluster(&self) -> Option<&Arc<str>> {
        self.0.get()
    }

    /// Whether a peer that claims to belong to cluster `claimed` is refused: both clusters are known, and differ.
    pub fn refuses(&self, claimed: Option<&str>) -> bool {
        self.cluster().zip(claimed).is_some_and(|(own, claimed)| **own != *claimed)
    }
}

/// Identity and purpose of a peer, after its certificate has proved the name and its cluster was found to be ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Its id. Only a claim: [`Admits`] compares it with the name.
    pub id: NodeId,
    /// Its name, as in its certificate.
    pub name: Arc<str>,
    /// Purpose of the connection.
    pub purpose: Purpose,
    /// The peer sent a cluster id. A member that is about to join knows none.
    pub is_pinned: bool,
}

/// The purposes that a peer may use connections for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// All purposes.
    Member,
    /// [`Purpose::Control`] only: the peer may ask for the identity of this member and its cluster.
    Joining,
}

/// Admits or refuses a claim. The error text is sent to the peer.
pub type Admits = Arc<dyn Fn(&Claim) -> Result<Standing, String> + Send + Sync>;

/// Admits peers by the membership that this member knows.
///
/// An id must follow from the name, so that a removed member cannot come back under another id. A stranger may be newer
/// than the membership known here, and may even be the leader that is about to send it, so a stranger that knows our
/// cluster stands as a member. A stranger that knows no cluster can only be about to join. A removed member may ask,
/// and is told only that it was removed.
pub fn admit_by_membership(known: impl Fn(NodeId, &str) -> Known + Send + Sync + 'static) -> Admits {
    Arc::new(move |claim| match known(claim.id, &claim.name) {
        Known::Member => Ok(Standing::Member),
        Known::Stranger if claim.is_pinned => Ok(Standing::Member),
        Known::Stranger | Known::Removed => Ok(Standing::Joining),
        Known::Impostor => Err(format!("{} is not the id of a member called {}", claim.id.0, claim.name)),
    })
}

/// The metadata this member sends.
#[derive(Clone, Debug)]
pub(super) struct OwnClaim {
    id: MetadataValue<Ascii>,
    name: MetadataValue<Ascii>,
    cluster: ClusterPin,
}

impl OwnClaim {
    /// `None` if the name is no valid header value. Every DNS name of a certificate is valid.
    pub(super) fn new(id: NodeId, name: &str, cluster: ClusterPin) -> Option<OwnClaim> {
        Some(OwnClaim { id: id.0.into(), name: name.parse().ok()?, cluster })
    }

    /// Puts the claim into the metadata of a call or stream.
    pub(super) fn write(&self, purpose: Purpose, metadata: &mut MetadataMap) {
        metadata.insert(KEY_NODE_ID, self.id.clone());
        metadata.insert(KEY_NODE_NAME, self.name.clone());
        metadata.insert(KEY_PURPOSE, MetadataValue::from_static(purpose_name(purpose)));
        // A pinned id is visible ASCII, so it is always a valid header value.
        if let Some(Ok(cluster)) = self.cluster.cluster().map(|cluster| cluster.parse()) {
            metadata.insert(KEY_CLUSTER, cluster);
        }
    }
}

/// Checks the claim of every call and stream before its body is read.
#[derive(Clone)]
pub(super) struct Gate {
    cluster: ClusterPin,
    admits: Admits,
    /// Shared by all connections.
    warnings: Arc<Warnings<std::time::Instant>>,
}

/// The refusal of a claim: its cause for the warning limit, and the status sent to the peer.
type Refused = (&'static str, Status);

impl Gate {
    pub(super) fn new(cluster: ClusterPin, admits: Admits) -> Self {
        Gate { cluster, admits, warnings: Arc::default() }
    }

    fn admit(&self, certified: &PeerInfo, metadata: &MetadataMap) -> Result<Claim, Refused> {
        let read = |key| read(metadata, key).map_err(malformed);
        let missing = |key| malformed(missing(key));
        let claim = Claim {
            id: read(KEY_NODE_ID)?
                .and_then(|id| id.parse().ok())
                .map(NodeId)
                .ok_or_else(|| missing(KEY_NODE_ID))?,
            name: Arc::clone(&certified.name),
            purpose: read(KEY_PURPOSE)?.and_then(purpose_of).ok_or_else(|| missing(KEY_PURPOSE))?,
            is_pinned: read(KEY_CLUSTER)?.is_some(),
        };
        let name = read(KEY_NODE_NAME)?.ok_or_else(|| missing(KEY_NODE_NAME))?;
        if *name != *certified.name {
            let certified = &certified.name;
            let reason = format!("the certificate names {certified}, not {name}");
            return Err(("another name", Status::permission_denied(reason)));
        }
        self.check_cluster(read(KEY_CLUSTER)?)?;
        let refused = |reason| ("not admitted", Status::permission_denied(reason));
        match (self.admits)(&claim).map_err(refused)? {
            Standing::Joining if claim.purpose != Purpose::Control => {
                Err(("no member", Status::permission_denied("who is no member may only ask for the cluster")))
            }
            Standing::Joining | Standing::Member => Ok(claim),
        }
    }

    fn check_cluster(&self, claimed: Option<&str>) -> Result<(), Refused> {
        match claimed {
            Some(claimed) if self.cluster.refuses(Some(claimed)) => {
                // The own id is not told: whoever knows it passes for a member that is new here.
                let reason = format!("this member does not belong to cluster {claimed}");
                Err(("another cluster", Status::permission_denied(reason)))
            }
            _ => Ok(()),
        }
    }
}

impl Interceptor for Gate {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        let certified = request.extensions().get::<PeerInfo>().cloned();
        let certified = certified.ok_or_else(|| Status::unauthenticated("no certificate"))?;
        let claim = self.admit(&certified, request.metadata()).map_err(|(cause, status)| {
            // Each frame is refused on its own, and a peer with a certificate can send any number.
            if self.warnings.may_warn(cause) {
                tracing::warn!(peer = %certified.name, address = %certified.address, reason = status.message(),
                    "refused a peer");
            }
            status
        })?;
        request.extensions_mut().insert(claim);
        Ok(request)
    }
}

fn read<'a>(metadata: &'a MetadataMap, key: &'static str) -> Result<Option<&'a str>, Status> {
    metadata.get(key).map(|value| value.to_str().map_err(|_| missing(key))).transpose()
}

fn malformed(status: Status) -> Refused {
    ("malformed metadata", status)
}

fn missing(key: &'static str) -> Status {
    Status::invalid_argument(format!("metadata {key} is missing or malformed"))
}

fn purpose_name(purpose: Purpose) -> &'static str {
    match purpose {
        Purpose::Control => "control",
        Purpose::Append => "append",
        Purpose::Snapshot => "snapshot",
        Purpose::Forward => "forward",
    }
}

fn purpose_of(name: &str) -> Option<Purpose> {
    [Purpose::Control, Purpose::Append, Purpose::Snapshot, Purpose::Forward]
        .into_iter()
        .find(|purpose| purpose_name(*purpose) == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::warnings::counting::Warned;

    fn pinned(cluster: &str) -> ClusterPin {
        let pin = ClusterPin::default();
        pin.pin(cluster).unwrap();
        pin
    }

    /// Result of the check by a member of cluster `own` when member `a` calls with the certificate of `certified`.
    fn judge(own: &ClusterPin, certified: &str, metadata: &MetadataMap) -> Result<Claim, tonic::Code> {
        let admits = admit_by_membership(|id, name| match (id.0, name) {
            (7, "a") => Known::Member,
            (6, "a") => Known::Removed,
            (9, "a") => Known::Stranger,
            _ => Known::Impostor,
        });
        let info = PeerInfo { name: certified.into(), address: ([127, 0, 0, 1], 1).into() };
        Gate::new(own.clone(), admits).admit(&info, metadata).map_err(|(_, status)| status.code())
    }

    fn metadata(id: u64, cluster: &ClusterPin, purpose: Purpose) -> MetadataMap {
        let mut metadata = MetadataMap::new();
        OwnClaim::new(NodeId(id), "a", cluster.clone()).unwrap().write(purpose, &mut metadata);
        metadata
    }

    #[test]
    fn a_claim_must_fit_certificate_cluster_and_membership() {
        let (ours, other, none) = (pinned("c1"), pinned("c2"), ClusterPin::default());
        let (control, append) = (Purpose::Control, Purpose::Append);
        let claim =
            |id, purpose, is_pinned| Ok(Claim { id: NodeId(id), name: "a".into(), purpose, is_pinned });
        let refused = Err(tonic::Code::PermissionDenied);
        assert_eq!(judge(&ours, "a", &metadata(7, &ours, append)), claim(7, append, true));
        assert_eq!(judge(&none, "a", &metadata(7, &other, append)), claim(7, append, true));
        // A member that has not learned its cluster yet may be elected all the same.
        assert_eq!(judge(&ours, "a", &metadata(7, &none, append)), claim(7, append, false));
        // A leader we have not heard of, and a stranger.
        assert_eq!(judge(&ours, "a", &metadata(9, &ours, append)), claim(9, append, true));
        assert_eq!(judge(&ours, "a", &metadata(9, &none, control)), claim(9, control, false));
        assert_eq!(judge(&ours, "a", &metadata(9, &none, append)), refused);
        assert_eq!(judge(&ours, "a", &metadata(7, &other, control)), refused);
        assert_eq!(judge(&ours, "b", &metadata(7, &ours, append)), refused);
        assert_eq!(judge(&ours, "a", &metadata(8, &ours, append)), refused);
        // A removed member knows our cluster and may only ask.
        assert_eq!(judge(&ours, "a", &metadata(6, &ours, append)), refused);
        assert_eq!(judge(&ours, "a", &metadata(6, &ours, Purpose::Forward)), refused);
        assert_eq!(judge(&ours, "a", &metadata(6, &ours, control)), claim(6, control, true));
    }

    #[test]
    fn malformed_metadata_is_refused() {
        let ours = pinned("c1");
        for (key, value) in
            [(KEY_NODE_ID, "x"), (KEY_NODE_ID, "-1"), (KEY_PURPOSE, "gossip"), (KEY_NODE_NAME, "")]
        {
            let mut metadata = metadata(7, &ours, Purpose::Append);
            metadata.insert(key, value.parse().unwrap());
            assert!(judge(&ours, "a", &metadata).is_err(), "{key} {value}");
            metadata.remove(key);
            assert_eq!(judge(&ours, "a", &metadata), Err(tonic::Code::InvalidArgument), "{key}");
        }
    }

    /// A peer with a certificate can send any number of frames. The log gets one line in ten seconds for each cause.
    #[test]
    fn refused_frames_do_not_fill_the_log() {
        let warned = Warned::default();
        tracing::subscriber::with_default(warned.clone(), || {
            let admits = admit_by_membership(|_, _| Known::Stranger);
            let mut gate = Gate::new(pinned("c1"), admits);
            let info = PeerInfo { name: "a".into(), address: ([127, 0, 0, 1], 1).into() };
            for n in 0..200 {
                let cluster = if n % 2 == 0 { pinned("c2") } else { ClusterPin::default() };
                let mut request = Request::new(());
                *request.metadata_mut() = metadata(9, &cluster, Purpose::Append);
                request.extensions_mut().insert(info.clone());
                gate.clone().call(request).unwrap_err();
            }
            gate.call(Request::new(())).unwrap_err();
        });
        assert_eq!(warned.count(), 2, "one of another cluster, one that is no member");
    }

    #[test]
    fn a_cluster_is_pinned_once() {
        let pin = pinned("c1");
        assert_eq!(pin.pin("c1"), Ok(()));
        assert!(matches!(pin.pin("c2"), Err(ClusterPinError::Other { .. })));
        for malformed in ["", "a b", "\u{e9}", &"x".repeat(65)] {
            assert!(matches!(ClusterPin::default().pin(malformed), Err(ClusterPinError::Malformed(_))));
        }
    }
}
