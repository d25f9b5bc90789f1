//! `AlwaysAdmit` and `AlwaysDeny`: the plugins that look at nothing. The reference keeps them for tests of clusters.

use orch_schema::value::Value;

use super::{Additions, Attributes, Plugin, Refusal, Ruling, View, rule};

/// Admits every write.
#[derive(Debug)]
pub(super) struct AlwaysAdmit;

impl Plugin for AlwaysAdmit {
    fn name(&self) -> &'static str {
        "AlwaysAdmit"
    }

    fn handles(&self, _attributes: &Attributes<'_>) -> bool {
        false
    }
}

/// Refuses every write and every connection, those of the server's own loops too.
#[derive(Debug)]
pub(super) struct AlwaysDeny;

impl Plugin for AlwaysDeny {
    fn name(&self) -> &'static str {
        "AlwaysDeny"
    }

    fn handles(&self, _attributes: &Attributes<'_>) -> bool {
        true
    }

    fn mutate<'a>(
        &'a self,
        _attributes: &'a Attributes<'a>,
        _object: Option<&'a mut Value>,
        _view: &'a View,
        _additions: &'a mut Additions,
    ) -> Ruling<'a> {
        rule(Err(refusal()))
    }

    fn validate<'a>(
        &'a self,
        _attributes: &'a Attributes<'a>,
        _object: Option<&'a Value>,
        _view: &'a View,
        _additions: &'a mut Additions,
    ) -> Ruling<'a> {
        rule(Err(refusal()))
    }
}

fn refusal() -> Refusal {
    Refusal::Forbidden("admission control is denying all modifications".to_owned())
}
