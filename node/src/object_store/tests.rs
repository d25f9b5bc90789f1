//! Uploads to a server of the tests, and its troubles.

use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};
use time::OffsetDateTime;
use tokio_util::sync::CancellationToken;

use super::testing::{SECRET, Server, Trouble};
use super::*;
use crate::certs::Authority;

/// Bytes of a part in these tests.
const PART: usize = 1000;

/// Attempts of a request.
const ATTEMPTS: usize = 5;

/// The digest of `content`.
fn digest(content: &[u8]) -> Digest {
    Digest { sha256: Sha256::digest(content).into(), bytes: content.len() as u64 }
}

/// Uploads the file at `path` as it is.
async fn upload(bucket: &ObjectStore, name: &str, path: &Path) -> Result<(), ObjectStoreError> {
    let expected = digest(&std::fs::read(path).unwrap_or_default());
    bucket.upload(name, path, &expected, &CancellationToken::new()).await
}

/// A file of `bytes` whose parts differ.
fn file(folder: &Path, bytes: usize) -> (PathBuf, Vec<u8>) {
    let content: Vec<u8> = (0..bytes).map(|at| u8::try_from(at * at / 7 % 251).unwrap()).collect();
    let path = folder.join("file");
    std::fs::write(&path, &content).unwrap();
    (path, content)
}

#[tokio::test]
async fn a_file_becomes_an_object_in_parts_and_is_read_again() {
    let (server, folder) = (Server::start().await, tempfile::tempdir().unwrap());
    let bucket = server.bucket(folder.path(), SECRET, PART);
    for (bytes, parts) in [(0, 1), (1, 1), (PART, 1), (PART + 1, 2), (3 * PART + 5, 4)] {
        let (path, content) = file(folder.path(), bytes);
        upload(&bucket, "a-1", &path).await.unwrap();
        let parts = (1..=parts).map(|number| format!("part {number}"));
        let calls = ["create".to_owned()].into_iter().chain(parts);
        let calls: Vec<String> = calls.chain(["complete", "read"].map(str::to_owned)).collect();
        assert_eq!(server.take_calls(), calls, "{bytes} bytes");
        let contents = server.contents.lock();
        assert!(contents.objects["orch/prod/a-1"] == content, "{bytes} bytes");
        assert!(contents.uploads.is_empty());
    }
}

#[tokio::test]
async fn objects_are_listed_over_several_answers_and_removed() {
    let (server, folder) = (Server::start().await, tempfile::tempdir().unwrap());
    let bucket = server.bucket(folder.path(), SECRET, PART);
    for key in
        ["orch/prod/a-2", "orch/prod/a-1", "orch/prod/a-3", "orch/prod/a-3/below", "orch/prod/b-1", "x"]
    {
        server.contents.lock().objects.insert(key.to_owned(), Bytes::from(key.to_owned()));
    }
    let names = async || {
        let found = bucket.list("a-").await.unwrap();
        found.into_iter().map(|stored| (stored.name, stored.bytes)).collect::<Vec<_>>()
    };
    let expected = ["a-1", "a-2", "a-3"].map(|name| (name.to_owned(), 13));
    assert_eq!(names().await, expected);
    assert_eq!(server.take_calls(), ["list", "list"]);
    bucket.remove("a-2").await.unwrap();
    bucket.remove("a-2").await.unwrap();
    assert_eq!(names().await, [expected[0].clone(), expected[2].clone()]);
}

#[tokio::test]
async fn a_wrong_secret_is_refused_once_and_shown_to_nobody() {
    let (server, folder) = (Server::start().await, tempfile::tempdir().unwrap());
    let bucket = server.bucket(folder.path(), "another-s3cret", PART);
    let (path, _) = file(folder.path(), 10);
    let told = upload(&bucket, "a-1", &path).await.unwrap_err();
    let told = format!("{told} {told:?}");
    assert!(told.contains("SignatureDoesNotMatch") && told.contains("access key"), "{told}");
    for hidden in ["s3cret", "Signature=", "X-Amz", "not to be repeated", "AKEXAMPLE"] {
        assert!(!told.contains(hidden), "{hidden}: {told}");
    }
    assert!(server.contents.lock().objects.is_empty());
}

#[tokio::test]
async fn failures_that_pass_are_waited_for() {
    let (server, folder) = (Server::start().await, tempfile::tempdir().unwrap());
    let bucket = server.bucket(folder.path(), SECRET, PART);
    let (path, content) = file(folder.path(), 3 * PART);
    server.order("create", Trouble::Refused(500, "InternalError"), 1);
    server.order("part 2", Trouble::Refused(503, "SlowDown"), ATTEMPTS - 1);
    server.order("part 3", Trouble::DoneAndLost, 1);
    server.order("complete", Trouble::ErrorInSuccess, 2);
    server.order("read", Trouble::Cut, 2);
    upload(&bucket, "a-1", &path).await.unwrap();
    let contents = server.contents.lock();
    assert!(contents.objects["orch/prod/a-1"] == content);
    assert!(contents.uploads.is_empty() && contents.troubles.is_empty());
}

