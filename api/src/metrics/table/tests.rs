//! Tests of the series of many kinds: their text and their memory.

use std::collections::BTreeMap;

use super::super::held::block;
use super::*;

const GET: Words =
    Words { subresource: "", verb: "GET", scope: "resource", dry_run: "", component: "apiserver" };

/// The series of `kinds` custom resources: each of them is listed, watched, read and written, with two codes each, and everything but the
/// watch took more than 100 ms once, and the writes waited for a webhook.
fn used(kinds: usize) -> Table {
    let mut table = Table::default();
    for at in 0..kinds {
        let (group, resource) = (format!("group-{}.example.com", at % 50), format!("customthings{at}"));
        for (verb, scope) in
            [("GET", "resource"), ("LIST", "namespace"), ("POST", "resource"), ("WATCH", "cluster")]
        {
            let words = Words { verb, scope, ..GET };
            let entry = table.insert(&Key { group: &group, version: "v1", resource: &resource, words });
            let series = &entry.series;
            [200, 404].into_iter().for_each(|code| series.count(code));
            match verb {
                "WATCH" => series.add_long_running(1),
                verb => {
                    let waited = if verb == "POST" { 300_000 } else { 0 };
                    series.observe_micros(700, 0);
                    series.observe_micros(400_000, waited);
                }
            }
            if ["GET", "LIST"].contains(&verb) {
                series.observe_bytes(5000.0);
            }
        }
    }
    table
}

/// Bytes of all blocks of the table.
fn held_bytes(table: &Table) -> usize {
    let counted = 2 * size_of::<usize>();
    let (mut bytes, mut places, mut words) = (table.0.allocation_size(), BTreeMap::new(), BTreeMap::new());
    for entry in table.iter() {
        bytes += block(counted + size_of::<Entry>()) + entry.series.heap_bytes();
        places.insert(Arc::as_ptr(&entry.place), entry.place.clone());
        words.insert(Arc::as_ptr(&entry.words), ());
    }
    for place in places.values() {
        let texts = [&place.group, &place.version, &place.resource];
        bytes += block(counted + size_of::<Place>())
            + texts.map(|text| block(text.len())).into_iter().sum::<usize>();
    }
    bytes + words.len() * block(counted + size_of::<Words>())
}

#[test]
fn the_series_of_a_thousand_kinds_take_less_than_two_megabytes() {
    let table = used(1000);
    let (bytes, copy) = (held_bytes(&table), table.0.allocation_size());
    eprintln!(
        "{} series of 1,000 kinds in {bytes} bytes, {} each; a copy of the table has {copy}",
        table.len(),
        bytes / table.len()
    );
    assert!(bytes + copy < 2_000_000, "{bytes} bytes, and a copy of {copy} while a series is added");
}

#[test]
fn series_share_their_names_and_words() {
    let table = used(3);
    let of = |resource: &str, verb| {
        let words = Words { verb, scope: if verb == "GET" { "resource" } else { "namespace" }, ..GET };
        let at = &resource["customthings".len()..];
        let group = format!("group-{at}.example.com");
        table.find(&Key { group: &group, version: "v1", resource, words }).unwrap().clone()
    };
    let (first, other) = (of("customthings0", "GET"), of("customthings1", "GET"));
    assert!(Arc::ptr_eq(&first.place, &of("customthings0", "LIST").place));
    assert!(Arc::ptr_eq(&first.words, &other.words) && !Arc::ptr_eq(&first.place, &other.place));
    assert_eq!(table.len(), 12);
    assert!(table.find(&Key { group: "", version: "v1", resource: "customthings0", words: GET }).is_none());
}
