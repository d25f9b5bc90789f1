//! Functions of locators: `url`, `isURL`, and their parts.
//!
//! Owns the calls, and how a query is split into pairs; what is a locator, [`locators`](super::locators) says.

use std::sync::Arc;

use super::escapes::{self, Part, unescaped};
use super::locators::Url;
use crate::error::{Failure, fault, no_overload};
use crate::evaluate::{Outcome, Run};
use crate::value::{Key, MadeMap, Text, Val};

/// Pairs of a query beyond which the reference has none of them.
const PAIRS_MAX: usize = 10_000;

/// The pairs of a query in order; pairs with a bad escape or a semicolon are left out.
fn pairs(query: &str) -> Vec<(String, String)> {
    if query.split('&').count() > PAIRS_MAX {
        return Vec::new();
    }
    let text = |part: &str| String::from_utf8_lossy(&unescaped(part, Part::Query)).into_owned();
    let pairs = query.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';'));
    let pairs = pairs.filter(|pair| escapes::check(pair, Part::Query).is_ok());
    pairs
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(key, value)| (text(key), text(value)))
        .collect()
}

fn parsed(
    run: &mut Run<'_>,
    arguments: &[Val<'_>],
    parse: fn(&str) -> Result<Url, String>,
) -> Result<Result<Url, String>, Failure> {
    let [Val::Text(text)] = arguments else { return Err(no_overload()) };
    // The parts and the whole, each up to three times as long, and once more without a fragment.
    run.make_bytes(text.len().saturating_mul(12))?;
    Ok(parse(text))
}

pub(crate) fn url<'v>(run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    let url = parsed(run, arguments, Url::with_fragment)?;
    let url =
        url.map_err(|reason| fault(format!("URL parse error during conversion from string: {reason}")))?;
    Ok(Val::Url(Arc::new(url)))
}

pub(crate) fn is_url<'v>(run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    Ok(Val::Bool(parsed(run, arguments, Url::parse)?.is_ok()))
}

fn part<'v>(run: &mut Run<'v>, arguments: &[Val<'v>], of: fn(&Url) -> &str) -> Outcome<'v> {
    let [Val::Url(url)] = arguments else { return Err(no_overload()) };
    let part = of(url);
    run.make_bytes(part.len())?;
    Ok(Val::text(part))
}

pub(crate) fn scheme_of<'v>(run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    part(run, arguments, |url| &url.scheme)
}

pub(crate) fn host<'v>(run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    part(run, arguments, |url| &url.host)
}

pub(crate) fn host_name<'v>(run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    part(run, arguments, Url::host_name)
}

pub(crate) fn port<'v>(run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    part(run, arguments, Url::port)
}

pub(crate) fn path<'v>(run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    part(run, arguments, |url| &url.path)
}

/// The query as a map from keys to lists of values.
pub(crate) fn query<'v>(run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    let [Val::Url(url)] = arguments else { return Err(no_overload()) };
    run.make_bytes(url.query.len())?;
    let mut values: std::collections::BTreeMap<String, Vec<Val<'v>>> = std::collections::BTreeMap::new();
    for (key, value) in pairs(&url.query) {
        run.make_values(4)?;
        values.entry(key).or_default().push(Val::text(value));
    }
    let mut made = MadeMap::default();
    for (key, values) in values {
        // Each key comes once out of the ordered map.
        let _ = made.insert(Key::Text(Text::from(key)), Val::list(values));
    }
    Ok(Val::map(made))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_has_its_sound_pairs() {
        let found = pairs("k=v&k=w&j=x%20y+z&z=%zz&a;b&&l");
        let found: Vec<_> = found.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        assert_eq!(found, [("k", "v"), ("k", "w"), ("j", "x y z"), ("l", "")]);
        let many = |pairs: usize| vec!["a"; pairs].join("&");
        assert_eq!(pairs(&many(PAIRS_MAX)).len(), PAIRS_MAX);
        assert_eq!(pairs(&many(PAIRS_MAX + 1)).len(), 0);
    }
}
