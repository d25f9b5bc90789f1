//! The configuration of `EventRateLimit`.

use orch_api::admission::{CACHE_SIZE, EventLimit, LimitType};
use serde::Deserialize;

use super::super::faults::Faults;

/// The document of the plugin, as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct FileLimits {
    #[expect(dead_code, reason = "checked by the reader")]
    api_version: String,
    #[expect(dead_code, reason = "checked by the reader")]
    kind: String,
    #[serde(default)]
    limits: Vec<FileLimit>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct FileLimit {
    #[serde(default, rename = "type")]
    limit_type: String,
    #[serde(default)]
    qps: i64,
    #[serde(default)]
    burst: i64,
    #[serde(default)]
    cache_size: i64,
}

/// The limits that `file` states.
///
/// # Errors
/// Its wrong fields.
pub(super) fn event_limits(file: &FileLimits) -> Result<Vec<EventLimit>, Faults> {
    let mut faults = Faults::default();
    if file.limits.is_empty() {
        faults.invalid("limits", "", "must not be empty");
    }
    let mut limits = Vec::new();
    for (at, limit) in file.limits.iter().enumerate() {
        let field = |name: &str| format!("limits[{at}].{name}");
        let limit_type = LimitType::ALL.into_iter().find(|known| known.name() == limit.limit_type);
        if limit_type.is_none() {
            faults.not_supported(&field("type"), &limit.limit_type, &LimitType::ALL.map(LimitType::name));
        }
        let mut positive = |name: &str, value: i64| {
            let number = u32::try_from(value).ok().filter(|number| *number > 0);
            if number.is_none() {
                faults.invalid(&field(name), &value.to_string(), "must be positive");
            }
            number
        };
        let (burst, qps) = (positive("burst", limit.burst), positive("qps", limit.qps));
        // The bound of one limit's memory: some ten megabytes.
        let cache_size = usize::try_from(limit.cache_size).ok().filter(|size| *size <= CACHE_SIZE_MAX);
        if cache_size.is_none() {
            let detail = format!("must not be negative, and at most {CACHE_SIZE_MAX}");
            faults.invalid(&field("cacheSize"), &limit.cache_size.to_string(), &detail);
        }
        if let (Some(limit_type), Some(burst), Some(qps), Some(cache_size)) =
            (limit_type, burst, qps, cache_size)
        {
            let cache_size = if cache_size == 0 { CACHE_SIZE } else { cache_size };
            limits.push(EventLimit { limit_type, qps, burst, cache_size });
        }
    }
    faults.or(limits)
}

/// Largest number of buckets of a limit.
const CACHE_SIZE_MAX: usize = 100_000;
