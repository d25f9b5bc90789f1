//! The record in the lock: its holder, since when and for how long.
//!
//! Owns the two stored forms of a record: the spec of a Lease, and the JSON of the annotation that older tools read.

use orch_proto::Brand;
use serde::{Deserialize, Serialize};

use crate::api::coordination::v1::LeaseSpec;
use crate::api::meta::v1::MicroTime;
use crate::wall_time::WallTime;

/// The content of the lock.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Record {
    /// Identity of the holder; empty without one.
    pub holder: String,
    /// How long others wait after they saw a renewal, in seconds.
    pub lease_duration_seconds: i32,
    /// When the holder took it.
    pub acquired: WallTime,
    /// When the holder last renewed it.
    pub renewed: WallTime,
    /// How often it went from one holder to another.
    pub transitions: i32,
}

/// A record as the annotation holds it.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Annotation {
    holder_identity: String,
    lease_duration_seconds: i32,
    acquire_time: String,
    renew_time: String,
    leader_transitions: i32,
}

/// The name of the annotation.
pub fn leader_annotation(brand: &Brand) -> String {
    format!("control-plane.alpha.{}/leader", brand.label_domain)
}

impl Record {
    /// The record that `spec` holds.
    pub fn from_lease(spec: &LeaseSpec) -> Self {
        let time =
            |time: &Option<MicroTime>| time.as_ref().map(WallTime::from_micro_time).unwrap_or_default();
        Self {
            holder: spec.holder_identity.clone().unwrap_or_default(),
            lease_duration_seconds: spec.lease_duration_seconds.unwrap_or_default(),
            acquired: time(&spec.acquire_time),
            renewed: time(&spec.renew_time),
            transitions: spec.lease_transitions.unwrap_or_default(),
        }
    }

    /// Puts the record into `spec`; what else the spec holds stays.
    pub fn write_to_lease(&self, spec: &mut LeaseSpec) {
        spec.holder_identity = Some(self.holder.clone());
        spec.lease_duration_seconds = Some(self.lease_duration_seconds);
        spec.acquire_time = Some(self.acquired.micro_time());
        spec.renew_time = Some(self.renewed.micro_time());
        spec.lease_transitions = Some(self.transitions);
    }

    /// The annotation's value.
    pub fn to_annotation(&self) -> String {
        let annotation = Annotation {
            holder_identity: self.holder.clone(),
            lease_duration_seconds: self.lease_duration_seconds,
            acquire_time: self.acquired.rfc3339(),
            renew_time: self.renewed.rfc3339(),
            leader_transitions: self.transitions,
        };
        serde_json::to_string(&annotation).expect("texts and numbers are JSON")
    }

    /// The record of an annotation's value; `None` if it is none.
    pub fn from_annotation(text: &str) -> Option<Self> {
        let annotation: Annotation = serde_json::from_str(text).ok()?;
        Some(Self {
            holder: annotation.holder_identity,
            lease_duration_seconds: annotation.lease_duration_seconds,
            acquired: WallTime::from_rfc3339(&annotation.acquire_time)?,
            renewed: WallTime::from_rfc3339(&annotation.renew_time)?,
            transitions: annotation.leader_transitions,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        Record {
            holder: "host_1".to_owned(),
            lease_duration_seconds: 15,
            acquired: WallTime(1_700_000_000_123_456),
            renewed: WallTime(1_700_000_009_999_999),
            transitions: 3,
        }
    }

    #[test]
    fn a_record_is_the_same_after_a_lease() {
        let mut spec = LeaseSpec { strategy: Some("kept".to_owned()), ..LeaseSpec::default() };
        record().write_to_lease(&mut spec);
        assert_eq!(Record::from_lease(&spec), record());
        assert_eq!(spec.renew_time, Some(MicroTime { seconds: 1_700_000_009, nanos: 999_999_000 }));
        assert_eq!(spec.strategy.as_deref(), Some("kept"));
        assert_eq!(Record::from_lease(&LeaseSpec::default()), Record::default());
    }

    #[test]
    fn an_annotation_has_the_form_that_older_tools_read() {
        let text = record().to_annotation();
        assert_eq!(
            text,
            r#"{"holderIdentity":"host_1","leaseDurationSeconds":15,"acquireTime":"2023-11-14T22:13:20Z","#
                .to_owned()
                + r#""renewTime":"2023-11-14T22:13:29Z","leaderTransitions":3}"#
        );
        let read = Record::from_annotation(&text).unwrap();
        assert_eq!((read.holder.as_str(), read.renewed), ("host_1", WallTime(1_700_000_009_000_000)));
        assert_eq!(Record::from_annotation("nothing"), None);
        assert_eq!(Record::from_annotation(&text.replace("2023-11-14T22:13:20Z", "soon")), None);
    }
}
