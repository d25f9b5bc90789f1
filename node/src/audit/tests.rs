//! The log sink against a file, a disk that fails and a disk that hangs, in each mode.

use std::fs;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use orch_api::audit::{NotStored, Sink};

use super::backlog::{BatchOptions, Mode};
use super::log::{LineFormat, LogOptions, Target, open_log};
use super::rotation::RotationOptions;
use super::worker::{Deliver, STORING_MAX, SinkOptions, Worker};

const BATCH: BatchOptions = BatchOptions { buffer: 4, batch: 2, wait: Duration::ZERO, throttle: None };

/// A destination whose every batch waits for the test's leave, and fails if the leave says so.
struct Gated {
    entered: SyncSender<()>,
    leave: Receiver<bool>,
    stored: SyncSender<Vec<Bytes>>,
}

impl Deliver for Gated {
    fn deliver(&mut self, events: &[Bytes]) -> Result<(), NotStored> {
        // The test may look at neither.
        let _ = self.entered.send(());
        // Without a test that gives leave, everything is stored.
        if !self.leave.recv().unwrap_or(true) {
            return Err(NotStored("no space".to_owned()));
        }
        // The test may have ended.
        let _ = self.stored.send(events.to_vec());
        Ok(())
    }
}

/// A worker, and the test's ends of its destination.
struct Rig {
    worker: Worker,
    /// Told when a batch waits for leave.
    entered: Receiver<()>,
    give: SyncSender<bool>,
    stored: Receiver<Vec<Bytes>>,
}

fn rig(mode: Mode) -> Rig {
    rig_within(mode, STORING_MAX)
}

fn rig_within(mode: Mode, storing_max: Duration) -> Rig {
    let (give, leave) = sync_channel(100);
    let (at, entered) = sync_channel(100);
    let (store, stored) = sync_channel(100);
    let gated = Gated { entered: at, leave, stored: store };
    let worker = Worker::start("test", sink(mode), storing_max, |_| gated);
    Rig { worker: worker.unwrap(), entered, give, stored }
}

/// Settings without bounds.
fn sink(mode: Mode) -> SinkOptions {
    SinkOptions { mode, event_bytes_max: usize::MAX, batch_bytes_max: usize::MAX }
}

fn event(number: usize) -> Bytes {
    Bytes::from(format!("event {number}"))
}

#[tokio::test]
async fn a_full_buffer_drops_events_and_holds_no_request_in_mode_batch() {
    let Rig { worker, entered, give, stored } = rig(Mode::Batch(BATCH));
    let store = |number| worker.store(event(number)).now_or_never().expect("nothing is waited for");
    assert_eq!(store(0), Ok(()));
    entered.recv().unwrap();
    // The thread holds the first event, and the buffer has place for four.
    let outcomes: Vec<bool> = (1..10).map(|number| store(number).is_ok()).collect();
    assert_eq!(outcomes, [true, true, true, true, false, false, false, false, false]);
    drop(give);
    worker.stop();
    let batches: Vec<Vec<Bytes>> = stored.try_iter().collect();
    assert_eq!(batches.iter().map(Vec::len).collect::<Vec<_>>(), [1, 2, 2]);
    assert_eq!(batches.concat(), (0..5).map(event).collect::<Vec<_>>(), "in order");
    assert!(store(11).is_err(), "after the end");
}

#[tokio::test]
async fn a_request_waits_for_its_event_in_the_blocking_modes() {
    for mode in [Mode::Blocking, Mode::BlockingStrict] {
        let Rig { worker, give, .. } = &rig(mode);
        assert_eq!(worker.is_required(), mode == Mode::BlockingStrict);
        let mut waiting = worker.store(event(0));
        assert!(futures::poll!(&mut waiting).is_pending());
        give.send(true).unwrap();
        assert_eq!(waiting.await, Ok(()));
        let failing = worker.store(event(1));
        give.send(false).unwrap();
        assert_eq!(failing.await, Err(NotStored("no space".to_owned())));
    }
}

#[tokio::test]
async fn a_request_does_not_wait_for_ever_for_a_sink_that_hangs() {
    let rig = rig_within(Mode::BlockingStrict, Duration::from_millis(1));
    let told = rig.worker.store(event(0)).await.unwrap_err().to_string();
    assert!(told.contains("takes too long"), "{told}");
}

#[tokio::test]
async fn a_batch_waits_to_fill_and_no_longer() {
    let long = BatchOptions { wait: Duration::from_secs(3600), ..BATCH };
    let Rig { worker, give, stored, .. } = rig(Mode::Batch(long));
    drop(give);
    worker.store(event(0)).await.unwrap();
    worker.store(event(1)).await.unwrap();
    assert_eq!(stored.recv().unwrap(), [event(0), event(1)], "a full one is stored at once");
    let short = BatchOptions { wait: Duration::from_millis(1), ..BATCH };
    let Rig { worker, give, stored, .. } = rig(Mode::Batch(short));
    drop(give);
    worker.store(event(0)).await.unwrap();
    assert_eq!(stored.recv().unwrap(), [event(0)]);
}

#[tokio::test]
async fn events_are_lines_of_a_file_that_only_the_owner_reads() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("audit.log");
    let rotation =
        RotationOptions { bytes_max: 1 << 20, age_max: Duration::ZERO, backups_max: 0, compresses: false };
    let options = LogOptions {
        target: Target::File(path.clone(), rotation),
        format: LineFormat::Json,
        sink: sink(Mode::Blocking),
    };
    let sink = open_log(&options).unwrap();
    let storing: Vec<_> = (0..100).map(|number| sink.store(event(number))).collect();
    for outcome in futures::future::join_all(storing).await {
        assert_eq!(outcome, Ok(()));
    }
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 100);
    assert_eq!((lines[0], lines[99]), ("event 0", "event 99"));
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    sink.stop();
    assert!(sink.store(event(0)).await.is_err(), "after the end");
    let missing = Target::File(directory.path().join("none/audit.log"), rotation);
    assert!(open_log(&LogOptions { target: missing, ..options }).is_err());
}

#[tokio::test]
async fn lines_of_the_legacy_format_are_text_and_one_that_is_no_event_is_lost() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("audit.log");
    let rotation =
        RotationOptions { bytes_max: 1 << 20, age_max: Duration::ZERO, backups_max: 0, compresses: false };
    let target = Target::File(path.clone(), rotation);
    let options = LogOptions { target, format: LineFormat::Legacy, sink: sink(Mode::Blocking) };
    let sink = open_log(&options).unwrap();
    assert!(sink.store(event(0)).await.is_err());
    let json = br#"{"auditID":"an-id","verb":"get","user":{"username":"ann"}}"#;
    sink.store(Bytes::from_static(json)).await.unwrap();
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains(r#" AUDIT: id="an-id" "#) && text.contains(r#" user="ann" "#), "{text}");
    assert_eq!(text.lines().count(), 1);
}
