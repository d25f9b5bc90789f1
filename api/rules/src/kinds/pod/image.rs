//! Image references: whether the tag is `latest`, on which the default of `imagePullPolicy` depends.

/// Whether an image reference has the moving tag `latest`, or no tag and no digest, which means the same.
pub(super) fn is_latest(reference: &str) -> bool {
    let (named, digest) =
        reference.split_once('@').map_or((reference, None), |(named, digest)| (named, Some(digest)));
    let (path, tag) = match named.rsplit_once(':') {
        Some((path, tag)) if !tag.contains('/') => (path, Some(tag)),
        _ => (named, None),
    };
    if !is_repository(path) || digest.is_some_and(|digest| !digest.contains(':')) {
        return false;
    }
    match (tag, digest) {
        (Some(tag), _) => tag == "latest",
        (None, digest) => digest.is_none(),
    }
}

// An image reference that does not parse has no tag at all.
fn is_repository(path: &str) -> bool {
    let host = |part: &str| part.contains(['.', ':']) || part == "localhost";
    let remainder = match path.split_once('/') {
        Some((domain, rest)) if host(domain) => rest,
        _ => path,
    };
    let valid = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, b'.' | b'_' | b'-');
    let edge = |c: &u8| c.is_ascii_alphanumeric();
    remainder.split('/').all(|part| {
        let bytes = part.as_bytes();
        bytes.first().is_some_and(edge) && bytes.last().is_some_and(edge) && bytes.iter().all(|&c| valid(c))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_moving_tag() {
        for (reference, expected) in [
            ("i", true),
            ("repo/img", true),
            ("img:1", false),
            ("img:latest", true),
            ("host:5000/img", true),
            ("host:5000/img:2", false),
            ("img@sha256:0123", false),
            ("img:latest@sha256:0123", true),
            ("Bad Image", false),
            ("", false),
        ] {
            assert_eq!(is_latest(reference), expected, "{reference}");
        }
    }
}
