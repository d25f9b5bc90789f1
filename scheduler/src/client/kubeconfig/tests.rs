//! Tests of configuration files: one small file, changed for each case.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::*;

/// A file with these members of cluster and user.
fn file(cluster: &str, user: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: one\npreferences: {{}}\n\
         contexts:\n- name: one\n  context: {{cluster: c, user: u, namespace: ns}}\n\
         - name: two\n  context: {{cluster: d, user: u}}\n\
         - name: anonymous\n  context: {{cluster: c}}\n\
         - name: broken\n  context: {{cluster: nowhere, user: u}}\n\
         clusters:\n- name: c\n  cluster: {{server: 'https://a:1', {cluster}}}\n\
         - name: d\n  cluster: {{server: 'https://d:4'}}\n\
         users:\n- name: u\n  user: {{{user}}}\n"
    )
}

fn read(cluster: &str, user: &str) -> Result<Config, ConfigError> {
    from_text(&file(cluster, user), Path::new("/etc/x"), None, None)
}

fn error(cluster: &str, user: &str) -> String {
    crate::client::chain(&read(cluster, user).unwrap_err())
}

fn encoded(text: &str) -> String {
    STANDARD.encode(text)
}

#[test]
fn the_current_context_decides_unless_another_is_named() {
    let config = read("", "token: t").unwrap();
    assert_eq!((config.endpoints[0].to_string().as_str(), config.namespace.as_str()), ("https://a:1", "ns"));
    let two = from_text(&file("", "token: t"), Path::new(""), Some("two"), None).unwrap();
    assert_eq!(two.endpoints[0].to_string(), "https://d:4");
    let anonymous = from_text(&file("", "token: t"), Path::new(""), Some("anonymous"), None).unwrap();
    assert_eq!(anonymous.bearer, Bearer::None);
}

#[test]
fn names_that_lead_nowhere_are_told() {
    let told =
        |context| from_text(&file("", ""), Path::new(""), Some(context), None).unwrap_err().to_string();
    assert_eq!(told("absent"), "context `absent` is not in the configuration");
    assert_eq!(told("broken"), "cluster `nowhere` is not in the configuration");
    let none = from_text("kind: Config", Path::new(""), None, None).unwrap_err();
    assert_eq!(none.to_string(), "the configuration names no current context");
}

#[test]
fn a_server_may_be_several() {
    let text = file("", "").replace("https://a:1", "https://a:1,https://b:2,https://c:3");
    let config = from_text(&text, Path::new(""), None, None).unwrap();
    assert_eq!(config.endpoints.len(), 3);
}

#[test]
fn master_replaces_the_addresses_only() {
    let master = Some("https://m:1,https://n:2");
    let config = from_text(&file("", "token: t"), Path::new("/etc/x"), None, master).unwrap();
    assert_eq!(config.endpoints.len(), 2);
    assert_eq!(config.bearer, Bearer::Token(Secret::new("t")));
}

#[test]
fn authorities_stand_inline_or_in_files_beside_the_configuration() {
    let inline = read(&format!("certificate-authority-data: {}", encoded("PEM")), "").unwrap();
    assert_eq!(inline.trust, Trust::Authority(Pem::Inline(Secret::new("PEM"))));
    let relative = read("certificate-authority: pki/ca.crt", "").unwrap();
    assert_eq!(relative.trust, Trust::Authority(Pem::File("/etc/x/pki/ca.crt".into())));
    let absolute = read("certificate-authority: /pki/ca.crt", "").unwrap();
    assert_eq!(absolute.trust, Trust::Authority(Pem::File("/pki/ca.crt".into())));
    assert_eq!(read("", "").unwrap().trust, Trust::System);
    assert_eq!(read("insecure-skip-tls-verify: true", "").unwrap().trust, Trust::Anyone);
    let both = error("insecure-skip-tls-verify: true, certificate-authority: ca", "");
    assert!(both.starts_with("insecure-skip-tls-verify: "), "{both}");
}

#[test]
fn a_server_name_is_taken() {
    assert_eq!(read("tls-server-name: api", "").unwrap().tls_server_name.as_deref(), Some("api"));
    assert_eq!(read("tls-server-name: ''", "").unwrap().tls_server_name, None);
}

#[test]
fn certificates_need_their_keys() {
    let (chain, key) = (encoded("CHAIN"), encoded("KEY"));
    let pair = read("", &format!("client-certificate-data: {chain}, client-key-data: {key}")).unwrap();
    let certificate = pair.certificate.unwrap();
    assert_eq!(certificate.chain, Pem::Inline(Secret::new("CHAIN")));
    let mixed = read("", &format!("client-certificate: a.crt, client-key-data: {key}")).unwrap();
    assert_eq!(mixed.certificate.unwrap().chain, Pem::File("/etc/x/a.crt".into()));
    assert!(error("", "client-certificate: a.crt").starts_with("client-key: "));
    assert!(error("", "client-key: a.key").starts_with("client-certificate: "));
    assert!(error("", "client-certificate-data: '%%', client-key: k").contains("not valid base64"));
}

