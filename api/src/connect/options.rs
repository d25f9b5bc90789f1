//! Options of logs and connections: read from the query, judged, and written for the kubelet.
//!
//! Those of connections are documents ([`document`]), which admission sees and may change.

use orch_rules::Action;
use orch_rules::validate::tree::{Tree, set};
use orch_rules::validate::{FieldError, FieldErrors, Path};
use orch_schema::json;
use orch_schema::value::Value;
use orch_schema::{Instant, Precision};

use super::path;
use crate::error::{ApiError, Subject};
use crate::request::{Query, quote_shortened};

/// Options of a log (`PodLogOptions`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogOptions {
    /// Empty for the only container.
    pub(crate) container: String,
    /// The kubelet's certificate is not verified.
    pub(crate) is_unverified: bool,
    is_followed: bool,
    is_previous: bool,
    has_timestamps: bool,
    since_seconds: Option<i64>,
    since_time: Option<Instant>,
    tail_lines: Option<i64>,
    limit_bytes: Option<i64>,
    has_stream: bool,
}

impl LogOptions {
    /// Reads the options of a query.
    ///
    /// # Errors
    /// `BadRequest`: a value is no number or no time.
    pub(crate) fn parse(query: &Query) -> Result<LogOptions, ApiError> {
        Ok(LogOptions {
            container: query.text("container").to_owned(),
            is_unverified: query.flag("insecureSkipTLSVerifyBackend"),
            is_followed: query.flag("follow"),
            is_previous: query.flag("previous"),
            has_timestamps: query.flag("timestamps"),
            since_seconds: query.integer("sinceSeconds")?,
            since_time: time(query, "sinceTime")?,
            tail_lines: query.integer("tailLines")?,
            limit_bytes: query.integer("limitBytes")?,
            has_stream: query.value("stream").is_some(),
        })
    }

    /// Checks the options of a request for the log of the pod `name`.
    ///
    /// # Errors
    /// `Invalid`, with an error for each broken rule.
    pub(crate) fn check(&self, name: &str) -> Result<(), ApiError> {
        let mut errors = FieldErrors::new();
        let at_least = |field: &str, value: Option<i64>, least: i64, detail: &str| {
            let value = value.filter(|&value| value < least)?;
            Some(FieldError::invalid(Path::new(field), &value.to_string(), detail))
        };
        errors.extend(at_least("tailLines", self.tail_lines, 0, "must be greater than or equal to 0"));
        errors.extend(at_least("limitBytes", self.limit_bytes, 1, "must be greater than 0"));
        if self.since_seconds.is_some() && self.since_time.is_some() {
            let detail = "at most one of `sinceTime` or `sinceSeconds` may be specified";
            errors.push(FieldError::forbidden(Path::new(""), detail));
        } else {
            errors.extend(at_least("sinceSeconds", self.since_seconds, 1, "must be greater than 0"));
        }
        // A feature of the reference that is off by default.
        if self.has_stream {
            errors.push(FieldError::forbidden(Path::new("stream"), "may not be specified"));
        }
        if errors.is_empty() {
            return Ok(());
        }
        let subject =
            Subject { group: String::new(), kind: "PodLogOptions".to_owned(), name: name.to_owned() };
        Err(ApiError::Invalid { subject, errors })
    }

    /// The query for the kubelet.
    pub(crate) fn query(&self) -> String {
        let mut pairs = Vec::new();
        let flags = [
            ("follow", self.is_followed),
            ("previous", self.is_previous),
            ("timestamps", self.has_timestamps),
        ];
        pairs.extend(
            flags.into_iter().filter(|(_, is_set)| *is_set).map(|(name, _)| (name, "true".to_owned())),
        );
        let numbers = [
            ("sinceSeconds", self.since_seconds),
            ("tailLines", self.tail_lines),
            ("limitBytes", self.limit_bytes),
        ];
        pairs.extend(numbers.into_iter().filter_map(|(name, number)| Some((name, number?.to_string()))));
        let since = self.since_time.and_then(|time| time.format(Precision::Seconds));
        pairs.extend(since.map(|time| ("sinceTime", time)));
        path::query(pairs)
    }
}

/// A time of the query; `None` where it is absent, empty or the null of old clients.
fn time(query: &Query, name: &str) -> Result<Option<Instant>, ApiError> {
    let text = query.text(name);
    if text.is_empty() || text == "null" {
        // An empty one counts as given, at the zero time.
        return Ok(query.value(name).map(|_| Instant::UNSET));
    }
    Instant::parse(text, Precision::Seconds).map(Some).ok_or_else(|| {
        let (shown, layout) = (quote_shortened(text), "\"2006-01-02T15:04:05Z07:00\"");
        let (rest, element) = first_fault(text);
        let rest = quote_shortened(rest);
        ApiError::BadRequest(format!("parsing time {shown} as {layout}: cannot parse {rest} as {element:?}"))
    })
}

