//! Another server that answers as badly as it can: it is asked over plain HTTP on this machine.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Result;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::sleep;

/// A server that runs until it is dropped.
pub(super) struct Hook {
    pub(super) url: String,
    task: JoinHandle<()>,
}

impl Drop for Hook {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Number of different answers, which come one after the other.
const ANSWERS: usize = 6;
/// Bytes of a piece of an answer without end.
const PIECE_BYTES: usize = 64 << 10;

impl Hook {
    pub(super) async fn start() -> Result<Hook> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}/hook", listener.local_addr()?);
        let asked = Arc::new(AtomicUsize::new(0));
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let turn = asked.fetch_add(1, Ordering::Relaxed) % ANSWERS;
                // A connection that the asker closed is no failure of the attack.
                tokio::spawn(async move { drop(answer(stream, turn).await) });
            }
        });
        Ok(Hook { url, task })
    }
}

/// Answers one question, badly.
async fn answer(mut stream: TcpStream, turn: usize) -> std::io::Result<()> {
    let mut question = vec![0; 16 << 10];
    if stream.read(&mut question).await? == 0 {
        return Ok(());
    }
    let endless = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
    match turn {
        0 => sleep(Duration::from_secs(3600)).await,
        1 => {
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n").await?;
            loop {
                stream.write_all(b" ").await?;
                sleep(Duration::from_millis(200)).await;
            }
        }
        2 => {
            stream.write_all(endless).await?;
            let piece = [format!("{PIECE_BYTES:x}\r\n").as_bytes(), &[b'['; PIECE_BYTES], b"\r\n"].concat();
            loop {
                stream.write_all(&piece).await?;
            }
        }
        3 => stream.write_all(&[0xff; PIECE_BYTES]).await?,
        4 => {
            let head = "HTTP/1.1 307 Temporary Redirect\r\nlocation: http://169.254.169.254/\r\ncontent-length: 0\r\n\r\n";
            stream.write_all(head.as_bytes()).await?;
        }
        _ => {
            let groups = vec!["g".repeat(1000); 2000];
            let status = json!({"authenticated": true, "allowed": true, "denied": "no",
                "user": {"username": 7, "groups": groups}});
            let body = json!({"kind": "TokenReview", "status": status}).to_string();
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
            stream.write_all([head, body].concat().as_bytes()).await?;
        }
    }
    Ok(())
}
