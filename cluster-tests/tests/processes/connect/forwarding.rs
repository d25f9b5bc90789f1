//! The side of a kubelet in a forwarded port: SPDY/3.1, as far as one connection at a time needs it. What a stream brings comes
//! back in capitals.

use flate2::{Compress, Compression, FlushCompress};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Types of control frames.
const SYN_STREAM: u16 = 1;
const SYN_REPLY: u16 = 2;
const PING: u16 = 6;
const GOAWAY: u16 = 7;
/// The flag of a stream's last frame.
const FIN: u8 = 1;

/// Serves a connection whose request asks for the protocol of forwarded ports.
pub(super) async fn serve(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> Option<()> {
    let granted = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\
                   X-Stream-Protocol-Version: portforward.k8s.io\r\n\r\n";
    stream.write_all(granted.as_bytes()).await.ok()?;
    let mut headers = Compress::new(Compression::fast(), true);
    let mut streams = Vec::new();
    loop {
        let mut head = [0; 8];
        stream.read_exact(&mut head).await.ok()?;
        let length = u32::from_be_bytes([0, head[5], head[6], head[7]]);
        let mut body = vec![0; usize::try_from(length).ok()?];
        stream.read_exact(&mut body).await.ok()?;
        if head[0] & 0x80 == 0 {
            let is_last = head[4] & FIN != 0;
            let id = u32::from_be_bytes([head[0], head[1], head[2], head[3]]);
            body.make_ascii_uppercase();
            stream.write_all(&data(id, 0, &body)).await.ok()?;
            // The stream of the port comes second, after that of errors. They end together.
            if is_last && streams.len() == 2 && streams[1] == id {
                for id in streams.drain(..) {
                    stream.write_all(&data(id, FIN, &[])).await.ok()?;
                }
            }
        } else {
            match u16::from_be_bytes([head[2], head[3]]) {
                SYN_STREAM => {
                    let id = body.get(..4)?;
                    streams.push(u32::from_be_bytes(id.try_into().ok()?));
                    let reply = [id, &empty_headers(&mut headers)].concat();
                    stream.write_all(&control(SYN_REPLY, &reply)).await.ok()?;
                }
                PING => stream.write_all(&control(PING, &body)).await.ok()?,
                GOAWAY => return Some(()),
                _ => {}
            }
        }
        stream.flush().await.ok()?;
    }
}

/// No headers, as the next part of the connection's compressed headers.
fn empty_headers(headers: &mut Compress) -> Vec<u8> {
    let mut block = Vec::with_capacity(64);
    headers.compress_vec(&[0; 4], &mut block, FlushCompress::Sync).unwrap();
    block
}

fn data(id: u32, flags: u8, content: &[u8]) -> Vec<u8> {
    [&id.to_be_bytes(), &sized(flags, content.len())[..], content].concat()
}

fn control(kind: u16, content: &[u8]) -> Vec<u8> {
    [&[0x80, 3], &kind.to_be_bytes()[..], &sized(0, content.len()), content].concat()
}

/// Flags and length: one byte and three.
fn sized(flags: u8, length: usize) -> [u8; 4] {
    let [_, high, middle, low] = u32::try_from(length).unwrap().to_be_bytes();
    [flags, high, middle, low]
}
