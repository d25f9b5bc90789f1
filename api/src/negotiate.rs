//! Content negotiation: the representation of a response.
//!
//! Owns `Accept` (several types, q-values, `as=Table` and `as=PartialObjectMetadata`) and `pretty`. It never encodes
//! anything.

use orch_proto::Brand;

use crate::error::{ApiError, NotAcceptable};
use crate::registry::Resource;
use crate::request::Query;

/// Encoding of a document's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// `application/json`.
    Json,
    /// `application/yaml`.
    Yaml,
    /// The brand's Protobuf media type.
    Protobuf,
}

/// Shape of a document before it is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResponseView {
    /// The object itself.
    Whole,
    /// A `Table`.
    Table,
    /// `PartialObjectMetadata` of one object.
    Metadata,
    /// `PartialObjectMetadataList`.
    MetadataList,
}

/// Version of `Table` and `PartialObjectMetadata`. Both versions have the same fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MetaVersion {
    /// `v1`.
    V1,
    /// `v1beta1`, which older clients use for tables.
    V1Beta1,
}

impl MetaVersion {
    /// The version in media types and documents.
    pub fn as_str(self) -> &'static str {
        match self {
            MetaVersion::V1 => "v1",
            MetaVersion::V1Beta1 => "v1beta1",
        }
    }
}

/// A representation that this server writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Representation {
    /// Encoding of the bytes.
    pub encoding: Encoding,
    /// Shape of the document.
    pub view: ResponseView,
    /// Version of the view; ignored for [`ResponseView::Whole`].
    pub meta_version: MetaVersion,
    /// JSON is indented.
    pub pretty: bool,
}

impl Representation {
    /// Whether the stored bytes of `resource`'s objects are handed out as they are.
    pub fn is_as_stored(&self, resource: &Resource) -> bool {
        let is_plain = self.encoding == Encoding::Json && self.view == ResponseView::Whole && !self.pretty;
        is_plain && resource.direct().is_none()
    }
}

/// JSON on one line, the most common representation.
pub const JSON: Representation = Representation {
    encoding: Encoding::Json,
    view: ResponseView::Whole,
    meta_version: MetaVersion::V1,
    pretty: false,
};

/// Most media types read from one `Accept`; clients send three.
const CLAUSES_MAX: usize = 32;

impl ResponseView {
    /// Whether the view shows metadata only.
    pub fn is_metadata(self) -> bool {
        matches!(self, ResponseView::Metadata | ResponseView::MetadataList)
    }
}

impl Representation {
    /// The media type for the `Content-Type` header.
    pub fn media_type(self, brand: &Brand) -> &'static str {
        match self.encoding {
            Encoding::Json => "application/json",
            Encoding::Yaml => "application/yaml",
            Encoding::Protobuf => brand.protobuf_media_type,
        }
    }
}

/// A choice among the representations that a document has.
pub type Negotiate = fn(Option<&str>, &str, &Query, &Brand) -> Result<Representation, ApiError>;

/// Chooses the representation of a response.
///
/// # Errors
/// `NotAcceptable`: the server writes no media type in `accept`.
pub fn negotiate(
    accept: Option<&str>,
    user_agent: &str,
    query: &Query,
    brand: &Brand,
) -> Result<Representation, ApiError> {
    negotiate_of(accept, user_agent, query, brand, writable)
}

/// Chooses the representation for a document that has no table, such as a review.
///
/// # Errors
/// As for [`negotiate`].
pub fn negotiate_without_table(
    accept: Option<&str>,
    user_agent: &str,
    query: &Query,
    brand: &Brand,
) -> Result<Representation, ApiError> {
    negotiate_of(accept, user_agent, query, brand, |_, view| view != ResponseView::Table)
}

/// Chooses the representation for a declared kind, whose objects have no Protobuf and whose scale is not shown in it.
///
/// # Errors
/// As for [`negotiate`].
pub fn negotiate_text(
    accept: Option<&str>,
    user_agent: &str,
    query: &Query,
    brand: &Brand,
) -> Result<Representation, ApiError> {
    let is_text = |encoding, view| encoding != Encoding::Protobuf || ResponseView::is_metadata(view);
    let found = negotiate_of(accept, user_agent, query, brand, is_text);
    // No router in front of it knows the media types: they are named in the same words whatever was asked for.
    found.map_err(|_| ApiError::NotAcceptable(NotAcceptable::Parameters))
}

/// Chooses the representation for a document that has no other views, such as those of discovery.
///
/// # Errors
/// As for [`negotiate`].
pub fn negotiate_whole(
    accept: Option<&str>,
    user_agent: &str,
    query: &Query,
    brand: &Brand,
) -> Result<Representation, ApiError> {
    negotiate_of(accept, user_agent, query, brand, |_, view| view == ResponseView::Whole)
}

