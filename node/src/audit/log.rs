//! Events as lines of a file or of standard output.

use std::io::{self, Write};
use std::path::PathBuf;

use bytes::Bytes;
use orch_api::audit::{NotStored, Sink, Storing};

use super::backlog::Mode;
use super::rotation::{RotatedFile, RotationOptions};
use super::worker::{Deliver, STORING_MAX, Worker};

/// Where lines are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Standard output, which rotates nothing.
    Stdout,
    /// A file with its rotation.
    File(PathBuf, RotationOptions),
}

/// The settings of an audit log.
#[derive(Clone, Debug, PartialEq)]
pub struct LogOptions {
    /// Where lines are written.
    pub target: Target,
    /// What a request waits for.
    pub mode: Mode,
    /// Bytes of an event above which it is cut; `usize::MAX` for none.
    pub event_bytes_max: usize,
    /// Bytes of a batch above which it is divided; `usize::MAX` for none.
    pub batch_bytes_max: usize,
}

/// The sink of an audit log.
pub struct LogSink {
    worker: Worker,
    event_bytes_max: usize,
}

impl LogSink {
    /// Opens the file and starts the thread that writes it.
    ///
    /// # Errors
    /// The file cannot be opened, or the system starts no thread.
    pub fn open(options: &LogOptions) -> io::Result<LogSink> {
        let (mode, batch) = (options.mode, options.batch_bytes_max);
        let worker = match &options.target {
            Target::Stdout => Worker::start("log", mode, batch, STORING_MAX, Lines::new(io::stdout())),
            Target::File(path, rotation) => {
                let file = RotatedFile::open(path, *rotation)?;
                Worker::start("log", mode, batch, STORING_MAX, Lines::new(file))
            }
        }?;
        Ok(LogSink { worker, event_bytes_max: options.event_bytes_max })
    }

    /// Writes what is in the buffer. Later events are refused.
    pub fn stop(&self) {
        self.worker.stop();
    }
}

impl Sink for LogSink {
    fn store(&self, event: Bytes) -> Storing {
        self.worker.store(event)
    }

    fn lose(&self, error: NotStored) -> Storing {
        self.worker.lose(error)
    }

    fn is_required(&self) -> bool {
        self.worker.is_required()
    }

    fn event_bytes_max(&self) -> usize {
        self.event_bytes_max
    }
}

/// Writes each event as a line, a batch at once.
struct Lines<W> {
    writer: W,
    buffer: Vec<u8>,
    /// The last write failed, perhaps in the middle of a line.
    is_torn: bool,
}

impl<W> Lines<W> {
    fn new(writer: W) -> Lines<W> {
        Lines { writer, buffer: Vec::new(), is_torn: false }
    }
}

/// Bytes of the buffer that are kept from one batch to the next.
const KEPT_BYTES_MAX: usize = 1 << 20;

impl<W: Write + Send + 'static> Deliver for Lines<W> {
    fn deliver(&mut self, events: &[Bytes]) -> Result<(), NotStored> {
        self.buffer.clear();
        self.buffer.shrink_to(KEPT_BYTES_MAX);
        if self.is_torn {
            self.buffer.push(b'\n');
        }
        for event in events {
            self.buffer.extend_from_slice(event);
            self.buffer.push(b'\n');
        }
        let written = self.writer.write_all(&self.buffer).and_then(|()| self.writer.flush());
        self.is_torn = written.is_err();
        written.map_err(|error| NotStored(error.to_string()))
    }
}
