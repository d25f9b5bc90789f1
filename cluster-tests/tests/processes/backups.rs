//! Backups that a member copies to a bucket by itself, and a restore from there.
//!
//! The bucket is in this process and asks for little: signatures, paths and parts are checked in the tests of the
//! program's own client of buckets. Here the flags, the order and the contents of the bucket count.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::StatusCode;
use orch_cluster_tests::cluster::{Cluster, Options, program};
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::time::sleep;

/// Longest copy.
const PATIENCE: Duration = Duration::from_secs(60);

const SECRET: &str = "canary-of-the-secret-key";

/// Objects, parts that are none yet, and the calls.
#[derive(Default)]
struct Bucket {
    objects: BTreeMap<String, Bytes>,
    parts: Vec<Bytes>,
    calls: Vec<&'static str>,
}

/// Starts a bucket, and returns its address. The first part is refused once.
async fn start(bucket: &Arc<Mutex<Bucket>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let router = Router::new().fallback(serve).with_state(bucket.clone());
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    address
}

async fn serve(State(bucket): State<Arc<Mutex<Bucket>>>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let body = to_bytes(body, 64 << 20).await.unwrap();
    let query = head.uri.query().unwrap_or_default();
    if !query.contains("X-Amz-Signature=") || query.contains(SECRET) {
        return StatusCode::FORBIDDEN.into_response();
    }
    let Some(key) = head.uri.path().strip_prefix("/backups/") else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let mut bucket = bucket.lock();
    match (head.method.as_str(), query) {
        ("GET", query) if query.contains("list-type=2") => {
            bucket.calls.push("list");
            let entry = |(key, object): (&String, &Bytes)| {
                let size = object.len();
                format!(
                    "<Contents><Key>{key}</Key><LastModified>x</LastModified><ETag>x</ETag><Size>{size}</Size></Contents>"
                )
            };
            let entries: String = bucket.objects.iter().map(entry).collect();
            format!("<ListBucketResult>{entries}</ListBucketResult>").into_response()
        }
        ("GET", _) => {
            bucket.calls.push("read");
            match bucket.objects.get(key) {
                Some(object) => object.clone().into_response(),
                None => StatusCode::NOT_FOUND.into_response(),
            }
        }
        ("PUT", _) if !bucket.calls.contains(&"part") => {
            bucket.calls.push("part");
            StatusCode::SERVICE_UNAVAILABLE.into_response()
        }
        ("PUT", _) => {
            bucket.calls.push("part");
            bucket.parts.push(body);
            ([("ETag", "\"tag\"")], "").into_response()
        }
        ("POST", query) if query.contains("uploads=") => {
            bucket.calls.push("create");
            bucket.parts.clear();
            "<InitiateMultipartUploadResult><UploadId>1</UploadId></InitiateMultipartUploadResult>"
                .into_response()
        }
        ("POST", _) => {
            bucket.calls.push("complete");
            let whole = bucket.parts.concat();
            bucket.objects.insert(key.to_owned(), whole.into());
            "<CompleteMultipartUploadResult/>".into_response()
        }
        _ => StatusCode::BAD_REQUEST.into_response(),
    }
}

fn orch(arguments: &[&str]) -> String {
    let output = Command::new(program("orch").unwrap()).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The only file in `folder`, and its name.
fn only_file(folder: &Path) -> (String, Vec<u8>) {
    let mut entries = fs::read_dir(folder).unwrap();
    let entry = entries.next().unwrap().unwrap();
    assert!(entries.next().is_none(), "one file is in the folder");
    (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())
}

async fn wait_for(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let start = Instant::now();
    while !condition().await {
        assert!(start.elapsed() < PATIENCE, "{what} did not come about");
        sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_reaches_the_bucket_and_is_restored_from_there() {
    let bucket: Arc<Mutex<Bucket>> = Arc::default();
    let address = start(&bucket).await;
    let root = tempfile::tempdir().unwrap();
    let (folder, access) = (root.path().join("backups"), root.path().join("access"));
    fs::create_dir(&folder).unwrap();
    fs::write(&access, format!("aws_access_key_id = AK\naws_secret_access_key = {SECRET}\n")).unwrap();
    // Some authority: the machine of the test may have none, and the bucket is asked without TLS.
    let authority = root.path().join("certs");
    orch(&["certs", "init", "--dir", authority.to_str().unwrap(), "--member", "a=127.0.0.1"]);
    let flags = vec![
        "--backup-schedule=1h".to_owned(),
        format!("--backup-dir={}", folder.display()),
        "--backup-s3=s3://backups/orch".to_owned(),
        format!("--backup-s3-endpoint=http://{address}"),
        "--backup-s3-path-style".to_owned(),
        format!("--backup-s3-credentials-file={}", access.display()),
        format!("--backup-s3-ca-file={}", authority.join("ca.crt").display()),
    ];
    let mut cluster = Cluster::start(Options { flags, ..Options::nodes(1) }).await.unwrap();
    let copied = "orch_backup_failures_total{target=\"s3\"} 0";
    let shown = async |cluster: &Cluster, expected: &str| {
        let answer = cluster.client(0).unwrap().get("/metrics").await.unwrap();
        String::from_utf8_lossy(&answer.body).lines().any(|line| line == expected)
    };
    wait_for("an object", async || !bucket.lock().objects.is_empty()).await;
    let (name, file) = only_file(&folder);
    let size = format!("orch_backup_size_bytes{{target=\"s3\"}} {}", file.len());
    wait_for("a copy that was compared", async || shown(&cluster, &size).await).await;
    assert!(shown(&cluster, copied).await, "a part that was refused once is no failure");
    let calls = std::mem::take(&mut bucket.lock().calls);
    assert_eq!(calls, ["list", "create", "part", "part", "complete", "read"]);
    assert!(bucket.lock().objects[&format!("orch/{name}")] == file);

    cluster.kill(0).unwrap();
    cluster.respawn(0).unwrap();
    cluster.wait_ready(0).await.unwrap();
    wait_for("the copy after a restart", async || shown(&cluster, &size).await).await;
    assert_eq!(bucket.lock().calls, ["list", "read"], "it is read again, and not sent again");
    let log = cluster.log(0).unwrap();
    assert!(log.contains("the next backup is due") && log.contains("read there again"), "{log}");
    for hidden in [SECRET, "X-Amz"] {
        assert!(!log.contains(hidden), "{hidden} is in the log");
    }

    let fetched = root.path().join("fetched");
    fs::write(&fetched, &bucket.lock().objects[&format!("orch/{name}")]).unwrap();
    let data = root.path().join("restored");
    let told =
        orch(&["snapshot", "restore", fetched.to_str().unwrap(), "--data-dir", data.to_str().unwrap()]);
    assert!(told.contains("made cluster"), "{told}");
}
