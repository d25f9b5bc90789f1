//! The events that a change causes for one watch.
//!
//! Owns the selection (namespace, name, selectors) and its transitions: an object that enters the selection is ADDED,
//! one that leaves it DELETED, whatever happened to the object itself. Matching never reads an object's bytes.

use std::sync::Arc;

use orch_raft::object::SharedObject;
use orch_raft::{Change, Collection, Interest};
use orch_rules::selector::RequiredValue;

use crate::index::{Lookup, Matching};
use crate::render::{Event, EventType};
use crate::selector::Selector;

/// Longest text by which a watch is filed. A client chooses the texts of its selectors; paths of objects are shorter, and a
/// longer value of a field is left to the selector.
const INTEREST_BYTES_MAX: usize = 512;

/// The selection of a watch.
#[derive(Clone, Debug, Default)]
pub(super) struct Scope {
    /// `NAMESPACE/`; empty for all namespaces.
    pub prefix: String,
    /// The path of the only followed object, if the request names one.
    pub path: Option<String>,
    /// Label and field selector.
    pub selector: Selector,
}

impl Scope {
    /// The event that `change` causes for this watch; `None` if the change is outside the selection.
    pub(super) fn event<'a>(&self, change: &'a Change) -> Option<Event<'a>> {
        if !self.covers(&change.path) {
            return None;
        }
        let selected = |object: &'a Option<SharedObject>| {
            object.as_ref().filter(|object| self.selector.matches(&change.path, object))
        };
        match (selected(&change.old), selected(&change.new)) {
            (None, None) => None,
            (None, Some(new)) => Some(Event::added(new)),
            (Some(_), Some(new)) => Some(Event { kind: EventType::Modified, object: new, revision: None }),
            (Some(old), None) => {
                Some(Event { kind: EventType::Deleted, object: old, revision: Some(change.revision) })
            }
        }
    }

    /// The narrowest thing that the selection demands: what names one object, then a value of a field, of a label, the
    /// namespace, a value of a field that very many objects share, and last a field without a value, which most objects may
    /// have. A value comes with the namespace, so that objects of others wake nobody. Whatever the selection shows, before or
    /// after a change, has it.
    pub(super) fn interest(&self) -> Interest {
        let Selector { labels, fields } = &self.selector;
        let is_short = |text: &&str| text.len() <= INTEREST_BYTES_MAX;
        if let Some(path) = self.path.as_deref().filter(is_short) {
            return Interest::Object(path.into());
        }
        if let Some(name) = fields.required_name().filter(is_short) {
            return Interest::Name(name.into());
        }
        let namespace = self.prefix.strip_suffix('/').or_else(|| fields.required_namespace());
        let namespace = namespace.filter(is_short);
        // few: no more than the kind has selectable fields.
        let field = |is_meant: fn(&RequiredValue<'_>) -> bool| {
            let mut required = fields.required_values().filter(|required| is_short(&required.value));
            let RequiredValue { field, place, value, is_coarse, .. } = required.find(is_meant)?;
            let is_common = is_coarse || value.is_empty();
            let namespace = namespace.map(Into::into);
            Some(Interest::Field { name: field.into(), place, value: value.into(), namespace, is_common })
        };
        let label = || {
            let (key, value) = labels.required_values().next()?;
            Some(Interest::Label {
                key: key.into(),
                value: value.into(),
                namespace: namespace.map(Into::into),
            })
        };
        let namespace = || Some(Interest::Namespace(namespace?.into()));
        field(|required| !required.is_coarse && !required.value.is_empty())
            .or_else(label)
            .or_else(namespace)
            .or_else(|| field(|required| !required.value.is_empty()))
            .or_else(|| field(|_| true))
            .unwrap_or_default()
    }

    /// The namespace of all selected objects; empty if they are of several, or of none.
    pub(super) fn namespace(&self) -> &str {
        let asked = self.prefix.strip_suffix('/');
        asked.or_else(|| self.selector.only_namespace()).unwrap_or_default()
    }

    /// The objects behind the path `after` that the selectors still have to match, in order of paths. `lookup` is a question
    /// about `collection`.
    pub(super) fn candidates<'a>(
        &'a self,
        collection: &'a Collection,
        lookup: Option<&'a Lookup>,
        after: &str,
    ) -> impl Iterator<Item = (&'a Arc<str>, &'a SharedObject)> + use<'a> {
        let only = self.path.as_deref().and_then(|path| collection.find(path));
        let only = only.filter(|(path, _)| *after < ***path);
        let several = self.path.is_none().then(|| Matching::new(collection, lookup, self.namespace(), after));
        only.into_iter().chain(several.into_iter().flatten())
    }

    fn covers(&self, path: &str) -> bool {
        match &self.path {
            Some(only) => only == path,
            None => path.starts_with(&self.prefix),
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use futures::FutureExt;
    use orch_raft::memory::MemoryStore;
    use orch_raft::{Fields, Index, Key, Labels, ObjectPath, Operation, Put, Store, Transaction};
    use orch_rules::selector::{FieldSelector, LabelSelector, SelectableFields};
    use orch_schema::Selectable;

    use super::*;

    const RESOURCE: &str = "pods";
    const LABELS: [&str; 7] = ["", "app=x", "app", "app!=x", "app in (x,y)", "app in (x),tier=1", "!app"];
    const FIELDS: [&str; 10] = [
        "",
        "spec.nodeName=n1",
        "spec.nodeName=",
        "spec.nodeName!=n1",
        "status.phase=,spec.nodeName=n1",
        "metadata.name=a",
        "metadata.namespace=n",
        "metadata.namespace=",
        "status.phase=Running",
        "status.phase=Running,spec.nodeName=n1",
    ];
    /// Value of the label `app`, and node. Pods with both run.
    const VERSIONS: [Option<(&str, &str)>; 6] =
        [None, Some(("", "")), Some(("x", "")), Some(("x", "n1")), Some(("y", "n1")), Some(("y", "n2"))];

    fn scope(namespace: &str, name: &str, labels: &str, fields: &str) -> Scope {
        let field = |name: &str| Selectable {
            name: name.to_owned(),
            withheld: false,
            unindexed: false,
            synonym: None,
            coarse: name == "status.phase",
        };
        let declared = &[field("spec.nodeName"), field("status.phase")];
        let fields =
            FieldSelector::parse(fields, SelectableFields { declared, namespaced: true, is_defined: false })
                .unwrap();
        let prefix = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
        let path = (!name.is_empty()).then(|| format!("{prefix}{name}"));
        Scope { path, prefix, selector: Selector { labels: LabelSelector::parse(labels).unwrap(), fields } }
    }

    fn write(path: &str, version: Option<(&str, &str)>) -> Transaction {
        let (namespace, name) = ObjectPath::of(path).parts();
        let key = Key::new(&RESOURCE.into(), namespace, name).unwrap();
        let operation = match version {
            None => Operation::Delete(key),
            Some((app, node)) => {
                let labels =
                    Labels::new((!app.is_empty()).then_some(("app", app)).into_iter().chain([("tier", "1")]));
                let phase = if app.is_empty() || node.is_empty() { "Pending" } else { "Running" };
                let fields = Fields::new([("spec.nodeName", node), ("status.phase", phase)]);
                let index = Index { labels, fields, ..Index::default() };
                Operation::Put(Put { key, json: Bytes::from_static(br#"{"v":""}"#), revision_at: 6, index })
            }
        };
        Transaction { operations: vec![operation], ..Transaction::default() }
    }

    /// Every change of an object from one version to another, as the store records it, wakes what would show it.
    fn missed_and_idle(scope: &Scope) -> (Vec<String>, usize) {
        let store = MemoryStore::default();
        let (mut missed, mut idle) = (Vec::new(), 0);
        for path in ["n/a", "n/b", "m/a", "a"] {
            for (old, new) in VERSIONS.into_iter().flat_map(|old| VERSIONS.map(|new| (old, new))) {
                store.propose(write(path, old)).now_or_never().unwrap().unwrap();
                let mut subscription = store.subscribe_to(&RESOURCE.into(), scope.interest());
                let before = store.state().applied();
                store.propose(write(path, new)).now_or_never().unwrap().unwrap();
                let is_woken = subscription.changed().now_or_never().is_some();
                idle += usize::from(!is_woken);
                let state = store.state();
                let collection = state.collection(RESOURCE);
                let mut changes = collection.changes_after(before).unwrap();
                if !is_woken && changes.any(|change| scope.event(change).is_some()) {
                    missed.push(format!("{path} {old:?} {new:?}"));
                }
            }
        }
        (missed, idle)
    }

    #[test]
    fn an_interest_is_never_narrower_than_its_selection() {
        for namespace in ["", "n"] {
            for (labels, fields) in
                LABELS.into_iter().flat_map(|labels| FIELDS.map(|fields| (labels, fields)))
            {
                let scope = scope(namespace, "", labels, fields);
                let (missed, idle) = missed_and_idle(&scope);
                assert!(missed.is_empty(), "{namespace} {labels} {fields}: {missed:?}");
                // A change that changes nothing, from absent to absent, is none.
                let nothing = 4;
                let is_everything = scope.interest() == Interest::Everything;
                let least = if is_everything { nothing } else { nothing + 1 };
                assert!(idle >= least, "{namespace} {labels} {fields}: {idle}");
            }
        }
        assert!(missed_and_idle(&scope("n", "a", "", "")).0.is_empty());
    }

    #[test]
    fn the_narrowest_demand_is_chosen() {
        let interest = |namespace, name, labels, fields| scope(namespace, name, labels, fields).interest();
        let field = |place: usize, value: &str, namespace: Option<&str>| Interest::Field {
            name: ["spec.nodeName", "status.phase"][place].into(),
            place,
            value: value.into(),
            namespace: namespace.map(Into::into),
            is_common: place == 1 || value.is_empty(),
        };
        let label = || Interest::Label { key: "app".into(), value: "x".into(), namespace: Some("n".into()) };
        let phase = || field(1, "Running", None);
        let in_n = || Interest::Namespace("n".into());
        assert_eq!(interest("n", "a", "app=x", "spec.nodeName=n1"), Interest::Object("n/a".into()));
        assert_eq!(interest("", "", "app=x", "metadata.name=a"), Interest::Name("a".into()));
        assert_eq!(interest("n", "", "app=x", "spec.nodeName=n1"), field(0, "n1", Some("n")));
        assert_eq!(interest("n", "", "tier,app=x", "spec.nodeName!=n1"), label());
        assert_eq!(interest("n", "", "app!=x", ""), Interest::Namespace("n".into()));
        assert_eq!(interest("", "", "", "metadata.namespace=n"), Interest::Namespace("n".into()));
        assert_eq!(interest("", "", "app", "spec.nodeName!=n1"), Interest::Everything);
        assert_eq!(interest("", "", "", "status.phase=,spec.nodeName=n1"), field(0, "n1", None));
        let in_fields = interest("", "", "", "spec.nodeName=n1,metadata.namespace=n");
        assert_eq!(in_fields, field(0, "n1", Some("n")));
        assert_eq!(interest("", "", "app", "spec.nodeName="), field(0, "", None));
        let running = "status.phase=Running";
        assert_eq!(interest("", "", "app", running), phase());
        assert_eq!(interest("n", "", "app", running), in_n());
        assert_eq!(interest("n", "", "app=x", running), label());
        let both = "status.phase=Running,spec.nodeName=n1";
        assert_eq!(interest("n", "", "app=x", both), field(0, "n1", Some("n")));
        assert_eq!(interest("", "", "", "status.phase=Running,metadata.namespace=n"), in_n());
        assert_eq!(interest("", "", "", "spec.nodeName=,status.phase=Running"), phase());
    }

    #[test]
    fn a_long_text_of_a_client_is_not_kept_as_an_interest() {
        let long = "x".repeat(INTEREST_BYTES_MAX + 1);
        let of = |namespace: &str, name: &str, fields: &str| {
            scope(namespace, name, "", &fields.replace('?', &long)).interest()
        };
        let in_n = || Interest::Namespace("n".into());
        assert_eq!(of("n", &long, ""), in_n());
        assert_eq!(of("n", "", "metadata.name=?"), in_n());
        assert_eq!(of("n", "", "spec.nodeName=?"), in_n());
        assert_eq!(of("", "", "spec.nodeName=?,metadata.namespace=n"), in_n());
        assert_eq!(of("", "", "metadata.namespace=?,status.phase=?"), Interest::Everything);
    }
}