#[test]
fn a_certificate_and_a_token_may_stand_side_by_side() {
    let config = read("", "client-certificate: c, client-key: k, token: t").unwrap();
    assert!(config.certificate.is_some());
    assert_eq!(config.bearer, Bearer::Token(Secret::new("t")));
}

#[test]
fn tokens_come_from_the_configuration_or_a_file() {
    assert_eq!(read("", "tokenFile: t").unwrap().bearer, Bearer::File("/etc/x/t".into()));
    assert_eq!(read("", "token: a, tokenFile: t").unwrap().bearer, Bearer::File("/etc/x/t".into()));
    assert_eq!(read("", "token: ''").unwrap().bearer, Bearer::None);
    let basic = read("", "username: u, password: p").unwrap().bearer;
    assert_eq!(basic, Bearer::Basic { username: "u".to_owned(), password: Secret::new("p") });
    assert!(error("", "username: u, token: t").contains("only one of"));
}

#[test]
fn programs_are_checked() {
    let exec = "exec: {apiVersion: client.authentication.x/v1, command: ./login, args: [a], \
        env: [{name: A, value: b}], interactiveMode: IfAvailable, provideClusterInfo: false}";
    let Bearer::Exec(plugin) = read("", exec).unwrap().bearer else { panic!("no program") };
    assert_eq!(plugin.command, "/etc/x/./login");
    let old = "exec: {apiVersion: client.authentication.x/v1alpha1, command: login}";
    assert!(error("", old).starts_with("exec: apiVersion"));
}

#[test]
fn settings_that_cannot_be_followed_are_refused() {
    let proxy = error("proxy-url: 'http://proxy:3128'", "");
    assert_eq!(proxy, "proxy-url is not supported: give an address that can be reached without a proxy");
    assert!(error("", "auth-provider: {name: oidc}").starts_with("auth-provider is not supported"));
    assert!(error("", "as-groups: [").starts_with("not a client configuration file"));
}

#[test]
fn impersonation_is_taken() {
    let config = read("", "as: someone, as-uid: '7', as-groups: [a, b], as-user-extra: {scopes: [x, y]}");
    let config = config.unwrap();
    let expected = Impersonation {
        user: "someone".to_owned(),
        uid: "7".to_owned(),
        groups: vec!["a".to_owned(), "b".to_owned()],
        extra: [("scopes".to_owned(), vec!["x".to_owned(), "y".to_owned()])].into(),
    };
    assert_eq!(config.impersonation, expected);
}

#[test]
fn neither_debug_nor_errors_show_secrets() {
    let user = format!("client-certificate: c, client-key-data: {}, token: s3cret", encoded("s3cret"));
    let shown = format!("{:?}", read("", &user).unwrap());
    assert!(!shown.contains("s3cret") && !shown.contains(&encoded("s3cret")), "{shown}");
    let told = error("", "client-certificate: c, client-key-data: 's3cret!', token: s3cret");
    assert!(!told.contains("s3cret"), "{told}");
}

#[test]
fn a_missing_file_is_named() {
    let error = from_file(Path::new("/nonexistent/config"), None, None).unwrap_err();
    assert_eq!(error.to_string(), "cannot read /nonexistent/config");
}

#[test]
fn empty_lists_may_be_written_as_null() {
    let text = "current-context: a\ncontexts: [{name: a, context: {cluster: c}}]\nusers: null\n\
                clusters: [{name: c, cluster: {server: 'https://a:1'}}]\n";
    assert_eq!(from_text(text, Path::new(""), None, None).unwrap().bearer, Bearer::None);
    let nothing = "clusters: null\ncontexts: null\nusers: null\n";
    let told = from_text(nothing, Path::new(""), None, None).unwrap_err();
    assert!(matches!(told, ConfigError::NoContext), "{told}");
    assert_eq!(
        read("", "as-groups: null, as-user-extra: null").unwrap().impersonation,
        Impersonation::default()
    );
}

#[test]
fn a_master_stands_for_what_the_file_lacks() {
    let with_master = |text: &str| {
        let config = from_text(text, Path::new("/etc/x"), None, Some("http://m:1,http://n:2"));
        config.map(|config| (config.endpoints[1].to_string(), config.bearer))
    };
    let token = Bearer::Token(Secret::new("t"));
    let master = |bearer| Some(("http://n:2".to_owned(), bearer));
    assert_eq!(with_master("kind: Config").ok(), master(Bearer::None));
    assert_eq!(with_master(&file("", "token: t")).ok(), master(token.clone()));
    let context = "current-context: a\nusers: [{name: u, user: {token: t}}]\n\
                   contexts: [{name: a, context: {cluster: c, user: u}}]\n";
    assert_eq!(with_master(&format!("{context}clusters: [{{name: c, cluster: {{}}}}]")).ok(), master(token));
    assert!(with_master(context).is_err(), "the cluster is named and not there");
    assert!(with_master("current-context: nowhere").is_err());
}