/// Checks that `accept` allows `media_type`, one of `application`, for documents that exist in it alone.
///
/// # Errors
/// `NotAcceptable`: `accept` does not include it.
pub fn require(media_type: &'static str, accept: Option<&str>) -> Result<(), ApiError> {
    let accept = accept.map(str::trim).unwrap_or_default();
    let is_meant = |clause: &Clause<'_>| {
        clause.media_type == media_type || matches!(clause.media_type, "application/*" | "*/*" | "*")
    };
    match accept.is_empty() || clauses(accept).iter().any(is_meant) {
        true => Ok(()),
        false => Err(ApiError::NotAcceptable(NotAcceptable::Alone(media_type))),
    }
}

fn negotiate_of(
    accept: Option<&str>,
    user_agent: &str,
    query: &Query,
    brand: &Brand,
    writable: fn(Encoding, ResponseView) -> bool,
) -> Result<Representation, ApiError> {
    let pretty = wants_pretty(query, user_agent);
    let Some(accept) = accept.map(str::trim).filter(|accept| !accept.is_empty()) else {
        return Ok(Representation { pretty, ..JSON });
    };
    if accept == "application/json" || accept == "*/*" {
        return Ok(Representation { pretty, ..JSON });
    }
    let mut known_media_type = false;
    for clause in clauses(accept) {
        let Some(encoding) = encoding_of(clause.media_type, brand) else { continue };
        known_media_type = true;
        if !clause.is_served(encoding) {
            continue;
        }
        let asked = clause.view(brand).filter(|(view, _)| writable(encoding, *view));
        if let Some((view, meta_version)) = asked {
            let pretty = pretty || clause.parameter("pretty") == "1";
            return Ok(Representation { encoding, view, meta_version, pretty });
        }
    }
    let which = if known_media_type { NotAcceptable::Parameters } else { NotAcceptable::MediaType };
    Err(ApiError::NotAcceptable(which))
}

/// The encoding of a media type without parameters; `None` if the server does not write it.
pub(crate) fn encoding_of(media_type: &str, brand: &Brand) -> Option<Encoding> {
    match media_type {
        "application/json" | "*/*" => Some(Encoding::Json),
        "application/yaml" => Some(Encoding::Yaml),
        other => (other == brand.protobuf_media_type).then_some(Encoding::Protobuf),
    }
}

/// The reference writes tables in JSON and YAML only.
fn writable(encoding: Encoding, view: ResponseView) -> bool {
    !(encoding == Encoding::Protobuf && view == ResponseView::Table)
}

/// Indented output by default for command-line clients and browsers, unless `?pretty=` says otherwise.
pub(crate) fn wants_pretty(query: &Query, user_agent: &str) -> bool {
    match query.text("pretty") {
        "" => ["curl", "Wget", "Mozilla/5.0"].iter().any(|client| user_agent.starts_with(client)),
        said => matches!(said, "1" | "t" | "T" | "true" | "TRUE" | "True"),
    }
}

/// One media type of an `Accept` header.
pub(crate) struct Clause<'a> {
    /// The media type without its parameters.
    pub(crate) media_type: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
    /// q-value in thousandths.
    pub(crate) quality: u32,
}

impl Clause<'_> {
    /// The parameter's value; empty where absent.
    pub(crate) fn parameter(&self, name: &str) -> &str {
        self.parameters.iter().find(|(key, _)| *key == name).map_or("", |(_, value)| value)
    }

    /// Whether the `stream` and `sv` parameters are supported: only watch events are streamed, not in YAML, and the
    /// server's own types have one version.
    fn is_served(&self, encoding: Encoding) -> bool {
        let stream = self.parameter("stream");
        let is_stream_served = stream.is_empty() || (stream == "watch" && encoding != Encoding::Yaml);
        is_stream_served && self.parameter("sv").is_empty()
    }

    /// The requested view and its version. `None`: the server has no such view.
    fn view(&self, brand: &Brand) -> Option<(ResponseView, MetaVersion)> {
        let (group, version) = (self.parameter("g"), self.parameter("v"));
        if self.parameter("as").is_empty() {
            return (group.is_empty() && version.is_empty())
                .then_some((ResponseView::Whole, MetaVersion::V1));
        }
        let is_meta = group.strip_prefix("meta.").is_some_and(|domain| domain == brand.group_domain);
        let known =
            [MetaVersion::V1, MetaVersion::V1Beta1].into_iter().find(|known| known.as_str() == version);
        let view = match self.parameter("as") {
            "Table" => ResponseView::Table,
            "PartialObjectMetadata" => ResponseView::Metadata,
            "PartialObjectMetadataList" => ResponseView::MetadataList,
            _ => return None,
        };
        known.filter(|_| is_meta).map(|version| (view, version))
    }
}

/// The media types of `accept`: highest q-value first, then named types before `*/*`, then in the order written.
pub(crate) fn clauses(accept: &str) -> Vec<Clause<'_>> {
    let mut clauses: Vec<Clause<'_>> = accept.split(',').take(CLAUSES_MAX).map(clause).collect();
    clauses.sort_by_key(|clause| (std::cmp::Reverse(clause.quality), clause.media_type == "*/*"));
    clauses
}

