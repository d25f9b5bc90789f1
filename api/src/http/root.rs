//! The index at `/`: every path that this node serves.
//!
//! Owns the order, and asks whoever serves a path for it: discovery for groups and versions, each page for its own, the node
//! for those beside the API. No path is written down here, so that none is listed that is not served. Paths of single
//! documents of OpenAPI stand in that index; paths with a name in them, those of objects, stand in no index.

use std::collections::BTreeSet;

use orch_raft::Store;
use orch_schema::json;

use super::{Api, Document, openapi, token_keys, version};
use crate::registry::Registry;

impl<S: Store> Api<S> {
    /// The index over what `registry` serves and everything else, indented for people.
    pub(super) fn index(&self, registry: &Registry) -> Document {
        let (own, discovery) = (self.own_paths(), registry.discovery_paths());
        let beside = self.beside.iter().copied();
        let all = discovery.iter().chain(&own).map(String::as_str).chain(beside);
        let paths: BTreeSet<&str> = all.collect();
        format!("{:#}", json!({ "paths": paths })).into()
    }

    /// The paths of pages and checks.
    fn own_paths(&self) -> Vec<String> {
        let keys =
            self.pipeline.gate.service_accounts().map_or(&[][..], |accounts| token_keys::paths(accounts));
        let pages =
            [&[version::PATH][..], &openapi::ROOTS[..], self.flow.pages(), self.metrics_paths(), keys];
        let pages = pages.concat().into_iter().map(str::to_owned);
        pages.chain(self.checks.paths()).collect()
    }
}
