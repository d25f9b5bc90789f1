//! Compares a certificate directory with what [`super::reissue`] would make there.
//!
//! Owns what counts as a difference: a certificate that does not do what the one of now would (its hosts, its validity, its purpose, its
//! authority, its key, a client's name), and a client configuration that leads elsewhere, trusts another authority or has no such
//! certificate. Further hosts are no difference, nor are files of clients that an operator took away, nor a later validity.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use orch_proto::Brand;
use orch_serving::kubeconfig::{self, File, Material, find, material};
use orch_serving::{Secret, tls as pem};
use rcgen::PublicKeyData;
use rustls::pki_types::CertificateDer;
use time::OffsetDateTime;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::authority::{CertsError, Leaf, Purpose, read};
use super::clients::Client;
use super::init::{known_servers, no_config, peer_leaf, server, server_leaf};
use super::inspect::{Facts, inspect_pem, no_certificate_in};
use super::key::key_pair;
use super::layout::Layout;
use crate::cli::MemberSpec;

/// The first difference of the files in `dir` from those that `reissue` would make for `member` at `now`; `None` where there is none.
///
/// # Errors
/// A file cannot be read.
pub fn differs_from_reissued(
    dir: &Path,
    member: &MemberSpec,
    secure_port: u16,
    brand: &Brand,
    now: OffsetDateTime,
) -> Result<Option<String>, CertsError> {
    let (layout, name, hosts) = (Layout::new(dir), &member.name, &member.hosts);
    let authority = Authorities::of(&layout.authority_certificate())?;
    let peer_authority = Authorities::of(&layout.peer_authority_certificate())?;
    let files = layout.member(name);
    let mut pairs = vec![
        (files.server_certificate, files.server_key, server_leaf(name, hosts, brand), &authority),
        (files.peer_certificate, files.peer_key, peer_leaf(name, hosts), &peer_authority),
    ];
    let clients = Client::ALL.map(|client| (client, layout.client(client)));
    for (client, files) in clients.iter().filter(|(_, files)| files.certificate.exists()) {
        pairs.push((files.certificate.clone(), files.key.clone(), client.leaf(brand), &authority));
    }
    for (certificate, key, leaf, authority) in &pairs {
        let texts = (read(certificate)?, read(key)?);
        let found = Found { certificate, key, texts: (texts.0.as_bytes(), &texts.1) };
        if let Some(difference) = found.difference(leaf, authority, now)? {
            return Ok(Some(difference));
        }
    }
    let url = server(member, secure_port).url;
    for (client, files) in clients.iter().filter(|(_, files)| files.config.exists()) {
        if !known_servers(&layout, *client)?.iter().any(|known| is_same_server(&known.url, &url)) {
            return Ok(Some(format!("{} does not name {url}", files.config.display())));
        }
        let config = Config { path: &files.config, client: *client, url: &url };
        if let Some(difference) = config.difference(&authority, brand, now)? {
            return Ok(Some(difference));
        }
    }
    Ok(None)
}

/// The certificates of an authority: two while it is being replaced.
struct Authorities {
    path: PathBuf,
    certificates: Vec<CertificateDer<'static>>,
}

impl Authorities {
    fn of(path: &Path) -> Result<Authorities, CertsError> {
        let certificates = pem::certificates(read(path)?.as_bytes());
        let certificates = certificates.map_err(|fault| CertsError::Content {
            path: path.to_owned(),
            expected: "an authority's certificate",
            reason: fault.to_string(),
        })?;
        Ok(Authorities { path: path.to_owned(), certificates })
    }

    fn have_signed(&self, certificate: &X509Certificate<'_>) -> bool {
        let parsed = self.certificates.iter().filter_map(|own| Some(X509Certificate::from_der(own).ok()?.1));
        parsed.into_iter().any(|own| certificate.verify_signature(Some(own.public_key())).is_ok())
    }
}

