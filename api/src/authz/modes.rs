//! The authorizers that a configuration chooses among.
//!
//! Owns their kinds, the default, and the two that decide every request alike.

use super::review::UserRules;
use super::webhook::Webhook;
use super::{Attributes, Authorizer, Deciding, Decision, Listing, Reason, decided, listed};
use crate::authn::User;
use crate::follow::Applied;

/// An authorizer of a configuration.
#[derive(Debug)]
pub enum Mode {
    /// Nodes, by what runs on them.
    Node,
    /// Roles and bindings.
    Rbac,
    /// Another server.
    Webhook(Box<Webhook>),
    /// Every request is allowed. For development.
    AlwaysAllow,
    /// Every request is left to others, and so refused in the end.
    AlwaysDeny,
}

/// The authorizers of a node without a configuration.
pub fn default_modes() -> Vec<Mode> {
    vec![Mode::Node, Mode::Rbac]
}

/// Allows every request.
pub(super) struct AlwaysAllow;

impl Authorizer for AlwaysAllow {
    fn name(&self) -> &'static str {
        "AlwaysAllow"
    }

    fn decide<'a>(&'a self, _: &'a User, _: Attributes<'a>, _: &'a Applied) -> Deciding<'a> {
        decided(Decision::Allow(Reason::default()))
    }

    fn rules_of<'a>(&'a self, _: &'a User, _: &'a str, _: &'a Applied) -> Listing<'a> {
        listed(UserRules::all())
    }
}

/// Allows no request. As in the reference it has no opinion, with a remark.
pub(super) struct AlwaysDeny;

impl Authorizer for AlwaysDeny {
    fn name(&self) -> &'static str {
        "AlwaysDeny"
    }

    fn decide<'a>(&'a self, _: &'a User, _: Attributes<'a>, _: &'a Applied) -> Deciding<'a> {
        decided(Decision::NoOpinion("Everything is forbidden.".to_owned()))
    }

    fn rules_of<'a>(&'a self, _: &'a User, _: &'a str, _: &'a Applied) -> Listing<'a> {
        listed(UserRules::default())
    }
}
