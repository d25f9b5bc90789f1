//! Requests and certificates of clients, well-formed and hostile, and the rules of the signers.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use orch_proto::brand::{KUBERNETES, ORCH};
use rcgen::{DistinguishedName, DnType, DnValue, SanType};

use super::testing::{certificate, request, request_of};
use super::*;

fn dns(name: &str) -> SanType {
    SanType::DnsName(name.try_into().unwrap())
}

fn parsed(common_name: &str, organization: &str, names: Vec<SanType>) -> CertificateRequest {
    CertificateRequest::parse(request(common_name, organization, names).as_bytes()).unwrap()
}

#[test]
fn a_request_tells_who_asks_for_which_names() {
    let address = std::net::IpAddr::from([10, 0, 0, 1]);
    let names = vec![
        dns("a.example.com"),
        SanType::IpAddress(address),
        SanType::Rfc822Name("a@example.com".try_into().unwrap()),
        SanType::URI("spiffe://a/b".try_into().unwrap()),
    ];
    let request = parsed("ann", "team", names);
    assert_eq!(
        (request.common_name.as_str(), request.organizations.as_slice()),
        ("ann", &["team".to_owned()][..])
    );
    let expected = [
        AlternativeName::Dns("a.example.com".to_owned()),
        AlternativeName::Ip(address),
        AlternativeName::Email("a@example.com".to_owned()),
        AlternativeName::Uri("spiffe://a/b".to_owned()),
    ];
    assert_eq!(request.names, expected);
    assert_eq!(request.subject[0], 0x30);
    assert_eq!(request.public_key[0], 0x30);
}

#[test]
fn text_that_is_no_signed_request_is_refused() {
    let good = request("ann", "team", vec![dns("a.b")]);
    let (block, _) = PemBlock::first(&good).unwrap();
    let pem = |label: &str, content: &[u8]| {
        format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", STANDARD.encode(content))
    };
    let mut renamed = block.content.clone();
    let at = renamed.windows(3).position(|window| window == b"ann").unwrap();
    renamed[at] = b'b';
    let mut longer = block.content.clone();
    longer.push(0);
    for (text, expected) in [
        (String::new(), "PEM block type must be CERTIFICATE REQUEST"),
        ("nonsense".to_owned(), "PEM block type must be CERTIFICATE REQUEST"),
        (certificate(), "PEM block type must be CERTIFICATE REQUEST"),
        (pem("CERTIFICATE REQUEST", b"x"), "asn1: structure error: not a certificate request"),
        (pem("CERTIFICATE REQUEST", &longer), "asn1: syntax error: trailing data"),
        (pem("CERTIFICATE REQUEST", &renamed), "x509: ECDSA verification failure"),
    ] {
        let error = CertificateRequest::parse(text.as_bytes()).unwrap_err();
        assert_eq!(error.to_string(), expected, "{text}");
    }
    let cut = |to: usize| pem("CERTIFICATE REQUEST", &block.content[..to]);
    for to in 0..block.content.len() {
        assert!(CertificateRequest::parse(cut(to).as_bytes()).is_err(), "{to}");
    }
    // Quadratic work on this would not end.
    let begins = "-----BEGIN CERTIFICATE REQUEST-----\n".repeat(100_000);
    assert!(CertificateRequest::parse(begins.as_bytes()).is_err());
    assert!(CertificateRequest::parse(format!("{begins}\n-----END X-----\n").as_bytes()).is_err());
    let ends = "\n-----END CERTIFICATE REQUEST-----".repeat(100_000);
    assert!(CertificateRequest::parse(format!("{begins}{ends}").as_bytes()).is_err());
    assert!(CertificateRequest::parse(format!("{begins}{good}").as_bytes()).is_ok());
    let surrounded = format!("text\n{good}text");
    assert!(CertificateRequest::parse(surrounded.as_bytes()).is_ok(), "text around a block is ignored");
}

#[test]
fn a_subject_that_no_check_reads_completely_is_refused() {
    let asked = |kind: DnType, value: DnValue| {
        let mut subject = DistinguishedName::new();
        subject.push(DnType::CommonName, "ann");
        subject.push(kind, value);
        CertificateRequest::parse(request_of(subject, Vec::new()).as_bytes())
    };
    let utf8 = |text: &str| DnValue::Utf8String(text.to_owned());
    let teletex = |text: &str| DnValue::TeletexString(text.try_into().unwrap());
    let bmp = |text: &str| DnValue::BmpString(text.try_into().unwrap());
    let uid = || DnType::CustomDnType(vec![1, 3, 6, 1, 4, 1, 57_683, 2]);
    let unreadable =
        "x509: common names, organizations and uids of a subject must be UTF8String or PrintableString";
    let several = "x509: the subject has more than one common name";
    for (kind, value, expected) in [
        (DnType::OrganizationName, teletex("system:masters"), unreadable),
        (DnType::OrganizationName, bmp("system:masters"), unreadable),
        (DnType::CommonName, teletex("system:admin"), unreadable),
        (uid(), bmp("u"), unreadable),
        (DnType::CustomDnType(vec![2, 5, 4, 3]), utf8("system:admin"), several),
    ] {
        assert_eq!(asked(kind, value).unwrap_err().to_string(), expected);
    }
    let with_uid = asked(uid(), utf8("u")).unwrap();
    assert!(with_uid.has_uid);
    for signer in BuiltinSigner::ALL {
        assert_eq!(signer.check(&with_uid, &["client auth"]), Err(SignerRefusal::Uid), "{signer:?}");
    }
    // The type of the last attribute, the common name, becomes another element: the parser stops before it.
    let good = request("ann", "team", Vec::new());
    let mut content = PemBlock::first(&good).unwrap().0.content;
    let at = content.windows(5).position(|window| window == [0x06, 3, 0x55, 4, 3]).unwrap();
    content[at] = 0x05;
    let text = format!(
        "-----BEGIN CERTIFICATE REQUEST-----\n{}\n-----END CERTIFICATE REQUEST-----\n",
        STANDARD.encode(content)
    );
    let error = CertificateRequest::parse(text.as_bytes()).unwrap_err();
    assert_eq!(error.to_string(), "x509: malformed subject");
}