/// A certificate and a key, in files of their own or in a client configuration.
struct Found<'a> {
    certificate: &'a Path,
    key: &'a Path,
    /// Both in PEM.
    texts: (&'a [u8], &'a str),
}

impl Found<'_> {
    /// The first difference from a pair of `leaf` that `authority` signs at `now`.
    fn difference(
        &self,
        leaf: &Leaf,
        authority: &Authorities,
        now: OffsetDateTime,
    ) -> Result<Option<String>, CertsError> {
        let (path, shown) = (self.certificate, self.certificate.display());
        let facts = inspect_pem(path, self.texts.0)?;
        let (Some(own), Ok(chain)) = (facts.first(), pem::certificates(self.texts.0)) else {
            return Ok(Some(no_certificate_in(path)));
        };
        let lacks = |host: &&String| !own.hosts.iter().any(|known| is_same_host(known, host));
        // few: the hosts that flags name, and those of a certificate.
        if let Some(host) = leaf.hosts.iter().find(lacks) {
            return Ok(Some(format!("{shown} is not for {host}")));
        }
        if own.not_after < now {
            return Ok(Some(format!("{shown} has ended")));
        }
        if own.not_before > now {
            return Ok(Some(format!("{shown} is valid only from {} on", own.not_before)));
        }
        // `inspect_pem` has parsed it.
        let parsed = chain.first().and_then(|first| X509Certificate::from_der(first).ok());
        let Some((_, parsed)) = parsed else { return Ok(Some(no_certificate_in(path))) };
        if !serves(&parsed, leaf.purpose) {
            let purpose = match leaf.purpose {
                Purpose::Server => "a server",
                Purpose::Client => "a client",
                Purpose::Peer => "both ends of a connection between members",
            };
            return Ok(Some(format!("{shown} is no certificate of {purpose}")));
        }
        if leaf.purpose == Purpose::Client && !is_of(own, leaf) {
            return Ok(Some(format!("{shown} is of {}, not of {}", own.subject, leaf.common_name)));
        }
        if !authority.have_signed(&parsed) {
            return Ok(Some(format!("{shown} is not signed by {}", authority.path.display())));
        }
        if key_pair(self.key, self.texts.1)?.subject_public_key_info() != parsed.public_key().raw {
            return Ok(Some(format!("{} is not the key of {shown}", self.key.display())));
        }
        Ok(None)
    }
}

/// Whether a certificate is for the uses that `purpose` has.
fn serves(certificate: &X509Certificate<'_>, purpose: Purpose) -> bool {
    let usage = certificate.extended_key_usage().ok().flatten();
    usage.is_some_and(|usage| match purpose {
        Purpose::Server => usage.value.server_auth,
        Purpose::Client => usage.value.client_auth,
        Purpose::Peer => usage.value.server_auth && usage.value.client_auth,
    })
}

/// Whether a client's certificate names the user and the group of `leaf`.
fn is_of(found: &Facts, leaf: &Leaf) -> bool {
    let group = leaf.organization.as_ref().map(|group| format!("O={group}, ")).unwrap_or_default();
    found.subject == format!("{group}CN={}", leaf.common_name)
}

/// A client's configuration.
struct Config<'a> {
    path: &'a Path,
    client: Client,
    /// The server that it is to lead to.
    url: &'a str,
}

