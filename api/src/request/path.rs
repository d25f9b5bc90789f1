//! Parsing of paths: `/api/v1/...` and `/apis/GROUP/VERSION/...`.
//!
//! Owns the split into group, version, namespace, resource, name and sub-resource. The registry decides whether such a
//! resource is served.

use percent_encoding::percent_decode_str;

/// A path below `/api` or `/apis` that names a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// API group; empty for core.
    pub group: String,
    /// API version: `v1`.
    pub version: String,
    /// Namespace; empty for cluster-scoped resources and for all namespaces.
    pub namespace: String,
    /// Resource, plural: `configmaps`.
    pub resource: String,
    /// Object name; empty for a collection.
    pub name: String,
    /// Sub-resource (`status`); empty for the object itself.
    pub subresource: String,
    /// The path behind the sub-resource, with its slash at the start, decoded. Empty where there is none.
    pub subpath: String,
    /// The deprecated `/watch/` prefix was used.
    pub deprecated_watch: bool,
}

impl Target {
    /// The namespace that authorization rules apply to. For a namespace object it is that namespace itself.
    pub fn namespace_of_rules(&self) -> &str {
        if self.resource == "namespaces" && self.namespace.is_empty() { &self.name } else { &self.namespace }
    }
}

/// A parsed path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetPath {
    /// A resource, served or not.
    Resource(Target),
    /// Anything else: health, version, discovery, unknown.
    Other,
    /// The path's percent-encoding is not UTF-8.
    Malformed,
}

/// Most segments of a path: more than `apis/g/v/watch/namespaces/n/resource/name/sub/and/more` has.
pub(crate) const SEGMENTS_MAX: usize = 32;

/// `path` without its trailing slash, if any; empty for the root. `None`: the path has empty segments. Such a path is
/// not served, and removing the segments does not make it a served one.
pub fn without_trailing_slash(path: &str) -> Option<&str> {
    let path = path.strip_suffix('/').unwrap_or(path);
    if path.is_empty() {
        return Some(path);
    }
    let mut segments = path.strip_prefix('/')?.split('/');
    segments.all(|segment| !segment.is_empty()).then_some(path)
}

/// Parses `path`.
pub fn parse_path(path: &str) -> TargetPath {
    // Decoded before it is split, so that an escaped slash separates segments, too.
    let Ok(path) = percent_decode_str(path).decode_utf8() else { return TargetPath::Malformed };
    let path = path.strip_prefix('/').unwrap_or(&path);
    // The path behind a proxy is another server's: it may have empty segments, any number of them, and a slash at its end.
    let (path, proxied) = split_proxied(path).unwrap_or((path, ""));
    let path = path.strip_suffix('/').unwrap_or(path);
    let segments = || path.split('/');
    // Empty or excess segments are never dropped to make a path valid: a proxy that authorizes by path would read
    // another path.
    if segments().nth(SEGMENTS_MAX).is_some() || segments().any(str::is_empty) {
        return TargetPath::Other;
    }
    let mut rest = segments().map(str::to_owned);
    let mut target = Target::default();
    match rest.next().as_deref() {
        Some("api") => {}
        Some("apis") => match rest.next() {
            Some(group) => target.group = group,
            None => return TargetPath::Other,
        },
        _ => return TargetPath::Other,
    }
    let Some(version) = rest.next() else { return TargetPath::Other };
    target.version = version;
    let mut rest: Vec<String> = rest.collect();
    if rest.first().is_some_and(|first| first == "watch") {
        target.deprecated_watch = true;
        rest.remove(0);
    }
    if rest.is_empty() {
        return TargetPath::Other;
    }
    assign_segments(&mut target, rest);
    target.subpath.push_str(proxied);
    TargetPath::Resource(target)
}

/// Splits `path`, which begins without a slash, behind the sub-resource `proxy`. `None`: it has none.
fn split_proxied(path: &str) -> Option<(&str, &str)> {
    /// Segments up to the sub-resource of the longest form: `apis/g/v/namespaces/n/resource/name/proxy`.
    const SEGMENTS: usize = 8;
    // Most paths end here.
    if !path.contains("/proxy") {
        return None;
    }
    let mut ends = Vec::with_capacity(SEGMENTS);
    let mut start = 0;
    for segment in path.split('/').take(SEGMENTS) {
        ends.push((segment, start + segment.len()));
        start += segment.len() + 1;
    }
    let behind_version = match ends.first()?.0 {
        "api" => 2,
        "apis" => 3,
        _ => return None,
    };
    let is_namespaced = ends.get(behind_version)?.0 == "namespaces";
    let (segment, end) = *ends.get(behind_version + if is_namespaced { 4 } else { 2 })?;
    (segment == "proxy").then(|| path.split_at(end))
}

