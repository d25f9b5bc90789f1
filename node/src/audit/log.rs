//! Events as lines of a file or of standard output.

use std::io::{self, Write};
use std::path::PathBuf;

use bytes::Bytes;
use orch_api::audit::NotStored;

use super::legacy;
use super::rotation::{RotatedFile, RotationOptions};
use super::worker::{Deliver, STORING_MAX, SinkOptions, Worker};

/// Where lines are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Standard output, which rotates nothing.
    Stdout,
    /// A file with its rotation.
    File(PathBuf, RotationOptions),
}

/// The form of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineFormat {
    /// The event's JSON.
    Json,
    /// A subset of it as text, as in the reference.
    Legacy,
}

/// The settings of an audit log.
#[derive(Clone, Debug, PartialEq)]
pub struct LogOptions {
    /// Where lines are written.
    pub target: Target,
    /// Their form.
    pub format: LineFormat,
    /// The settings that every sink has.
    pub sink: SinkOptions,
}

/// Opens the file and starts the thread that writes it.
///
/// # Errors
/// The file cannot be opened, or the system starts no thread.
pub fn open_log(options: &LogOptions) -> io::Result<Worker> {
    let (sink, format) = (options.sink, options.format);
    match &options.target {
        Target::Stdout => Worker::start("log", sink, STORING_MAX, |_| Lines::new(io::stdout(), format)),
        Target::File(path, rotation) => {
            let file = RotatedFile::open(path, *rotation)?;
            Worker::start("log", sink, STORING_MAX, |_| Lines::new(file, format))
        }
    }
}

/// Writes each event as a line, a batch at once.
struct Lines<W> {
    writer: W,
    format: LineFormat,
    buffer: Vec<u8>,
    /// The last write failed, perhaps in the middle of a line.
    is_torn: bool,
}

impl<W> Lines<W> {
    fn new(writer: W, format: LineFormat) -> Lines<W> {
        Lines { writer, format, buffer: Vec::new(), is_torn: false }
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
            match self.format {
                LineFormat::Json => self.buffer.extend_from_slice(event),
                LineFormat::Legacy => {
                    let line = legacy::line(event).map_err(|error| NotStored(error.to_string()))?;
                    self.buffer.extend_from_slice(line.as_bytes());
                }
            }
            self.buffer.push(b'\n');
        }
        let written = self.writer.write_all(&self.buffer).and_then(|()| self.writer.flush());
        self.is_torn = written.is_err();
        written.map_err(|error| NotStored(error.to_string()))
    }
}
