//! `/debug/pprof`: CPU profiles of the process.
//!
//! Owns sampling, one profile at a time, and the form that the ecosystem's tools read. There is the CPU profile and no
//! other: the allocator is not built to tell who holds memory, and locks and tasks are not recorded. Asking for such a
//! profile is answered with 404, as for any unknown one.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE, LOCATION};
use http::{HeaderValue, Method, StatusCode};
use orch_bounded::WarningLimit;
use pprof::{ProfilerGuardBuilder, Report};
use prost::Message;
use tokio::sync::Semaphore;

use super::answer::{Answer, answer, error, unsniffed};
use crate::ambient;

/// Where profiles are.
pub(super) const ROOT: &str = "/debug/pprof";
const HTML: &str = "text/html; charset=utf-8";
/// Samples a second: enough to see a function of one percent in ten seconds, and not a multiple of common timers.
const HERTZ: i32 = 99;
/// Length of a profile without `seconds`.
const SECONDS_DEFAULT: u64 = 30;
/// Longest profile: one request occupies the profiler meanwhile.
pub(super) const SECONDS_MAX: u64 = 300;

const INDEX: &str = "<html>\n<head><title>/debug/pprof/</title></head>\n<body>\n<p>Profiles of this process:</p>\n<ul>\n\
    <li><a href=\"profile?seconds=30\">profile</a>: processor time by function, for <code>seconds</code></li>\n</ul>\n\
    <p>Profiles of memory, locks and tasks are not recorded.</p>\n</body>\n</html>\n";

/// Makes profiles.
#[derive(Debug)]
pub struct Profiler {
    places: Semaphore,
    /// Warnings about profiles that cannot be recorded.
    unrecordable: WarningLimit,
}

impl Default for Profiler {
    fn default() -> Profiler {
        Profiler { places: Semaphore::new(1), unrecordable: WarningLimit::default() }
    }
}

impl Profiler {
    /// The answer to a path below [`ROOT`].
    pub(super) async fn answer(&self, name: &str, query: &str) -> Answer {
        match name {
            "" => unsniffed(answer(StatusCode::OK, HTML, INDEX)),
            "profile" => self.profile(query).await,
            _ => error(StatusCode::NOT_FOUND, "Unknown profile"),
        }
    }

    /// The answer to [`ROOT`] itself: profiles are below it.
    pub(super) fn moved(&self, method: &Method) -> Answer {
        let body = if method == Method::GET { "<a href=\"/debug/pprof/\">Found</a>.\n\n" } else { "" };
        let mut moved = answer(StatusCode::FOUND, HTML, body);
        if !matches!(*method, Method::GET | Method::HEAD) {
            moved.headers_mut().remove(CONTENT_TYPE);
        }
        moved.headers_mut().insert(LOCATION, HeaderValue::from_static("/debug/pprof/"));
        moved
    }

    async fn profile(&self, query: &str) -> Answer {
        let asked = query.split('&').find_map(|pair| pair.strip_prefix("seconds="));
        let seconds = match asked.map(str::parse) {
            None => SECONDS_DEFAULT,
            Some(Ok(seconds)) if (1..=SECONDS_MAX).contains(&seconds) => seconds,
            Some(_) => {
                let text = format!("seconds must be a number from 1 to {SECONDS_MAX}");
                return error(StatusCode::BAD_REQUEST, &text);
            }
        };
        let Ok(_place) = self.places.try_acquire() else {
            return error(StatusCode::TOO_MANY_REQUESTS, "another profile is being recorded");
        };
        let failed = |fault: String| {
            if let Some(left_out) = self.unrecordable.pass() {
                tracing::warn!(error = fault, left_out, "no profile can be recorded");
            }
            error(StatusCode::INTERNAL_SERVER_ERROR, "Could not enable CPU profiling")
        };
        let started = ambient::system_time();
        // Samples inside of these libraries are dropped: unwinding there could wait for a lock that the sampled thread has.
        // The first start finds names as well, which is work for another thread.
        let beginning = tokio::task::spawn_blocking(|| {
            let builder = ProfilerGuardBuilder::default().frequency(HERTZ);
            builder.blocklist(&["libc", "libgcc", "pthread", "vdso"]).build()
        });
        let guard = match beginning.await {
            Ok(Ok(guard)) => guard,
            Ok(Err(fault)) => return failed(fault.to_string()),
            Err(fault) => return failed(fault.to_string()),
        };
        let length = Duration::from_secs(seconds);
        tokio::time::sleep(length).await;
        // Finding the names takes seconds of work, during which no request would be answered on this thread.
        let recorded = tokio::task::spawn_blocking(move || {
            let report = guard.report().build();
            drop(guard);
            report.map(|report| encode(&report, started, length).encode_to_vec())
        });
        match recorded.await {
            Ok(Ok(body)) => {
                let mut file = unsniffed(answer(StatusCode::OK, "application/octet-stream", body));
                let name = HeaderValue::from_static("attachment; filename=\"profile\"");
                file.headers_mut().insert(CONTENT_DISPOSITION, name);
                file
            }
            Ok(Err(fault)) => failed(fault.to_string()),
            Err(fault) => failed(fault.to_string()),
        }
    }
}

/// A profile: the message of the ecosystem's tools, with the fields that are filled here.
#[derive(Clone, PartialEq, Message)]
struct Profile {
    #[prost(message, repeated, tag = "1")]
    sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    sample: Vec<Sample>,
    #[prost(message, repeated, tag = "4")]
    location: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    function: Vec<Function>,
    #[prost(string, repeated, tag = "6")]
    string_table: Vec<String>,
    #[prost(int64, tag = "9")]
    time_nanos: i64,
    #[prost(int64, tag = "10")]
    duration_nanos: i64,
    #[prost(message, optional, tag = "11")]
    period_type: Option<ValueType>,
    #[prost(int64, tag = "12")]
    period: i64,
}

