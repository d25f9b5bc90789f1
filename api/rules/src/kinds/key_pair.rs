//! Faults of the certificate and the key in a secret of type `tls`, in the words of the reference's TLS library.
//!
//! Owns the search for PEM blocks in both and the check that they can be read. Whether the key is that of the certificate
//! is not checked: servers that load both find out.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use orch_schema::value::Value;
use x509_parser::der_parser::parse_der;

use crate::certificates::PemBlock;
use crate::validate::tree::Tree;

const CERTIFICATE: &str = "CERTIFICATE";
const PRIVATE_KEY: &str = "PRIVATE KEY";

/// Why the pair in the `data` of a secret cannot be loaded; `None` if it can.
pub(super) fn fault_of_pair(data: &Value) -> Option<String> {
    let text = |key: &str| {
        let bytes = STANDARD.decode(data.text(key)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let (certificate, key) = (text("tls.crt"), text("tls.key"));
    let certificate = match find(&certificate, |label| label == CERTIFICATE) {
        Ok(block) => block,
        Err(skipped) => return Some(no_certificate(&skipped)),
    };
    let is_key = |label: &str| label.ends_with(PRIVATE_KEY);
    let key = match find(&key, is_key) {
        Ok(block) => block,
        Err(skipped) => return Some(no_key(&skipped)),
    };
    if x509_parser::parse_x509_certificate(&certificate.content).is_err() {
        return Some("x509: malformed certificate".to_owned());
    }
    parse_der(&key.content).is_err().then(|| "tls: failed to parse private key".to_owned())
}

/// The first block with a label that is `wanted`; otherwise the labels of all blocks.
fn find(text: &str, wanted: impl Fn(&str) -> bool) -> Result<PemBlock, Vec<String>> {
    let (mut rest, mut skipped) = (text, Vec::new());
    while let Some((block, behind)) = PemBlock::first(rest) {
        if wanted(&block.label) {
            return Ok(block);
        }
        skipped.push(block.label);
        rest = behind;
    }
    Err(skipped)
}

fn no_certificate(skipped: &[String]) -> String {
    match skipped {
        [] => "tls: failed to find any PEM data in certificate input".to_owned(),
        [one] if one.ends_with(PRIVATE_KEY) => {
            "tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs may \
             have been switched"
                .to_owned()
        }
        _ => format!(
            "tls: failed to find \"{CERTIFICATE}\" PEM block in certificate input after skipping PEM blocks of the \
             following types: [{}]",
            skipped.join(" ")
        ),
    }
}

fn no_key(skipped: &[String]) -> String {
    match skipped {
        [] => "tls: failed to find any PEM data in key input".to_owned(),
        [one] if one == CERTIFICATE => {
            "tls: found a certificate rather than a key in the PEM for the private key".to_owned()
        }
        _ => format!(
            "tls: failed to find PEM block with type ending in \"{PRIVATE_KEY}\" in key input after skipping PEM blocks \
             of the following types: [{}]",
            skipped.join(" ")
        ),
    }
}

#[cfg(test)]
mod tests {
    use orch_schema::json;

    use super::*;

    #[test]
    fn faults_are_those_of_the_library() {
        let block = |label: &str| format!("-----BEGIN {label}-----\nAQ==\n-----END {label}-----\n");
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = rcgen::CertificateParams::default().self_signed(&key).unwrap().pem();
        let key = key.serialize_pem();
        for (certificate, key, expected) in [
            (String::new(), String::new(), Some("tls: failed to find any PEM data in certificate input")),
            (block("EC PRIVATE KEY"), String::new(), Some("PEM inputs may have been switched")),
            (block("A") + &block("B"), String::new(), Some("of the following types: [A B]")),
            (certificate.clone(), String::new(), Some("tls: failed to find any PEM data in key input")),
            (certificate.clone(), certificate.clone(), Some("tls: found a certificate rather than a key")),
            (block("CERTIFICATE"), key.clone(), Some("x509: malformed certificate")),
            (certificate.clone(), block("PRIVATE KEY"), Some("tls: failed to parse private key")),
            (certificate, key, None),
        ] {
            let data = json!({"tls.crt": STANDARD.encode(certificate), "tls.key": STANDARD.encode(key)});
            match (fault_of_pair(&data), expected) {
                (None, None) => {}
                (Some(fault), Some(expected)) => assert!(fault.contains(expected), "{fault}"),
                (fault, expected) => panic!("{fault:?}, expected {expected:?}"),
            }
        }
    }
}