#[tokio::test]
async fn a_failure_in_the_middle_leaves_neither_an_object_nor_parts() {
    let (server, folder) = (Server::start().await, tempfile::tempdir().unwrap());
    let bucket = server.bucket(folder.path(), SECRET, PART);
    let (path, _) = file(folder.path(), 3 * PART);
    for (call, trouble, times, expected) in [
        ("part 2", Trouble::Refused(503, "SlowDown"), ATTEMPTS, "SlowDown"),
        ("part 3", Trouble::Refused(403, "AccessDenied"), 1, "needs the rights"),
        ("complete", Trouble::ErrorInSuccess, ATTEMPTS, "began to answer"),
        ("complete", Trouble::Refused(400, "InvalidPart"), 1, "InvalidPart"),
    ] {
        server.order(call, trouble, times);
        let told = upload(&bucket, "a-1", &path).await.unwrap_err().to_string();
        assert!(told.contains(expected) && told.contains("orch/prod/a-1"), "{call}: {told}");
        let contents = server.contents.lock();
        assert!(contents.objects.is_empty() && contents.uploads.is_empty(), "{call}");
        assert_eq!(contents.calls.last().unwrap(), "abort", "{call}");
        assert!(contents.troubles.is_empty(), "{call}");
    }
}

#[tokio::test]
async fn an_object_whose_making_was_answered_with_an_error_counts_if_it_is_there() {
    let (server, folder) = (Server::start().await, tempfile::tempdir().unwrap());
    let bucket = server.bucket(folder.path(), SECRET, PART);
    let (path, content) = file(folder.path(), 2 * PART);
    // The second attempt finds no upload any more.
    server.order("complete", Trouble::DoneAndLost, 1);
    upload(&bucket, "a-1", &path).await.unwrap();
    assert!(server.contents.lock().objects["orch/prod/a-1"] == content);
}

#[tokio::test]
async fn an_object_that_is_another_than_the_file_is_removed() {
    let (server, folder) = (Server::start().await, tempfile::tempdir().unwrap());
    let bucket = server.bucket(folder.path(), SECRET, PART);
    let (path, content) = file(folder.path(), 2 * PART);
    server.order("read", Trouble::Changed, 1);
    let told = upload(&bucket, "a-1", &path).await.unwrap_err().to_string();
    assert!(told.contains("not what was sent"), "{told}");
    assert!(server.contents.lock().objects.is_empty());

    // It cannot be read: it stays, and a later look tells.
    server.order("read", Trouble::Refused(403, "AccessDenied"), 1);
    let digest = digest(&content);
    assert!(upload(&bucket, "a-1", &path).await.is_err());
    assert!(bucket.holds("a-1", &digest).await.unwrap());
    let longer = [&content[..], b"x"].concat();
    server.contents.lock().objects.insert("orch/prod/a-1".to_owned(), longer.into());
    assert!(!bucket.holds("a-1", &digest).await.unwrap());
    assert!(!bucket.holds("a-9", &digest).await.unwrap());
}

#[tokio::test]
async fn a_file_of_too_many_parts_and_one_that_is_gone_ask_for_nothing() {
    let (server, folder) = (Server::start().await, tempfile::tempdir().unwrap());
    let bucket = server.bucket(folder.path(), SECRET, 1);
    let (path, _) = file(folder.path(), usize::from(PARTS_MAX) + 1);
    let told = upload(&bucket, "a-1", &path).await.unwrap_err().to_string();
    assert!(told.contains("more parts"), "{told}");
    let gone = upload(&bucket, "a-1", &folder.path().join("none")).await.unwrap_err();
    assert!(matches!(gone, ObjectStoreError::File(_)), "{gone}");
    assert!(server.take_calls().is_empty());
}

#[tokio::test]
async fn a_server_that_is_away_is_named_without_the_address_of_the_request() {
    let (server, folder) = (Server::start().await, tempfile::tempdir().unwrap());
    let bucket = server.bucket(folder.path(), SECRET, PART);
    server.stop().await;
    let told = bucket.list("a-").await.unwrap_err().to_string();
    assert!(told.contains("127.0.0.1") && !told.contains("X-Amz"), "{told}");
}