fn clause(text: &str) -> Clause<'_> {
    let mut parts = text.split(';').map(str::trim);
    let media_type = parts.next().unwrap_or_default();
    let parameters: Vec<(&str, &str)> = parts.filter_map(|part| part.split_once('=')).collect();
    let quality =
        parameters.iter().find(|(name, _)| *name == "q").and_then(|(_, value)| value.parse::<f32>().ok());
    Clause { media_type, quality: thousandths(quality.unwrap_or(1.0)), parameters }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to 0..=1000 before")]
fn thousandths(quality: f32) -> u32 {
    (quality.clamp(0.0, 1.0) * 1000.0) as u32
}

#[cfg(test)]
mod tests {
    use orch_proto::brand::ORCH;

    use super::*;

    fn check(accept: &str, expected: Result<(Encoding, ResponseView), NotAcceptable>) {
        let found = negotiate(Some(accept), "test", &Query::default(), &ORCH);
        let expected = expected
            .map(|(encoding, view)| Representation { encoding, view, ..JSON })
            .map_err(ApiError::NotAcceptable);
        assert_eq!(found, expected, "{accept}");
    }

    #[test]
    fn the_best_acceptable_representation_wins() {
        let table = "application/json;as=Table;g=meta.orch.io;v=v1";
        check("application/json", Ok((Encoding::Json, ResponseView::Whole)));
        check("*/*", Ok((Encoding::Json, ResponseView::Whole)));
        check("text/html, application/json;q=0.5", Ok((Encoding::Json, ResponseView::Whole)));
        check("application/yaml", Ok((Encoding::Yaml, ResponseView::Whole)));
        check("application/json;q=0.1,application/yaml;q=0.9", Ok((Encoding::Yaml, ResponseView::Whole)));
        check(table, Ok((Encoding::Json, ResponseView::Table)));
        check(
            &format!("application/json;as=Nope;g=meta.orch.io;v=v1,{table}"),
            Ok((Encoding::Json, ResponseView::Table)),
        );
        check(
            "application/vnd.orch.protobuf, application/json",
            Ok((Encoding::Protobuf, ResponseView::Whole)),
        );
        check("application/json;stream=watch", Ok((Encoding::Json, ResponseView::Whole)));
        check("*/*, application/yaml", Ok((Encoding::Yaml, ResponseView::Whole)));
        check("application/yaml;q=0.5, */*;q=0.9", Ok((Encoding::Json, ResponseView::Whole)));
        check(
            "application/yaml;stream=watch, application/json;q=0.1",
            Ok((Encoding::Json, ResponseView::Whole)),
        );
        let list = "application/json;as=PartialObjectMetadataList;g=meta.orch.io;v=v1";
        check(list, Ok((Encoding::Json, ResponseView::MetadataList)));
    }

    #[test]
    fn views_are_of_the_version_asked_for() {
        for (version, expected) in [("v1", MetaVersion::V1), ("v1beta1", MetaVersion::V1Beta1)] {
            for kind in ["Table", "PartialObjectMetadata", "PartialObjectMetadataList"] {
                let accept = format!("application/json;as={kind};g=meta.orch.io;v={version}");
                let found = negotiate(Some(&accept), "test", &Query::default(), &ORCH);
                assert_eq!(found.map(|found| found.meta_version), Ok(expected), "{accept}");
            }
        }
    }

    #[test]
    fn forms_that_cannot_be_written_are_refused() {
        check("text/html", Err(NotAcceptable::MediaType));
        check("application/*", Err(NotAcceptable::MediaType));
        check("application/json;as=Nope;g=meta.orch.io;v=v1", Err(NotAcceptable::Parameters));
        check("application/json;as=Table;g=meta.orch.io;v=v9", Err(NotAcceptable::Parameters));
        check("application/json;g=meta.orch.io;v=v1", Err(NotAcceptable::Parameters));
        check("application/json;sv=v1", Err(NotAcceptable::Parameters));
        check("application/json;stream=log", Err(NotAcceptable::Parameters));
        check("application/yaml;stream=watch", Err(NotAcceptable::Parameters));
        check("application/vnd.orch.protobuf;as=Table;g=meta.orch.io;v=v1", Err(NotAcceptable::Parameters));
    }

    #[test]
    fn people_get_pretty_answers() {
        let pretty = |query: &str, agent: &str| {
            negotiate(None, agent, &Query::parse(query), &ORCH).map(|representation| representation.pretty)
        };
        assert_eq!(pretty("", "curl/8.0"), Ok(true));
        assert_eq!(pretty("pretty=false", "curl/8.0"), Ok(false));
        assert_eq!(pretty("pretty=true", "client"), Ok(true));
        assert_eq!(pretty("pretty=1", "client"), Ok(true));
        assert_eq!(pretty("pretty=yes", "curl/8.0"), Ok(false), "no boolean");
        assert_eq!(pretty("pretty=", "curl/8.0"), Ok(true), "as if it were not there");
        assert_eq!(pretty("", "client"), Ok(false));
    }
}
