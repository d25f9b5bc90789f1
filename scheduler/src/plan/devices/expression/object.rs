//! A device as the value `device` of expressions.
//!
//! Built once when its slice is read, and lent to every evaluation. Attributes and capacities stand under their domain,
//! which is the driver's where a name has none; a domain that the device has not is an empty map.

use std::sync::Arc;

use orch_expression::{Map, Members, Text, Val};
use orch_rules::expression::DeviceBounds;
use orch_schema::quantity::Quantity;
use semver::Version;

use crate::api::resource::v1::{Device, DeviceAttribute};

/// Bytes of texts below which devices count as alike.
const TEXT_BYTES_LEAST: u64 = 64;
/// Names of the members of a device.
const MEMBERS: [&str; 4] = ["driver", "attributes", "capacity", "allowMultipleAllocations"];

/// The value `device`.
#[derive(Debug)]
pub(in crate::plan::devices) struct DeviceObject {
    driver: String,
    attributes: Domains,
    capacity: Domains,
    takes_multiple: bool,
    bounds: DeviceBounds,
}

impl DeviceObject {
    /// The value for a device of `driver`.
    pub(in crate::plan::devices) fn new(driver: &str, device: &Device) -> DeviceObject {
        let mut attributes = Domains::default();
        for (name, attribute) in &device.attributes {
            if let Some(value) = attribute_value(attribute) {
                attributes.insert(driver, name, value);
            }
        }
        let mut capacity = Domains::default();
        for (name, one) in &device.capacity {
            let quantity = one.value.as_ref().and_then(|value| Quantity::parse(&value.string));
            capacity.insert(driver, name, Val::Quantity(quantity.unwrap_or_default()));
        }
        DeviceObject {
            driver: driver.to_owned(),
            attributes,
            capacity,
            takes_multiple: device.allow_multiple_allocations.unwrap_or(false),
            bounds: bounds(driver, device),
        }
    }

    /// The value of the variable.
    pub(super) fn value(&self) -> Val<'_> {
        Val::Map(Map::Object(self))
    }

    /// How large the device is, rounded up, so that few different bounds are met.
    pub(super) fn bounds(&self) -> DeviceBounds {
        self.bounds
    }
}

impl Members for DeviceObject {
    fn find<'v>(&'v self, name: &str) -> Option<Val<'v>> {
        match name {
            "driver" => Some(Val::Text(Text::Borrowed(&self.driver))),
            "attributes" => Some(Val::Map(Map::Object(&self.attributes))),
            "capacity" => Some(Val::Map(Map::Object(&self.capacity))),
            "allowMultipleAllocations" => Some(Val::Bool(self.takes_multiple)),
            _ => None,
        }
    }

    fn name(&self, at: usize) -> Option<&str> {
        MEMBERS.get(at).copied()
    }

    fn len(&self) -> usize {
        MEMBERS.len()
    }
}

fn bounds(driver: &str, device: &Device) -> DeviceBounds {
    let length = |length: usize| u64::try_from(length).unwrap_or(u64::MAX);
    let mut list = 0;
    let mut text = driver.len();
    for (name, one) in &device.attributes {
        let texts = one.string.iter().chain(&one.version).chain(&one.strings).chain(&one.versions);
        text = texts.map(String::len).chain([text, name.len()]).max().unwrap_or(text);
        let lists = [one.ints.len(), one.bools.len(), one.strings.len(), one.versions.len()];
        list = lists.into_iter().max().unwrap_or(0).max(list);
    }
    let entries = device.attributes.len().saturating_add(device.capacity.len());
    let text = device.capacity.keys().map(String::len).max().unwrap_or(0).max(text);
    DeviceBounds {
        entries: length(entries).next_power_of_two(),
        list: if list == 0 { 0 } else { length(list).next_power_of_two() },
        text: length(text).next_power_of_two().max(TEXT_BYTES_LEAST),
    }
}

/// The value of an attribute; `None` of one whose type is not known here.
fn attribute_value(attribute: &DeviceAttribute) -> Option<Val<'static>> {
    let text = |text: &String| Val::text(text.as_str());
    let version = |text: &String| Some(Val::Version(Arc::new(Version::parse(text).ok()?)));
    if let Some(value) = &attribute.int {
        return Some(Val::Int(*value));
    }
    if let Some(value) = &attribute.bool {
        return Some(Val::Bool(*value));
    }
    if let Some(value) = &attribute.string {
        return Some(text(value));
    }
    if let Some(value) = &attribute.version {
        return version(value);
    }
    if !attribute.ints.is_empty() {
        return Some(Val::list(attribute.ints.iter().copied().map(Val::Int).collect()));
    }
    if !attribute.bools.is_empty() {
        return Some(Val::list(attribute.bools.iter().copied().map(Val::Bool).collect()));
    }
    if !attribute.strings.is_empty() {
        return Some(Val::list(attribute.strings.iter().map(text).collect()));
    }
    let versions: Option<Vec<_>> = attribute.versions.iter().map(version).collect();
    versions.filter(|versions| !versions.is_empty()).map(Val::list)
}

/// Values by domain and name, both in the order of their names.
#[derive(Debug, Default)]
struct Domains {
    domains: Vec<(String, Domain)>,
    none: Domain,
}

impl Domains {
    fn insert(&mut self, driver: &str, qualified: &str, value: Val<'static>) {
        let (domain, name) = qualified.split_once('/').unwrap_or((driver, qualified));
        let at = match self.place(domain) {
            Ok(at) => at,
            Err(at) => {
                self.domains.insert(at, (domain.to_owned(), Domain::default()));
                at
            }
        };
        self.domains[at].1.insert(name, value);
    }

    fn place(&self, domain: &str) -> Result<usize, usize> {
        self.domains.binary_search_by(|(known, _)| known.as_str().cmp(domain))
    }
}

impl Members for Domains {
    fn find<'v>(&'v self, name: &str) -> Option<Val<'v>> {
        let found = self.place(name).map_or(&self.none, |at| &self.domains[at].1);
        Some(Val::Map(Map::Object(found)))
    }

    fn has(&self, name: &str) -> bool {
        self.place(name).is_ok()
    }

    fn name(&self, at: usize) -> Option<&str> {
        self.domains.get(at).map(|(name, _)| name.as_str())
    }

    fn len(&self) -> usize {
        self.domains.len()
    }
}

/// Values by name.
#[derive(Debug, Default)]
struct Domain(Vec<(String, Val<'static>)>);

impl Domain {
    fn insert(&mut self, name: &str, value: Val<'static>) {
        match self.place(name) {
            Ok(at) => self.0[at].1 = value,
            Err(at) => self.0.insert(at, (name.to_owned(), value)),
        }
    }

    fn place(&self, name: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(known, _)| known.as_str().cmp(name))
    }
}

impl Members for Domain {
    fn find<'v>(&'v self, name: &str) -> Option<Val<'v>> {
        let (_, value) = &self.0[self.place(name).ok()?];
        Some(value.lent())
    }

    fn name(&self, at: usize) -> Option<&str> {
        self.0.get(at).map(|(name, _)| name.as_str())
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}