impl Config<'_> {
    /// The first difference from one that trusts `authority` and has a pair that it signed, at `now`.
    fn difference(
        &self,
        authority: &Authorities,
        brand: &Brand,
        now: OffsetDateTime,
    ) -> Result<Option<String>, CertsError> {
        let (path, shown) = (self.path, self.path.display());
        // The parser's error may quote a key.
        let file: File = kubeconfig::parse(&read(path)?)
            .map_err(|_| no_config(path.to_owned(), "a member has another type".to_owned()))?;
        // few: the members of a cluster.
        for cluster in file.clusters.iter().map(|named| &named.entry) {
            let data = (cluster.certificate_authority_data.as_ref(), cluster.certificate_authority.as_ref());
            let trusted = pem::certificates(&self.text("certificate-authority", data)?);
            if is_same_server(&cluster.server, self.url) && trusted.as_ref() != Ok(&authority.certificates) {
                return Ok(Some(format!(
                    "{shown} trusts another authority than {}",
                    authority.path.display()
                )));
            }
        }
        let Some(user) = find(self.client.name(), &file.users) else {
            return Ok(Some(format!("{shown} has no user {}", self.client.name())));
        };
        let certificate = (user.client_certificate_data.as_ref(), user.client_certificate.as_ref());
        let certificate = self.text("client-certificate", certificate)?;
        let key = self.text("client-key", (user.client_key_data.as_ref(), user.client_key.as_ref()))?;
        let key = String::from_utf8(key)
            .map_err(|_| no_config(path.to_owned(), "client-key is no PEM".to_owned()))?;
        let found = Found { certificate: path, key: path, texts: (&certificate, &key) };
        found.difference(&self.client.leaf(brand), authority, now)
    }

    /// The PEM that a member embeds, or that of the file that it names; nothing where it does neither.
    fn text(
        &self,
        member: &str,
        (data, file): (Option<&Secret>, Option<&PathBuf>),
    ) -> Result<Vec<u8>, CertsError> {
        let folder = self.path.parent().unwrap_or(Path::new(""));
        match material(data, file) {
            Err(fault) => Err(no_config(self.path.to_owned(), format!("{member}: {fault}"))),
            Ok(None) => Ok(Vec::new()),
            Ok(Some(Material::Embedded(text))) => Ok(text),
            Ok(Some(Material::File(file))) => Ok(read(&folder.join(file))?.into_bytes()),
        }
    }
}

/// Whether a URL, or one of a list separated by commas, has the host and the port of `other`.
fn is_same_server(list: &str, other: &str) -> bool {
    let parts = |url: &str| {
        let (host, port) = url.trim().trim_end_matches('/').rsplit_once(':')?;
        let host = host.rsplit_once("//").map_or(host, |(_, host)| host);
        Some((host.trim_matches(['[', ']']).to_owned(), port.to_owned()))
    };
    let Some((other, wanted)) = parts(other) else { return false };
    list.split(',').filter_map(parts).any(|(host, port)| port == wanted && is_same_host(&host, &other))
}

/// Whether two texts are one host: an address may be written in several forms, and names have no case.
fn is_same_host(one: &str, other: &str) -> bool {
    match (one.parse::<IpAddr>(), other.parse::<IpAddr>()) {
        (Ok(one), Ok(other)) => one == other,
        _ => one.eq_ignore_ascii_case(other),
    }
}

#[cfg(test)]
mod tests {
    use orch_proto::brand::{KUBERNETES, ORCH};

    use super::super::authority::Authority;
    use super::super::{Pair, init};
    use super::*;
    use crate::cli::{BrandName, InitArgs};

    fn member() -> MemberSpec {
        MemberSpec { name: "a".to_owned(), hosts: vec!["10.0.0.1".to_owned()] }
    }

    fn made(dir: &Path) -> Layout {
        let brand = BrandName(&ORCH);
        let (dir, members) = (dir.to_owned(), vec![member()]);
        let arguments = InitArgs { dir, members, secure_port: 6443, brand, if_absent: false };
        init(&arguments, OffsetDateTime::now_utc()).unwrap();
        Layout::new(&arguments.dir)
    }

    fn check(layout: &Layout, expected: Option<&str>) {
        let now = OffsetDateTime::now_utc();
        let told = differs_from_reissued(layout.root(), &member(), 6443, &ORCH, now).unwrap();
        match (&told, expected) {
            (None, None) => {}
            (Some(told), Some(expected)) => assert!(told.contains(expected), "{told}"),
            _ => panic!("{told:?}"),
        }
    }

