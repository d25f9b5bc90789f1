//! The response to `GET /orch/v1/cluster`.

use serde::Deserialize;
use serde_json::Value;

/// One member's view of the cluster.
#[derive(Debug, Clone, Deserialize)]
pub struct Status {
    /// The member that answered.
    pub name: String,
    /// Its leader, by name or id; null while there is none.
    leader: Value,
    /// Its current term.
    pub term: u64,
    /// The last log entry it has applied.
    pub applied: u64,
    /// The feature level that the cluster has agreed on, as far as it has applied that.
    #[serde(default)]
    pub feature_level: u32,
    /// All members.
    pub members: Vec<Member>,
}

/// A member of the cluster.
#[derive(Debug, Clone, Deserialize)]
pub struct Member {
    /// Its id, never reused: text, and of earlier versions a number.
    id: Value,
    /// Its name.
    pub name: String,
    /// `HOST:PORT` of its peer port.
    pub address: String,
    /// `voter` or `learner`.
    pub role: String,
    /// The highest feature level of its program; `None` while the member that answers does not know it.
    pub feature_level_max: Option<u32>,
}

impl Status {
    /// The leader's name; `None` while there is no leader.
    pub fn leader_name(&self) -> Option<&str> {
        match &self.leader {
            Value::String(name) => Some(name),
            Value::Null => None,
            id => self.members.iter().find(|member| member.id == *id).map(|member| member.name.as_str()),
        }
    }
}
