//! The signature of a request in its address, version 4, worked out from the published rules.

use std::collections::BTreeMap;

use ring::hmac;
use sha2::{Digest, Sha256};

pub(super) const KEY: &str = "AKEXAMPLE";
pub(crate) const SECRET: &str = "s3cret/of+the=tests";
pub(super) const REGION: &str = "eu-north-9";

/// The pairs of a query, decoded.
pub(super) fn query(text: &str) -> BTreeMap<String, String> {
    let pairs = text.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decoded(name), decoded(value))
        })
        .collect()
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => {
                let digits = [rest.next().unwrap(), rest.next().unwrap()];
                bytes.push(u8::from_str_radix(str::from_utf8(&digits).unwrap(), 16).unwrap());
            }
            byte => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).unwrap()
}

fn encoded(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    let one = |byte: u8| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(one).collect()
}

/// Whether the signature in `pairs` is that of version 4 for this request.
pub(super) fn is_signed(method: &str, path: &str, host: &str, pairs: &BTreeMap<String, String>) -> bool {
    let value = |name: &str| pairs.get(name).map(String::as_str).unwrap_or_default();
    let time = value("X-Amz-Date");
    let Some(date) = time.get(..8).filter(|_| time.len() == 16) else { return false };
    let scope = format!("{date}/{REGION}/s3/aws4_request");
    let is_in_form = value("X-Amz-Algorithm") == "AWS4-HMAC-SHA256"
        && value("X-Amz-SignedHeaders") == "host"
        && value("X-Amz-Credential") == format!("{KEY}/{scope}")
        && value("X-Amz-Expires").parse::<u32>().is_ok_and(|seconds| seconds <= 3600);
    let signed = pairs.iter().filter(|(name, _)| *name != "X-Amz-Signature");
    let signed: Vec<String> =
        signed.map(|(name, value)| format!("{}={}", encoded(name), encoded(value))).collect();
    let canonical = format!("{method}\n{path}\n{}\nhost:{host}\n\nhost\nUNSIGNED-PAYLOAD", signed.join("&"));
    let digest = hex(&Sha256::digest(canonical));
    let mut key = format!("AWS4{SECRET}").into_bytes();
    let steps = [date, REGION, "s3", "aws4_request", &format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{digest}")];
    for step in steps {
        let signed = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &key), step.as_bytes());
        key = signed.as_ref().to_vec();
    }
    is_in_form && value("X-Amz-Signature") == hex(&key)
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