#[tokio::test]
async fn a_server_is_verified_by_the_authorities_given_and_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let authority = |name| Authority::create(name, OffsetDateTime::now_utc()).unwrap();
    let (ours, other) = (authority("ours"), authority("other"));
    let server = Server::start_with_tls(&ours).await;
    let file = folder.path().join("access");
    let text = format!("aws_access_key_id = AKEXAMPLE\naws_secret_access_key = {SECRET}\n");
    std::fs::write(&file, text).unwrap();
    let refused = server.bucket_trusting(&other, file.clone(), PART).list("a-").await.unwrap_err();
    assert!(refused.to_string().contains("certificate"), "{refused}");
    assert!(server.take_calls().is_empty());
    let found = server.bucket_trusting(&ours, file.clone(), PART).list("a-").await;
    assert_eq!(found.unwrap(), []);
    // A new key is taken up without a restart.
    let bucket = server.bucket_trusting(&ours, file.clone(), PART);
    std::fs::write(&file, "aws_access_key_id = AKEXAMPLE\naws_secret_access_key = another\n").unwrap();
    assert!(bucket.list("a-").await.unwrap_err().to_string().contains("SignatureDoesNotMatch"));
}

#[tokio::test]
async fn a_file_that_changed_since_its_test_and_an_upload_that_is_given_up_leave_nothing() {
    let (server, folder) = (Server::start().await, tempfile::tempdir().unwrap());
    let bucket = server.bucket(folder.path(), SECRET, PART);
    let (path, mut content) = file(folder.path(), 3 * PART);
    let expected = digest(&content);
    content[7] ^= 1;
    std::fs::write(&path, &content).unwrap();
    let told = bucket.upload("a-1", &path, &expected, &CancellationToken::new()).await.unwrap_err();
    assert!(told.to_string().contains("passed its test"), "{told}");
    assert!(!server.take_calls().contains(&"complete".to_owned()));

    let given_up = CancellationToken::new();
    given_up.cancel();
    let told = bucket.upload("a-1", &path, &digest(&content), &given_up).await.unwrap_err();
    assert!(told.to_string().contains("given up"), "{told}");
    assert_eq!(server.take_calls().last().unwrap(), "abort");
    let contents = server.contents.lock();
    assert!(contents.objects.is_empty() && contents.uploads.is_empty());
}

#[tokio::test]
async fn a_bucket_in_the_host_of_requests_is_signed_verified_and_asked_there() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::create("ours", OffsetDateTime::now_utc()).unwrap();
    let server = Server::start_with_bucket_in_host(&authority).await;
    let access = folder.path().join("access");
    let text = format!("aws_access_key_id = AKEXAMPLE\naws_secret_access_key = {SECRET}\n");
    std::fs::write(&access, text).unwrap();
    let bucket = server.bucket_trusting(&authority, access, PART);
    let (path, content) = file(folder.path(), 2 * PART + 1);
    upload(&bucket, "a-1", &path).await.unwrap();
    assert_eq!(server.contents.lock().objects["orch/prod/a-1"], content);
    assert!(bucket.holds("a-1", &digest(&content)).await.unwrap());
    let names = async || bucket.list("a-").await.unwrap().into_iter().map(|one| one.name).collect::<Vec<_>>();
    assert_eq!(names().await, ["a-1"]);
    bucket.remove("a-1").await.unwrap();
    assert!(names().await.is_empty());
}

#[test]
fn a_bucket_in_the_host_needs_a_name_and_plain_http_only_below_this_machines() {
    let folder = tempfile::tempdir().unwrap();
    let access = folder.path().join("access");
    std::fs::write(&access, "aws_access_key_id = AK\naws_secret_access_key = s\n").unwrap();
    let authority = Authority::create("ours", OffsetDateTime::now_utc()).unwrap();
    let made = |endpoint: Option<&str>| {
        let options = Options {
            place: "s3://backups/orch".parse().unwrap(),
            endpoint: endpoint.map(str::to_owned),
            region: "eu-north-9".to_owned(),
            style: UrlStyle::VirtualHost,
            access_file: Some(access.clone()),
            trust: Trust::new(Some(authority.pair.certificate.as_bytes()), None).unwrap(),
        };
        ObjectStore::new(options).map(|store| store.bucket.base_url().to_string())
    };
    assert_eq!(made(None).unwrap(), "https://backups.s3.eu-north-9.amazonaws.com/");
    assert_eq!(made(Some("https://s3.example.com:9000")).unwrap(), "https://backups.s3.example.com:9000/");
    assert_eq!(made(Some("http://localhost:9000")).unwrap(), "http://backups.localhost:9000/");
    for (endpoint, expected) in [
        ("http://127.0.0.1:9000", "ask for it by path"),
        ("https://[::1]:9000", "ask for it by path"),
        ("http://s3.example.com", "plain HTTP"),
        ("http://nolocalhost", "plain HTTP"),
    ] {
        let told = made(Some(endpoint)).unwrap_err().to_string();
        assert!(told.contains(expected), "{endpoint}: {told}");
    }
}