/// A kind of values: places of texts.
#[derive(Clone, Copy, PartialEq, Message)]
struct ValueType {
    #[prost(int64, tag = "1")]
    kind: i64,
    #[prost(int64, tag = "2")]
    unit: i64,
}

/// A stack, the innermost place first, with its values.
#[derive(Clone, PartialEq, Message)]
struct Sample {
    #[prost(uint64, repeated, tag = "1")]
    location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    value: Vec<i64>,
}

/// A place.
#[derive(Clone, PartialEq, Message)]
struct Location {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(message, repeated, tag = "4")]
    line: Vec<Line>,
}

/// A line of a function.
#[derive(Clone, Copy, PartialEq, Message)]
struct Line {
    #[prost(uint64, tag = "1")]
    function_id: u64,
    #[prost(int64, tag = "2")]
    line: i64,
}

/// A function: places of texts.
#[derive(Clone, Copy, PartialEq, Message)]
struct Function {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "2")]
    name: i64,
    #[prost(int64, tag = "3")]
    system_name: i64,
    #[prost(int64, tag = "4")]
    filename: i64,
}

/// Texts, each once. The first is empty.
struct Texts {
    all: Vec<String>,
    places: HashMap<String, i64>,
}

impl Texts {
    fn place(&mut self, text: &str) -> i64 {
        if let Some(place) = self.places.get(text) {
            return *place;
        }
        let place = i64::try_from(self.all.len()).unwrap_or(i64::MAX);
        self.all.push(text.to_owned());
        self.places.insert(text.to_owned(), place);
        place
    }
}

fn encode(report: &Report, started: SystemTime, length: Duration) -> Profile {
    let mut texts = Texts { all: vec![String::new()], places: HashMap::from([(String::new(), 0)]) };
    let samples = ValueType { kind: texts.place("samples"), unit: texts.place("count") };
    let time = ValueType { kind: texts.place("cpu"), unit: texts.place("nanoseconds") };
    let period = 1_000_000_000 / i64::from(HERTZ);
    let mut profile = Profile {
        sample_type: vec![samples, time],
        period_type: Some(time),
        period,
        time_nanos: started
            .duration_since(SystemTime::UNIX_EPOCH)
            .ok()
            .and_then(|since| i64::try_from(since.as_nanos()).ok())
            .unwrap_or_default(),
        duration_nanos: i64::try_from(length.as_nanos()).unwrap_or(i64::MAX),
        ..Profile::default()
    };
    let mut known: HashMap<(String, String, u32), u64> = HashMap::new();
    for (frames, count) in &report.data {
        let mut stack = Vec::new();
        for symbol in frames.frames.iter().flatten() {
            let key = (symbol.name(), symbol.filename().into_owned(), symbol.lineno());
            let id = known.get(&key).copied().unwrap_or_else(|| {
                let id = u64::try_from(profile.function.len() + 1).unwrap_or(u64::MAX);
                let name = texts.place(&key.0);
                let filename = texts.place(&key.1);
                profile.function.push(Function { id, name, system_name: name, filename });
                let line = Line { function_id: id, line: i64::from(key.2) };
                profile.location.push(Location { id, line: vec![line] });
                known.insert(key, id);
                id
            });
            stack.push(id);
        }
        let count = i64::try_from(*count).unwrap_or(i64::MAX);
        let value = vec![count, count.saturating_mul(period)];
        profile.sample.push(Sample { location_id: stack, value });
    }
    profile.string_table = texts.all;
    profile
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    /// Keeps a processor busy; its name is looked for in the profile.
    #[inline(never)]
    fn burn_for_the_profile(stop: &std::sync::atomic::AtomicBool) -> u64 {
        let mut value = 1_u64;
        while !stop.load(std::sync::atomic::Ordering::Relaxed) {
            for _ in 0..10_000 {
                value = std::hint::black_box(value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
            }
        }
        value
    }

    #[tokio::test]
    async fn a_profile_names_the_function_that_runs() {
        let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let stopping = std::sync::Arc::clone(&stop);
        #[expect(clippy::disallowed_methods, reason = "a thread that only uses the processor")]
        let busy = std::thread::spawn(move || burn_for_the_profile(&stopping));
        let profiler = Profiler::default();
        let (first, second) =
            tokio::join!(profiler.answer("profile", "seconds=1"), profiler.answer("profile", "seconds=1"));
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        busy.join().unwrap();
        assert_eq!(first.status(), StatusCode::OK);
        assert_eq!(second.status(), StatusCode::TOO_MANY_REQUESTS);
        let body = first.into_body().collect().await.unwrap().to_bytes();
        let profile = Profile::decode(body).unwrap();
        assert!(profile.sample.iter().all(|sample| sample.value.len() == 2));
        let is_named = |name: &String| name.contains("burn_for_the_profile");
        assert!(profile.string_table.iter().any(is_named), "{:?}", profile.string_table);
    }

    #[tokio::test]
    async fn other_profiles_and_bad_lengths_are_refused() {
        let profiler = Profiler::default();
        assert_eq!(profiler.answer("heap", "").await.status(), StatusCode::NOT_FOUND);
        for seconds in ["seconds=0", "seconds=301", "seconds=x"] {
            let answer = profiler.answer("profile", seconds).await;
            assert_eq!(answer.status(), StatusCode::BAD_REQUEST, "{seconds}");
        }
        assert_eq!(profiler.moved(&Method::GET).headers()[LOCATION], "/debug/pprof/");
    }
}
