//! How much a client may take, each with its reason.

use std::time::Duration;

/// Connections of all ports together. One idle connection costs some 30 kB, so all of them cost 300 MB; beyond, a new
/// one takes the place of another ([`super::places`]). The plain port shares them.
pub(super) const CONNECTIONS_MAX: usize = 10_000;

/// Descriptors kept for everything else where the system allows few: the database's files, peers, what is being opened.
pub(super) const DESCRIPTORS_KEPT: usize = 512;

/// Fewest connections, however few descriptors there are.
pub(super) const CONNECTIONS_MIN: usize = 64;

/// Connections waiting for `accept`: a burst of clients that reconnect at once after a restart.
pub(super) const BACKLOG: u32 = 4096;

/// From the first byte to the end of the TLS handshake. Half-open handshakes end here.
pub(super) const HANDSHAKE_MAX: Duration = Duration::from_secs(10);

/// From the end of an answer to the end of the next request's headers (HTTP/1.1). It is both the limit on slow
/// headers and the life of an idle connection; shorter than the clients' own 90 seconds, they would send requests
/// into connections that are just closing.
pub(super) const HEADERS_MAX: Duration = Duration::from_secs(100);

/// From the end of the handshake to the first request. HTTP/2 has no deadline of its own before its preface, and a
/// client that answers pings would stay for ever without asking for anything.
pub(super) const FIRST_REQUEST_MAX: Duration = HEADERS_MAX;

/// Bytes of a request's line and headers, the reference's limit. The same number is the read buffer's limit.
pub(super) const HEADER_BYTES_MAX: usize = 1 << 20;

/// The same for connections whose client has no certificate that holds. Headers are kept in some three times what this
/// counts, because clients name fields of earlier requests again with one byte. Tokens and long selectors have some kB.
pub(super) const STRANGER_HEADER_BYTES_MAX: usize = 64 << 10;

/// Requests under way on a connection none of whose credentials were accepted yet; more are refused. Probes and the
/// first requests of a client come one after the other; a token counts before its request is carried out.
pub(super) const STRANGER_REQUESTS_MAX: usize = 10;

/// Requests at the same time on one HTTP/2 connection, the reference's limit.
pub(super) const STREAMS_MAX: u32 = 100;

/// Streams that a client opened and reset before they were handled; beyond, the connection ends. This is what a rapid
/// reset attack looks like; a client that gives up many watches at once resets streams that were handled.
pub(super) const PENDING_RESETS_MAX: usize = 100;

/// Streams the server itself reset for the client's errors; beyond, the connection ends.
pub(super) const ERROR_RESETS_MAX: usize = 1024;

/// Receive window of a stream: an object of usual size without a round trip.
pub(super) const STREAM_WINDOW: u32 = 256 << 10;

/// Receive window of a connection: a few large uploads at once, and the most that unread bodies can hold in memory.
pub(super) const CONNECTION_WINDOW: u32 = 1 << 20;

/// Bytes of answers buffered for each HTTP/2 stream whose client does not read. Large lists are written from shared
/// memory piece by piece, so more than a few frames in flight brings nothing.
pub(super) const STREAM_SEND_BUFFER: usize = 256 << 10;

/// Bytes of plain text that TLS takes before they are written to the socket. It decides how many bytes go into one
/// system call; larger was not faster.
pub(super) const TLS_BUFFER: usize = 256 << 10;

/// How often an HTTP/2 client is asked whether it lives, and how long it may take to say so.
pub(super) const PING_EVERY: Duration = Duration::from_secs(30);
/// See [`PING_EVERY`].
pub(super) const PING_ANSWER_MAX: Duration = Duration::from_secs(20);

/// Silence after which the kernel asks whether the other end lives: it finds the watchers of dead machines.
pub(super) const TCP_KEEPALIVE: Duration = Duration::from_secs(60);

/// How long a client may not take a single byte of what is waiting for it on its connection, and how long it may take
/// for one frame of an answer (64 KiB, or one object): a list holds the state of its moment until it is read. A watcher
/// that reads slowly falls out of the history; one that reads nothing is ended here.
pub(super) const STALL_MAX: Duration = Duration::from_secs(60);

/// From the head of an answer that is no watch to its last byte, and of a watch to the last of its initial events. At the lowest rate a client gets 19 MB in that time; a
/// list of hundreds of megabytes takes seconds on a usual network.
pub(super) const ANSWER_MAX: Duration = Duration::from_secs(600);

/// Bytes of such an answer that a client takes in a second, from its second minute on and over the whole of it: a
/// hundredth of what a mobile line carries. A list holds the state of its moment until it is read.
pub(super) const BYTES_PER_SECOND_MIN: u32 = 32 << 10;

/// Connections that may finish their requests after the signal to stop.
pub(super) const DRAIN_MAX: Duration = Duration::from_secs(10);

/// After a failed `accept` (no more file descriptors): other connections may end meanwhile.
pub(super) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Longest timer for a certificate's end, since timers have a horizon. A connection older than this is checked then.
pub(super) const IDENTITY_MAX: Duration = Duration::from_secs(30 * 24 * 3600);
