//! Limits on clients: connections, header bytes, streams, windows, times; each with its reason.

use std::time::Duration;

/// Connections waiting for `accept`: a burst of clients that reconnect at once after a restart.
pub(super) const BACKLOG: u32 = 4096;

/// From `accept` to the end of the TLS handshake.
pub(super) const HANDSHAKE_MAX: Duration = Duration::from_secs(10);

/// From the end of a response to the end of the next request's headers (HTTP/1.1): both the limit on slow headers and
/// the life of an idle connection. Longer than the 90 seconds of usual clients: if shorter, they would send requests
/// into connections that are just closing.
pub(super) const HEADERS_MAX: Duration = Duration::from_secs(100);

/// From the end of the handshake to the first request. HTTP/2 has no deadline of its own before its preface, and a
/// client that answers pings could stay for ever without a request.
pub(super) const FIRST_REQUEST_MAX: Duration = HEADERS_MAX;

/// Bytes of a request's line and headers, the reference's limit. The same number is the read buffer's limit.
pub(super) const HEADER_BYTES_MAX: usize = 1 << 20;

/// The same for connections without a valid client certificate. Headers take about three times this count in memory,
/// because HPACK names fields of earlier requests with one byte. Tokens and long selectors have some kB.
pub(super) const STRANGER_HEADER_BYTES_MAX: usize = 64 << 10;

/// Concurrent requests on a connection none of whose credentials were accepted yet; more are refused. Probes and the
/// first requests of a client come one after the other; a token counts from authentication, before its request is
/// carried out.
pub(super) const STRANGER_REQUESTS_MAX: usize = 10;

/// Concurrent streams of one HTTP/2 connection, the reference's limit.
pub(super) const STREAMS_MAX: u32 = 100;

/// Streams that a client opened and reset before they were handled; beyond, the connection ends. They are the sign of a
/// rapid reset attack; a client that ends many watches at once resets streams that were handled.
pub(super) const PENDING_RESETS_MAX: usize = 100;

/// Streams the server itself reset for the client's errors; beyond, the connection ends.
pub(super) const ERROR_RESETS_MAX: usize = 1024;

/// Bytes of a stream's receive window: an object of usual size without a round trip.
pub(super) const STREAM_WINDOW: u32 = 256 << 10;

/// Bytes of a connection's receive window: a few large uploads at once, and the most that unread bodies can hold in
/// memory.
pub(super) const CONNECTION_WINDOW: u32 = 1 << 20;

/// Bytes of responses buffered for each HTTP/2 stream whose client does not read. Large lists are written from shared
/// memory piece by piece, so more than a few frames in flight brings nothing.
pub(super) const STREAM_SEND_BUFFER: usize = 256 << 10;

/// Bytes of plaintext that the TLS session buffers before they are written to the socket: four records, a turn of the
/// connection ([`super::turns`]). A connection whose client does not read holds as much.
pub(super) const TLS_BUFFER: usize = 64 << 10;

/// Interval of HTTP/2 keepalive pings.
pub(super) const PING_EVERY: Duration = Duration::from_secs(30);
/// Timeout of a ping's acknowledgement; the connection ends with it.
pub(super) const PING_ANSWER_MAX: Duration = Duration::from_secs(20);

/// Idle time after which the kernel sends TCP keepalive probes: they find the watchers of dead machines.
pub(super) const TCP_KEEPALIVE: Duration = Duration::from_secs(60);

/// How long a client may take no byte of the data ready on its connection, and how long it may take for one frame of a
/// response (64 KiB, or one object): a list holds the state of its revision until it is read. A watcher that reads
/// slowly falls out of the history; one that reads nothing is ended here.
pub(super) const STALL_MAX: Duration = Duration::from_secs(60);

/// From the head of a finite response to its last byte, and of a watch to the last of its initial events. At the lowest
/// rate a client gets 19 MB in that time; a list of hundreds of megabytes takes seconds on a usual network.
pub(super) const ANSWER_MAX: Duration = Duration::from_secs(600);

/// Least rate of such a response in bytes per second, from its second minute on and averaged over the whole of it: a
/// hundredth of a mobile link. A list holds the state of its revision until it is read.
pub(super) const BYTES_PER_SECOND_MIN: u32 = 32 << 10;

/// For requests under way to finish, after the signal to stop or the expiry of the client's certificate.
pub(super) const DRAIN_MAX: Duration = Duration::from_secs(10);

/// Pause after a failed `accept` (no more file descriptors): other connections may end meanwhile.
pub(super) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Longest timer for the expiry of a client's certificate, since timers have a horizon. An older connection is drained
/// then.
pub(super) const IDENTITY_MAX: Duration = Duration::from_secs(30 * 24 * 3600);
