//! Cluster addresses and node ports in the transactions of services.
//!
//! Owns the conditions and operations that take what a service gets and free what it gives up, with the write of the
//! service or not at all. `crate::allocation` chooses. The IPAddress objects that it writes pass no admission plugin.

use orch_proto::brand::SERVER_MANAGER;
use orch_raft::{Condition, Key, ObjectPath, Operation, Put, Store};
use orch_rules::validate::address::Family;
use orch_rules::validate::tree::Tree;
use orch_schema::json;
use orch_schema::value::Value;

use super::{Pipeline, Request};
use crate::admission::{Additions, Attributes, View};
use crate::allocation::addresses::address_key;
use crate::allocation::claims::{Holdings, claim, holder};
use crate::allocation::{ADDRESSES, Unallotted};
use crate::ambient::uuid_text;
use crate::error::ApiError;
use crate::fields::{Writer, track_update};
use crate::registry::Resource;

/// Addresses and ports of a service before and after a write.
#[derive(Clone, Debug)]
pub(super) struct Transfer {
    pub(super) before: Holdings,
    pub(super) after: Holdings,
}

impl<S: Store> Pipeline<S> {
    /// Whether the write gives anything to its object, or takes from it.
    pub(super) fn allots(&self, request: Request<'_>) -> bool {
        self.allocator.handles(request.resource, request.action)
    }

    /// Completes the object by what it is allotted, in view of what is taken.
    pub(super) fn allot(
        &self,
        attributes: &Attributes<'_>,
        object: &mut Value,
        view: &View,
    ) -> Result<(), Unallotted> {
        if !self.allocator.handles(attributes.resource, attributes.action) {
            return Ok(());
        }
        self.allocator.allot((attributes.brand, attributes.resource), attributes.old, object, view)
    }

    /// Adds to the transaction of the service at `path` (`namespace/name`) what takes and frees its holdings.
    pub(super) fn transfer(
        &self,
        request: Request<'_>,
        path: &str,
        transfer: &Transfer,
        view: &View,
        additions: &mut Additions,
    ) -> Result<(), ApiError> {
        let Transfer { before, after } = transfer;
        additions.begin_allotment();
        let (old, new) = (before.claims(), after.claims());
        for key in new.difference(&old) {
            additions.require(Condition::Absent(key.clone()));
            additions.operate(Operation::Put(claim(key.clone(), path)));
        }
        for key in old.difference(&new) {
            let held = view.applied().state.object(key);
            if held.is_some_and(|held| holder(&held.json) == path) {
                additions.operate(Operation::Delete(key.clone()));
            }
        }
        for address in after.addresses.difference(&before.addresses) {
            let Some(key) = address_key(*address) else { continue };
            additions.require(Condition::Absent(key.clone()));
            additions.operate(Operation::Put(self.address_object(
                request,
                key,
                path,
                Family::of(*address),
            )?));
        }
        for key in before.addresses.difference(&after.addresses).filter_map(|address| address_key(*address)) {
            let Some(object) = view.applied().state.object(&key) else { continue };
            let value: Value = serde_json::from_slice(&object.json).unwrap_or_default();
            if parent_service(&value).as_deref() == Some(path) {
                // Clients may change it, or give it to something else.
                additions.require(Condition::AtRevision(key.clone(), object.revision));
                additions.operate(Operation::Delete(key));
            }
        }
        Ok(())
    }

    /// The IPAddress object of an address of the service at `path`.
    fn address_object(
        &self,
        request: Request<'_>,
        key: Key,
        path: &str,
        family: Family,
    ) -> Result<Put, ApiError> {
        let resource = request.registry.stored(ADDRESSES);
        let resource: &Resource =
            resource.ok_or_else(|| ApiError::Internal("IPAddress objects are not served".to_owned()))?;
        let (now, brand) = (self.ambient.now().seconds_text(), request.registry.brand);
        let (namespace, name) = ObjectPath::of(path).parts();
        let label = |name: &str| format!("ipaddress.{}/{name}", brand.label_domain);
        let mut labels = json!({});
        labels[label("ip-family").as_str()] = json!(family.name());
        labels[label("managed-by").as_str()] = json!(format!("ipallocator.{}", brand.group_domain));
        let mut object = json!({
            "metadata": {
                "name": key.name(), "uid": uuid_text(self.ambient.random()), "creationTimestamp": now, "labels": labels
            },
            "spec": {"parentRef": {"resource": "services", "namespace": namespace, "name": name}}
        });
        let writer = Writer {
            manager: SERVER_MANAGER,
            api_version: &resource.api_version(),
            subresource: "",
            now: &now,
            reset: &[],
            others: &resource.others,
        };
        if let Err(error) = track_update(&resource.schema, resource.type_id, None, &mut object, &writer) {
            tracing::debug!(%error, "ownership of an address is not tracked");
        }
        self.put(resource, key, &mut object)
    }
}

/// The path of the service that an IPAddress object names as its parent; `None` where that is no service.
pub(crate) fn parent_service(address: &Value) -> Option<String> {
    let parent = address.at("spec").at("parentRef");
    let is_service = parent.text("group").is_empty() && parent.text("resource") == "services";
    is_service.then(|| format!("{}/{}", parent.text("namespace"), parent.text("name")))
}