/// Assigns the segments behind the version. `namespaces/NAME` is the namespace object; further segments name a resource
/// in that namespace, unless they are a sub-resource of the object.
fn assign_segments(target: &mut Target, segments: Vec<String>) {
    let in_namespace = segments.len() > 2
        && segments[0] == "namespaces"
        && !matches!(segments[2].as_str(), "status" | "finalize");
    let mut rest = segments.into_iter();
    if in_namespace {
        rest.next();
        target.namespace = rest.next().unwrap_or_default();
    }
    target.resource = rest.next().unwrap_or_default();
    target.name = rest.next().unwrap_or_default();
    target.subresource = rest.next().unwrap_or_default();
    for segment in rest {
        target.subpath.push('/');
        target.subpath.push_str(&segment);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, expected: [&str; 6]) {
        let TargetPath::Resource(target) = parse_path(path) else { panic!("{path} is no resource path") };
        let found = [
            &target.group,
            &target.version,
            &target.namespace,
            &target.resource,
            &target.name,
            &target.subresource,
        ];
        assert_eq!(found, expected, "{path}");
    }

    #[test]
    fn path_shapes_are_taken_apart() {
        check("/api/v1/pods", ["", "v1", "", "pods", "", ""]);
        check("/api/v1/namespaces", ["", "v1", "", "namespaces", "", ""]);
        check("/api/v1/namespaces/n", ["", "v1", "", "namespaces", "n", ""]);
        check("/api/v1/namespaces/n/status", ["", "v1", "", "namespaces", "n", "status"]);
        check("/api/v1/namespaces/n/finalize", ["", "v1", "", "namespaces", "n", "finalize"]);
        check("/api/v1/namespaces/n/status/x", ["", "v1", "", "namespaces", "n", "status"]);
        check("/api/v1/namespaces/n/pods/p/log", ["", "v1", "n", "pods", "p", "log"]);
        check("/apis/g.io/v2/namespaces/n/roles", ["g.io", "v2", "n", "roles", "", ""]);
        check("/apis/g.io/v2/namespaces/n/roles/a%20b", ["g.io", "v2", "n", "roles", "a b", ""]);
        check("/api/v1/namespaces/n%2Fpods/p", ["", "v1", "n", "pods", "p", ""]);
        check("/api/v1/watch/namespaces/n/pods/p", ["", "v1", "n", "pods", "p", ""]);
        check("/api/v1/namespaces/n/services/s/proxy/a/b", ["", "v1", "n", "services", "s", "proxy"]);
    }

    #[test]
    fn the_path_behind_a_sub_resource_is_kept() {
        for (path, name, subpath) in [
            ("/api/v1/namespaces/n/pods/p/status/x/y", "p", "/x/y"),
            ("/api/v1/namespaces/n/pods/p/proxy", "p", ""),
            ("/api/v1/namespaces/n/pods/p/proxy/", "p", "/"),
            ("/api/v1/namespaces/n/pods/http:p:80/proxy/a//b/", "http:p:80", "/a//b/"),
            ("/api/v1/nodes/n/proxy/a%2Fb", "n", "/a/b"),
            ("/apis/g.io/v2/namespaces/n/things/t/proxy//", "t", "//"),
            ("/api/v1/namespaces/n/pods/p/proxy/../../../secrets/s", "p", "/../../../secrets/s"),
            ("/api/v1/namespaces/n/proxy/p", "p", ""),
        ] {
            let TargetPath::Resource(target) = parse_path(path) else { panic!("{path} is no resource path") };
            assert_eq!((target.name.as_str(), target.subpath.as_str()), (name, subpath), "{path}");
        }
        let deep = format!("/api/v1/nodes/n/proxy{}", "/a".repeat(100));
        assert!(matches!(parse_path(&deep), TargetPath::Resource(target) if target.subpath.len() == 200));
    }

    #[test]
    fn a_path_with_empty_segments_is_none() {
        for (path, plain) in [("/", ""), ("/readyz", "/readyz"), ("/apis/apps/", "/apis/apps")] {
            assert_eq!(without_trailing_slash(path), Some(plain), "{path}");
        }
        for path in ["//", "//readyz", "/readyz//", "/apis//apps", "*", "x/y"] {
            assert_eq!(without_trailing_slash(path), None, "{path}");
        }
    }

    #[test]
    fn other_paths_are_no_resources() {
        for path in
            ["/", "/api", "/api/v1", "/apis", "/apis/apps", "/apis/apps/v1", "/healthz", "/api/v1/watch"]
        {
            assert_eq!(parse_path(path), TargetPath::Other, "{path}");
        }
        let long = |segments: usize| format!("/api/v1/pods/p/log{}", "/a".repeat(segments - 5));
        for path in [
            "//api/v1/pods",
            "/api//v1/pods",
            "/api/v1//pods",
            "/api/v1/pods//",
            "/api/v1/pods/%2fp",
            &long(33),
        ] {
            assert_eq!(parse_path(path), TargetPath::Other, "{path}");
        }
        check("/api/v1/pods/", ["", "v1", "", "pods", "", ""]);
        check(&long(32), ["", "v1", "", "pods", "p", "log"]);
        assert_eq!(parse_path("/api/v1/%ff"), TargetPath::Malformed);
    }
}
