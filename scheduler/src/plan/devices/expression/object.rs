//! A device as the value `device` of expressions.
//!
//! Built once when its slice is read, and lent to every evaluation. Attributes and capacities stand under their domain,
//! which is the driver's where a name has none; a domain that the device has not is an empty map.

use std::any::Any;
use std::collections::{BTreeMap, HashMap};

use cel::ExecutionError;
use cel::common::traits::{Container, Indexer, Iterable, Iterator, Sizer};
use cel::common::types::{CelBool, CelInt, CelList, CelMap, CelMapKey, CelString, MAP_TYPE, Type};
use cel::common::value::{CowVal, StaticVal, Val};
use orch_rules::expression::DeviceBounds;
use orch_schema::quantity::Quantity;
use semver::Version;

use super::quantity::CelQuantity;
use super::version::CelVersion;
use crate::api::resource::v1::{Device, DeviceAttribute};

/// Bytes of texts below which devices count as alike.
const TEXT_BYTES_LEAST: u64 = 64;

/// The value `device`.
#[derive(Debug)]
pub(in crate::plan::devices) struct DeviceObject {
    value: CelMap<'static>,
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
            capacity.insert(driver, name, Box::new(CelQuantity(quantity.unwrap_or_default())));
        }
        let multiple = device.allow_multiple_allocations.unwrap_or(false);
        let members: [(&str, Box<dyn Val>); 4] = [
            ("driver", Box::new(CelString::from(driver.to_owned()))),
            ("attributes", Box::new(attributes)),
            ("capacity", Box::new(capacity)),
            ("allowMultipleAllocations", Box::new(CelBool::from(multiple))),
        ];
        let members: HashMap<CelMapKey<'static>, Box<dyn Val>> =
            members.into_iter().map(|(name, value)| (CelMapKey::from(name.to_owned()), value)).collect();
        DeviceObject { value: CelMap::from(members), bounds: bounds(driver, device) }
    }

    /// What the variable stands for.
    pub(super) fn value(&self) -> &CelMap<'static> {
        &self.value
    }

    /// How large the device is, rounded up, so that few different bounds are met.
    pub(super) fn bounds(&self) -> DeviceBounds {
        self.bounds
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
fn attribute_value(attribute: &DeviceAttribute) -> Option<Box<dyn Val>> {
    let text = |text: &String| -> Box<dyn Val> { Box::new(CelString::from(text.clone())) };
    let version = |text: &String| -> Option<Box<dyn Val>> {
        let version = Version::parse(text).ok()?;
        Some(Box::new(CelVersion(version)))
    };
    let number = |number: &i64| -> Box<dyn Val> { Box::new(CelInt::from(*number)) };
    let truth = |truth: &bool| -> Box<dyn Val> { Box::new(CelBool::from(*truth)) };
    let list = |values: Vec<Box<dyn Val>>| -> Box<dyn Val> { Box::new(CelList::from(values)) };
    if let Some(value) = &attribute.int {
        return Some(number(value));
    }
    if let Some(value) = &attribute.bool {
        return Some(truth(value));
    }
    if let Some(value) = &attribute.string {
        return Some(text(value));
    }
    if let Some(value) = &attribute.version {
        return version(value);
    }
    if !attribute.ints.is_empty() {
        return Some(list(attribute.ints.iter().map(number).collect()));
    }
    if !attribute.bools.is_empty() {
        return Some(list(attribute.bools.iter().map(truth).collect()));
    }
    if !attribute.strings.is_empty() {
        return Some(list(attribute.strings.iter().map(text).collect()));
    }
    let versions: Option<Vec<_>> = attribute.versions.iter().map(version).collect();
    versions.filter(|versions| !versions.is_empty()).map(list)
}

static DOMAINS: Type = MAP_TYPE;

/// Values by domain and name.
#[derive(Debug, Default)]
struct Domains {
    by_domain: BTreeMap<String, (CelString<'static>, CelMap<'static>)>,
    none: CelMap<'static>,
}

impl Domains {
    fn insert(&mut self, driver: &str, qualified: &str, value: Box<dyn Val>) {
        let (domain, name) = qualified.split_once('/').unwrap_or((driver, qualified));
        let known = self.by_domain.remove(domain).map(|(_, members)| members).unwrap_or_default();
        let mut members = known.into_inner();
        members.insert(CelMapKey::from(name.to_owned()), value);
        let key = CelString::from(domain.to_owned());
        self.by_domain.insert(domain.to_owned(), (key, CelMap::from(members)));
    }

    fn find(&self, key: &dyn Val) -> Option<&CelMap<'static>> {
        self.by_domain.get(key.downcast_ref::<CelString>()?.inner()).map(|(_, members)| members)
    }
}

impl Val for Domains {
    fn get_type(&self) -> &Type {
        &DOMAINS
    }

    fn cel_type() -> &'static Type {
        &DOMAINS
    }

    fn as_container(&self) -> Option<&dyn Container> {
        Some(self)
    }

    fn as_indexer<'b, 'v>(&'b self) -> Option<&'b (dyn Indexer + 'v)>
    where
        Self: 'v,
    {
        Some(self)
    }

    fn as_iterable<'b, 'v>(&'b self) -> Option<&'b (dyn Iterable + 'v)>
    where
        Self: 'v,
    {
        Some(self)
    }

    fn as_sizer(&self) -> Option<&dyn Sizer> {
        Some(self)
    }

    fn clone_as_boxed<'v>(&self) -> Box<dyn Val + 'v> {
        Box::new(Domains { by_domain: self.by_domain.clone(), none: CelMap::default() })
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

impl StaticVal for Domains {}

impl Container for Domains {
    fn contains(&self, key: &dyn Val) -> Result<bool, ExecutionError> {
        Ok(self.find(key).is_some())
    }
}

impl Indexer for Domains {
    fn get<'b, 'v>(&'b self, key: &dyn Val) -> Result<CowVal<'b, 'v>, ExecutionError>
    where
        Self: 'v,
    {
        Ok(CowVal::Borrowed(self.find(key).unwrap_or(&self.none)))
    }

    fn steal<'v>(self: Box<Self>, key: &dyn Val) -> Result<Box<dyn Val + 'v>, ExecutionError>
    where
        Self: 'v,
    {
        self.get(key).map(CowVal::into_owned)
    }
}

impl Sizer for Domains {
    fn size(&self) -> CelInt {
        CelInt::from(i64::try_from(self.by_domain.len()).unwrap_or(i64::MAX))
    }
}

impl Iterable for Domains {
    fn iter<'b, 'v>(&'b self) -> Box<dyn Iterator<'b, 'v> + 'b>
    where
        Self: 'v,
    {
        Box::new(DomainNames(self.by_domain.values()))
    }
}

/// The domains, one after the other.
struct DomainNames<'b>(
    std::collections::btree_map::Values<'b, String, (CelString<'static>, CelMap<'static>)>,
);

impl<'b, 'v> Iterator<'b, 'v> for DomainNames<'b> {
    fn next(&mut self) -> Option<&'b (dyn Val + 'v)> {
        let (name, _) = self.0.next()?;
        Some(name)
    }
}