/// The rest of `text` behind its valid start, and the element of the layout of times that stands there in its place.
fn first_fault(text: &str) -> (&str, &'static str) {
    const ELEMENTS: [(&str, usize); 11] = [
        ("2006", 4),
        ("-", 0),
        ("01", 2),
        ("-", 0),
        ("02", 2),
        ("T", 0),
        ("15", 2),
        (":", 0),
        ("04", 2),
        (":", 0),
        ("05", 2),
    ];
    let mut rest = text;
    for (element, digits) in ELEMENTS {
        let behind = match digits {
            0 => rest.strip_prefix(element),
            _ => rest
                .split_at_checked(digits)
                .filter(|(number, _)| number.bytes().all(|byte| byte.is_ascii_digit()))
                .map(|(_, behind)| behind),
        };
        let Some(behind) = behind else { return (rest, element) };
        rest = behind;
    }
    (rest, "Z07:00")
}

/// Flags of a command or an attachment, and the kubelet's names of them.
const STREAMS: [(&str, &str); 4] =
    [("stdin", "input"), ("stdout", "output"), ("stderr", "error"), ("tty", "tty")];

/// The options of a connection by `action` as a document of its kind (`PodExecOptions`, `PodAttachOptions`,
/// `PodPortForwardOptions`, `PodProxyOptions`) without `apiVersion` and `kind`. `subpath` is the path behind a proxy.
///
/// # Errors
/// `BadRequest`: a value of the query cannot be read.
pub(crate) fn document(action: Action, query: &Query, subpath: &str) -> Result<Value, ApiError> {
    let mut options = json!({});
    match action {
        Action::Exec | Action::Attach => {
            for (name, _) in STREAMS.iter().filter(|(name, _)| query.flag(name)) {
                set(&mut options, name, true);
            }
            if !query.text("container").is_empty() {
                set(&mut options, "container", query.text("container"));
            }
            if action == Action::Exec {
                let command: Vec<Value> = query.values("command").map(Value::from).collect();
                set(&mut options, "command", command);
            }
        }
        Action::PortForward => {
            let ports: Vec<Value> = ports(query)?.into_iter().map(Value::from).collect();
            if !ports.is_empty() {
                set(&mut options, "ports", ports);
            }
        }
        _ if !shown_path(subpath).is_empty() => set(&mut options, "path", shown_path(subpath)),
        _ => {}
    }
    Ok(options)
}

/// The path behind a proxy as its options show it: without its first slash.
fn shown_path(subpath: &str) -> &str {
    subpath.strip_prefix('/').unwrap_or(subpath)
}

/// The path behind a proxy after admission saw `options`, the document of `subpath`.
pub(crate) fn proxied_path(options: &Value, subpath: &str) -> String {
    match options.text("path") {
        // Whether there is a slash is not in the document.
        same if same == shown_path(subpath) => subpath.to_owned(),
        other => format!("/{other}"),
    }
}

/// Options of a command or an attachment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StreamOptions {
    /// Empty for the only container.
    pub(crate) container: String,
    /// Names of the kubelet's parameters that are set.
    streams: Vec<&'static str>,
    /// The command; empty for an attachment.
    command: Vec<String>,
}

impl StreamOptions {
    /// Options of a command, from their document.
    pub(crate) fn of_exec(options: &Value) -> StreamOptions {
        let command = options.texts("command").into_iter().map(str::to_owned).collect();
        StreamOptions { command, ..StreamOptions::of_attach(options) }
    }

    /// Options of an attachment, from their document.
    pub(crate) fn of_attach(options: &Value) -> StreamOptions {
        let streams = STREAMS.into_iter().filter(|(name, _)| options.flag(name)).map(|(_, own)| own);
        let container = options.text("container").to_owned();
        StreamOptions { container, streams: streams.collect(), command: Vec::new() }
    }

    /// The query for the kubelet.
    pub(crate) fn query(&self) -> String {
        let streams = self.streams.iter().map(|name| (*name, "1".to_owned()));
        path::query(streams.chain(self.command.iter().map(|word| ("command", word.clone()))).collect())
    }
}

/// The ports to forward that a query names.
///
/// # Errors
/// `BadRequest`: one is no port.
fn ports(query: &Query) -> Result<Vec<u16>, ApiError> {
    let mut ports = Vec::new();
    for port in query.values("ports").flat_map(|ports| ports.split(',')) {
        let digits = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
        let number: u16 = port.parse().ok().filter(|_| digits).ok_or_else(|| {
            let reason = if digits { "value out of range" } else { "invalid syntax" };
            let shown = quote_shortened(port);
            let text = format!("cannot convert to []int32: strconv.ParseUint: parsing {shown}: {reason}");
            ApiError::BadRequest(text)
        })?;
        ports.push(number);
    }
    Ok(ports)
}

/// The query for the kubelet of a request that names ports to forward, from their document.
pub(crate) fn ports_query(options: &Value) -> String {
    let ports: Vec<String> = options.items("ports").iter().map(ToString::to_string).collect();
    path::query(if ports.is_empty() { Vec::new() } else { vec![("port", ports.join(","))] })
}