    /// Replaces files for a check, and puts them back.
    fn with(layout: &Layout, changed: &[(&Path, &str)], expected: &str) {
        let before: Vec<Vec<u8>> = changed.iter().map(|(path, _)| std::fs::read(path).unwrap()).collect();
        changed.iter().for_each(|(path, text)| std::fs::write(path, text).unwrap());
        check(layout, Some(expected));
        changed.iter().zip(before).for_each(|((path, _), text)| std::fs::write(path, text).unwrap());
        check(layout, None);
    }

    #[test]
    fn certificates_of_another_authority_key_purpose_or_time_are_differences() {
        let folder = tempfile::tempdir().unwrap();
        let layout = made(folder.path());
        check(&layout, None);
        let own = Authority::load(&layout.authority_certificate(), &layout.authority_key()).unwrap();
        let now = OffsetDateTime::now_utc();
        let other = Authority::create("cluster-ca", now).unwrap();
        let files = layout.member("a");
        let replaced = |pair: &Pair, expected: &str| {
            let changed = [
                (files.server_certificate.as_path(), pair.certificate.as_str()),
                (files.server_key.as_path(), pair.key.as_str()),
            ];
            with(&layout, &changed, expected);
        };
        let leaf = server_leaf("a", &member().hosts, &ORCH);
        replaced(&other.issue(&leaf, now).unwrap(), "server.crt is not signed by");
        let later = now + time::Duration::days(2);
        replaced(&own.issue(&leaf, later).unwrap(), "server.crt is valid only from");
        let client = Leaf { purpose: Purpose::Client, ..leaf.clone() };
        replaced(&own.issue(&client, now).unwrap(), "server.crt is no certificate of a server");
        let branded = server_leaf("a", &member().hosts, &KUBERNETES);
        replaced(&own.issue(&branded, now).unwrap(), "server.crt is not for orch");
        let key = std::fs::read_to_string(layout.client(Client::Admin).key).unwrap();
        with(&layout, &[(&files.server_key, &key)], "server.key is not the key of");
        let peer = std::fs::read_to_string(layout.member("a").server_certificate).unwrap();
        with(&layout, &[(&files.peer_certificate, &peer)], "peer.crt is not for");
    }

    #[test]
    fn clients_and_their_configurations_are_compared() {
        let folder = tempfile::tempdir().unwrap();
        let layout = made(folder.path());
        let own = Authority::load(&layout.authority_certificate(), &layout.authority_key()).unwrap();
        let (now, files) = (OffsetDateTime::now_utc(), layout.client(Client::Scheduler));
        let ended = own.issue(&Client::Scheduler.leaf(&ORCH), now - time::Duration::days(400)).unwrap();
        let changed = [
            (files.certificate.as_path(), ended.certificate.as_str()),
            (files.key.as_path(), ended.key.as_str()),
        ];
        with(&layout, &changed, "scheduler.crt has ended");
        let admin = std::fs::read_to_string(layout.client(Client::Admin).certificate).unwrap();
        with(&layout, &[(&files.certificate, &admin)], "scheduler.crt is of");
        let servers = [server(&member(), 6443)];
        let config =
            |authority: &str, pair: &Pair| Client::Scheduler.config(&ORCH, &servers, authority, pair);
        let authority = own.pair.certificate.clone();
        with(&layout, &[(&files.config, &config(&authority, &ended))], "scheduler.conf has ended");
        let other = Authority::create("cluster-ca", now).unwrap().pair.certificate;
        let pair = own.issue(&Client::Scheduler.leaf(&ORCH), now).unwrap();
        with(&layout, &[(&files.config, &config(&other, &pair))], "scheduler.conf trusts another authority");
        // An operator may have moved them away.
        for path in [&files.certificate, &files.key, &files.config] {
            std::fs::remove_file(path).unwrap();
        }
        check(&layout, None);
    }
}
