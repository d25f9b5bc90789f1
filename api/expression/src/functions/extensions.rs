//! Functions of the reference's libraries: texts, lists, sets, patterns, quantities, versions, addresses.

use super::Declared;
use crate::cost::Price;
use crate::cost::Price::*;
use crate::library::{collections, devices, format, lists, network, quantities, sets, strings, versions};

pub(super) const ALL: &[Declared] = &[
    ("charAt", strings::char_at, &[("string.(int) -> string", One)]),
    (
        "indexOf",
        strings::index_of,
        &[
            ("string.(string) -> int", IndexOf),
            ("string.(string, int) -> int", IndexOf),
            ("list(A).(A) -> int", IndexOf),
        ],
    ),
    (
        "lastIndexOf",
        strings::last_index_of,
        &[
            ("string.(string) -> int", IndexOf),
            ("string.(string, int) -> int", IndexOf),
            ("list(A).(A) -> int", IndexOf),
        ],
    ),
    ("lowerAscii", strings::lower_ascii, &[("string.() -> string", Scan)]),
    ("upperAscii", strings::upper_ascii, &[("string.() -> string", Scan)]),
    ("trim", strings::trim, &[("string.() -> string", Scan)]),
    (
        "substring",
        strings::substring,
        &[("string.(int) -> string", Scan), ("string.(int, int) -> string", Scan)],
    ),
    (
        "replace",
        strings::replace,
        &[
            ("string.(string, string) -> string", Replace),
            ("string.(string, string, int) -> string", Replace),
        ],
    ),
    (
        "split",
        strings::split,
        &[("string.(string) -> list(string)", Split), ("string.(string, int) -> list(string)", Split)],
    ),
    (
        "join",
        strings::join,
        &[("list(string).() -> string", Join), ("list(string).(string) -> string", Join)],
    ),
    ("strings.quote", strings::quote, &[("(string) -> string", Quote)]),
    ("format", format::format, &[("string.(list(dyn)) -> string", Format)]),
    ("find", strings::find, &[("string.(string) -> string", Find)]),
    (
        "findAll",
        strings::find_all,
        &[("string.(string) -> list(string)", Find), ("string.(string, int) -> list(string)", Find)],
    ),
    ("isSorted", lists::is_sorted, SORTED),
    (
        "sum",
        lists::sum,
        &[
            ("list(int).() -> int", Traverse),
            ("list(uint).() -> uint", Traverse),
            ("list(double).() -> double", Traverse),
            ("list(duration).() -> duration", Traverse),
        ],
    ),
    ("min", lists::min, EXTREME),
    ("max", lists::max, EXTREME),
    ("slice", collections::slice, &[("list(A).(int, int) -> list(A)", Slice)]),
    (
        "flatten",
        collections::flatten,
        &[("list(list(A)).() -> list(A)", Flatten), ("list(dyn).(int) -> list(dyn)", Flatten)],
    ),
    ("sort", collections::sort, SORT),
    ("@sortByAssociatedKeys", collections::sort_by_keys, SORT_BY_KEYS),
    ("distinct", collections::distinct, &[("list(A).() -> list(A)", Distinct)]),
    ("reverse", collections::reverse, &[("list(A).() -> list(A)", CopyList)]),
    ("lists.range", collections::range, &[("(int) -> list(int)", RangeList)]),
    ("first", collections::first, &[("list(A).() -> optional(A)", One)]),
    ("last", collections::last, &[("list(A).() -> optional(A)", One)]),
    ("sets.contains", sets::contains, &[("(list(A), list(A)) -> bool", SetsOnce)]),
    ("sets.equivalent", sets::equivalent, &[("(list(A), list(A)) -> bool", SetsTwice)]),
    ("sets.intersects", sets::intersects, &[("(list(A), list(A)) -> bool", SetsOnce)]),
    ("quantity", quantities::quantity, &[("(string) -> Quantity", Parse)]),
    ("isQuantity", quantities::is_quantity, &[("(string) -> bool", Parse)]),
    ("sign", quantities::sign, &[("(Quantity) -> int", One)]),
    ("isInteger", quantities::is_integer, &[("Quantity.() -> bool", One)]),
    ("asInteger", quantities::as_integer, &[("Quantity.() -> int", One)]),
    ("asApproximateFloat", quantities::as_float, &[("Quantity.() -> double", One)]),
    (
        "add",
        quantities::add,
        &[("Quantity.(Quantity) -> Quantity", One), ("Quantity.(int) -> Quantity", One)],
    ),
    (
        "sub",
        quantities::sub,
        &[("Quantity.(Quantity) -> Quantity", One), ("Quantity.(int) -> Quantity", One)],
    ),
    (
        "compareTo",
        versions::compare_to,
        &[("Quantity.(Quantity) -> int", One), ("Semver.(Semver) -> int", One)],
    ),
    (
        "isGreaterThan",
        versions::is_greater,
        &[("Quantity.(Quantity) -> bool", One), ("Semver.(Semver) -> bool", One)],
    ),
    (
        "isLessThan",
        versions::is_less,
        &[("Quantity.(Quantity) -> bool", One), ("Semver.(Semver) -> bool", One)],
    ),
    ("semver", versions::semver, &[("(string) -> Semver", Parse), ("(string, bool) -> Semver", Parse)]),
    ("isSemver", versions::is_semver, &[("(string) -> bool", Parse), ("(string, bool) -> bool", Parse)]),
    ("major", versions::major, &[("Semver.() -> int", One)]),
    ("minor", versions::minor, &[("Semver.() -> int", One)]),
    ("patch", versions::patch, &[("Semver.() -> int", One)]),
    ("ip", network::ip, &[("(string) -> IP", Parse), ("CIDR.() -> IP", One)]),
    ("isIP", network::is_ip, &[("(string) -> bool", Parse)]),
    ("ip.isCanonical", network::is_canonical, &[("(string) -> bool", ScanTwice)]),
    ("family", network::family, &[("IP.() -> int", One)]),
    ("isUnspecified", network::is_unspecified, &[("IP.() -> bool", One)]),
    ("isLoopback", network::is_loopback, &[("IP.() -> bool", One)]),
    ("isLinkLocalMulticast", network::is_link_local_multicast, &[("IP.() -> bool", One)]),
    ("isLinkLocalUnicast", network::is_link_local_unicast, &[("IP.() -> bool", One)]),
    ("isGlobalUnicast", network::is_global_unicast, &[("IP.() -> bool", One)]),
    ("cidr", network::cidr, &[("(string) -> CIDR", Parse)]),
    ("isCIDR", network::is_cidr, &[("(string) -> bool", Parse)]),
    (
        "containsIP",
        network::contains_ip,
        &[("CIDR.(IP) -> bool", ContainsIp), ("CIDR.(string) -> bool", ContainsIp)],
    ),
    (
        "containsCIDR",
        network::contains_cidr,
        &[("CIDR.(CIDR) -> bool", ContainsCidr), ("CIDR.(string) -> bool", ContainsCidr)],
    ),
    ("masked", network::masked, &[("CIDR.() -> CIDR", One)]),
    ("prefixLength", network::prefix_length, &[("CIDR.() -> int", One)]),
];