#[test]
fn certificates_are_pem_blocks_without_headers() {
    let one = certificate();
    let headed = one.replacen("-----\n", "-----\nKey: value\n\n", 1);
    let empty = "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n".to_owned();
    let damaged = "-----BEGIN CERTIFICATE-----\neHl6\n-----END CERTIFICATE-----\n".to_owned();
    for (text, expected) in [
        (one.clone(), None),
        (format!("text\n{one}{one}"), None),
        ("nonsense".to_owned(), Some("must contain at least one CERTIFICATE PEM block")),
        (
            format!("{one}{}", request("a", "", Vec::new())),
            Some("only CERTIFICATE PEM blocks are allowed, found \"CERTIFICATE REQUEST\""),
        ),
        (headed.replace("\r\n", "\n"), Some("no PEM block headers are permitted")),
        (empty, Some("found CERTIFICATE PEM block containing 0 certificates")),
        (damaged, Some("x509: malformed certificate")),
    ] {
        let refusal = validate_certificates(text.as_bytes()).err().map(|error| error.to_string());
        assert_eq!(refusal.as_deref(), expected, "{text}");
    }
    assert!(not_after(one.as_bytes()).is_some());
    assert_eq!(not_after(b"nonsense"), None);
}

#[test]
fn each_signer_has_its_rules() {
    let nodes = "system:nodes";
    let client: &[&str] = &["digital signature", "client auth"];
    let client_rsa: &[&str] = &["key encipherment", "digital signature", "client auth"];
    let serving: &[&str] = &["digital signature", "server auth"];
    let node = || parsed("system:node:a", nodes, Vec::new());
    let host = || parsed("system:node:a", nodes, vec![dns("a")]);
    use BuiltinSigner::{ApiServerClient, ApiServerClientKubelet, KubeletServing, LegacyUnknown};
    for (signer, request, usages, expected) in [
        (ApiServerClient, parsed("ann", "", Vec::new()), &["client auth"][..], ""),
        (ApiServerClient, node(), client_rsa, ""),
        (ApiServerClient, node(), serving, "invalid usage for client certificate: server auth"),
        (
            ApiServerClient,
            node(),
            &["digital signature"],
            "missing required usage for client certificate: client auth",
        ),
        (ApiServerClientKubelet, node(), client, ""),
        (ApiServerClientKubelet, node(), client_rsa, ""),
        (
            ApiServerClientKubelet,
            node(),
            serving,
            "usages did not match [client auth digital signature key encipherment]",
        ),
        (ApiServerClientKubelet, host(), client, "DNS subjectAltNames are not allowed"),
        (
            ApiServerClientKubelet,
            parsed("system:node:a", "other", Vec::new()),
            client,
            "subject organization is not system:nodes",
        ),
        (
            ApiServerClientKubelet,
            parsed("a", nodes, Vec::new()),
            client,
            "subject common name does not begin with system:node:",
        ),
        (KubeletServing, host(), serving, ""),
        (KubeletServing, node(), serving, "DNS or IP subjectAltName is required"),
        (
            KubeletServing,
            host(),
            client,
            "usages did not match [digital signature key encipherment server auth]",
        ),
        (LegacyUnknown, parsed("x", "y", Vec::new()), &[], ""),
    ] {
        let told = signer.check(&request, usages).err().map(|error| error.to_string()).unwrap_or_default();
        assert_eq!(told, expected, "{signer:?} {usages:?}");
    }
}

#[test]
fn signers_are_named_under_the_brand() {
    let name = BuiltinSigner::KubeletServing.name(&ORCH);
    assert_eq!(name, "orch.io/kubelet-serving");
    assert_eq!(BuiltinSigner::named(&ORCH, &name), Some(BuiltinSigner::KubeletServing));
    assert_eq!(BuiltinSigner::named(&KUBERNETES, &name), None);
}

#[test]
fn every_usage_has_its_place_in_a_certificate() {
    let all = KeyUsages::named(ALL_USAGES).unwrap();
    assert_eq!((all.bits, all.extended.len()), (0b1_1111_1111, 12));
    assert!(ALL_USAGES.is_sorted());
    let same = KeyUsages::named(["signing", "s/mime"]).unwrap();
    assert_eq!(same, KeyUsages::named(["digital signature", "email protection"]).unwrap());
    assert_eq!(KeyUsages::named(["any", "nonesuch"]), Err(vec!["nonesuch"]));
}
