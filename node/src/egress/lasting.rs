//! The tasks of a connection of HTTP/2, which end with the last request or place that holds the connection.
//!
//! Owns their end. The library's task of a connection runs as long as the other side sends frames, although no stream is open and no
//! request can come: a server could keep this one busy for good.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::rt::Executor;
use tokio::sync::watch;

/// For a connection that is held no more to say so to the other side.
const LEAVING_MAX: Duration = Duration::from_secs(1);

/// Holds a connection. Clones hold the same one.
#[derive(Clone, Debug)]
pub(super) struct Life(Arc<watch::Sender<()>>);

/// Runs the tasks of a connection while it is held.
#[derive(Clone, Debug)]
pub(super) struct Tasks(watch::Receiver<()>);

/// The handle that keeps a new connection alive, and the executor of its tasks.
pub(super) fn life() -> (Life, Tasks) {
    let (held, left) = watch::channel(());
    (Life(Arc::new(held)), Tasks(left))
}

impl Life {
    /// Whether both hold the same connection.
    pub(super) fn is_same(&self, other: &Life) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl<F> Executor<F> for Tasks
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, future: F) {
        let mut left = self.0.clone();
        tokio::spawn(async move {
            let mut future = pin!(future);
            tokio::select! {
                _ = &mut future => {}
                // Nothing is ever sent: this is the end of the last holder.
                _ = left.changed() => drop(tokio::time::timeout(LEAVING_MAX, future).await),
            }
        });
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::Duration;

    use bytes::Bytes;
    use orch_api::egress::{EgressError, Local, Reach, Scheme, Url};
    use orch_api::webhook::{Call, Caller, Purpose};
    use orch_proto::brand::ORCH;
    use time::OffsetDateTime;
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;
    use tokio::task::JoinHandle;

    use crate::certs::{Authority, server_leaf};
    use crate::egress::tests::acceptor;
    use crate::egress::{HookUsers, Hooks};

    /// A server of HTTP/2 that answers no request and sends frames of a type that is none.
    pub(in crate::egress) struct Burning {
        pub(in crate::egress) authority: Authority,
        pub(in crate::egress) port: u16,
        /// Ends with the first connection.
        task: JoinHandle<()>,
    }

    impl Burning {
        pub(in crate::egress) async fn start() -> Burning {
            let now = OffsetDateTime::now_utc();
            let authority = Authority::create("ca", now).unwrap();
            let pair = authority.issue(&server_leaf("a", &["s.ns.svc".to_owned()], &ORCH), now).unwrap();
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let port = listener.local_addr().unwrap().port();
            let acceptor = acceptor(&pair, &["h2"]);
            let task = tokio::spawn(async move {
                let (stream, _) = listener.accept().await.unwrap();
                let mut stream = acceptor.accept(stream).await.unwrap();
                let mut written = stream.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).await;
                while written.is_ok() {
                    written = stream.write_all(&[0, 0, 0, 0xfe, 0, 0, 0, 0, 0]).await;
                    written = written.and(stream.flush().await);
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            });
            Burning { authority, port, task }
        }

        /// Whether the connection is still open after a while.
        pub(in crate::egress) async fn is_connected(&mut self) -> bool {
            tokio::time::timeout(Duration::from_secs(5), &mut self.task).await.is_err()
        }
    }

    #[tokio::test]
    async fn a_server_whose_call_timed_out_keeps_no_connection_busy() {
        let mut server = Burning::start().await;
        let hooks = Hooks::new(Reach::of_objects(Local::Any), HookUsers::default());
        let host = "127.0.0.1".to_owned();
        let url = Url { scheme: Scheme::Https, host, port: server.port, target: "/".to_owned() };
        let call = Call {
            purpose: Purpose::Validating,
            url,
            at: None,
            authorities: Some(server.authority.pair.certificate.as_bytes().into()),
            document: Bytes::from_static(b"{}"),
            timeout: Duration::from_secs(2),
            answer_bytes_max: 16,
            trace: None,
        };
        let refused = hooks.call(call).await.unwrap_err();
        assert!(matches!(refused, EgressError::Timeout { .. }), "{refused}");
        assert!(!server.is_connected().await);
    }
}