/// Functions of selectors of devices.
pub(super) const DEVICES: &[Declared] =
    &[("includes", devices::includes, &[("dyn.(dyn) -> bool", Includes)])];

const EXTREME: &[(&str, Price)] = &[
    ("list(int).() -> int", Traverse),
    ("list(uint).() -> uint", Traverse),
    ("list(double).() -> double", Traverse),
    ("list(bool).() -> bool", Traverse),
    ("list(duration).() -> duration", Traverse),
    ("list(timestamp).() -> timestamp", Traverse),
    ("list(string).() -> string", Traverse),
    ("list(bytes).() -> bytes", Traverse),
];

/// Lists whose values have an order.
const SORTED: &[(&str, Price)] = &[
    ("list(int).() -> bool", Traverse),
    ("list(uint).() -> bool", Traverse),
    ("list(double).() -> bool", Traverse),
    ("list(bool).() -> bool", Traverse),
    ("list(duration).() -> bool", Traverse),
    ("list(timestamp).() -> bool", Traverse),
    ("list(string).() -> bool", Traverse),
    ("list(bytes).() -> bool", Traverse),
];

const SORT: &[(&str, Price)] = &[
    ("list(int).() -> list(int)", Sort),
    ("list(uint).() -> list(uint)", Sort),
    ("list(double).() -> list(double)", Sort),
    ("list(bool).() -> list(bool)", Sort),
    ("list(duration).() -> list(duration)", Sort),
    ("list(timestamp).() -> list(timestamp)", Sort),
    ("list(string).() -> list(string)", Sort),
    ("list(bytes).() -> list(bytes)", Sort),
];

const SORT_BY_KEYS: &[(&str, Price)] = &[
    ("list(A).(list(int)) -> list(A)", SortByKeys),
    ("list(A).(list(uint)) -> list(A)", SortByKeys),
    ("list(A).(list(double)) -> list(A)", SortByKeys),
    ("list(A).(list(bool)) -> list(A)", SortByKeys),
    ("list(A).(list(duration)) -> list(A)", SortByKeys),
    ("list(A).(list(timestamp)) -> list(A)", SortByKeys),
    ("list(A).(list(string)) -> list(A)", SortByKeys),
    ("list(A).(list(bytes)) -> list(A)", SortByKeys),
];
