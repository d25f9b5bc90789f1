//! The side of a kubelet in a stream over WebSocket with numbered channels (`v5.channel`), for commands that end by themselves.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// The constant of the WebSocket handshake.
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const ERROR: u8 = 3;
/// Its data is the number of a channel that has ended.
const CLOSE: u8 = 255;

/// Runs the command that the request with this `head` for `target` asks for: `tar` writes an archive of one file, anything
/// else its arguments, or its input in capitals; without a command it is a running program that is attached to.
pub(super) async fn run(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    head: &str,
    target: &str,
) -> Option<()> {
    let header = |wanted: &str| {
        let mut lines = head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| value.to_owned())
    };
    let (key, protocol) = (header("sec-websocket-key")?, header("sec-websocket-protocol")?);
    let accept = STANDARD.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, format!("{key}{GUID}").as_bytes()));
    let granted = format!(
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Accept: {accept}\r\nSec-WebSocket-Protocol: {protocol}\r\n\r\n"
    );
    stream.write_all(granted.as_bytes()).await.ok()?;
    let query = target.split_once('?').map_or("", |(_, query)| query);
    let words: Vec<&str> = query.split('&').filter_map(|pair| pair.strip_prefix("command=")).collect();
    let output = match words.first() {
        None => b"attached\n".to_vec(),
        Some(&"tar") => archive("etc/motd", b"welcome\n"),
        _ if query.contains("input=1") => read_input(&mut stream).await?.to_ascii_uppercase(),
        _ => format!("{}\n", words.join(" ")).into_bytes(),
    };
    for (channel, data) in [(STDOUT, output.as_slice()), (ERROR, br#"{"metadata":{},"status":"Success"}"#)] {
        stream.write_all(&frame(channel, data)).await.ok()?;
    }
    // The frame that closes a WebSocket in order.
    stream.write_all(&[0x88, 2, 0x03, 0xe8]).await.ok()?;
    stream.flush().await.ok()?;
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).await.ok().map(drop)
}

fn frame(channel: u8, data: &[u8]) -> Vec<u8> {
    let length = data.len() + 1;
    let mut frame = vec![0x82];
    match u8::try_from(length) {
        Ok(short) if short < 126 => frame.push(short),
        _ => {
            frame.push(126);
            frame.extend(u16::try_from(length).unwrap().to_be_bytes());
        }
    }
    frame.push(channel);
    frame.extend(data);
    frame
}

/// The input until its end. Frames of clients are masked, and short here.
async fn read_input(stream: &mut (impl AsyncRead + Unpin)) -> Option<Vec<u8>> {
    let mut input = Vec::new();
    loop {
        let mut head = [0; 2];
        stream.read_exact(&mut head).await.ok()?;
        let length = match head[1] & 0x7f {
            126 => usize::from(stream.read_u16().await.ok()?),
            short => usize::from(short),
        };
        let mut mask = [0; 4];
        stream.read_exact(&mut mask).await.ok()?;
        let mut data = vec![0; length];
        stream.read_exact(&mut data).await.ok()?;
        data.iter_mut().zip(mask.iter().cycle()).for_each(|(byte, mask)| *byte ^= mask);
        match data.split_first() {
            Some((&STDIN, more)) => input.extend(more),
            Some((&CLOSE, [STDIN])) => return Some(input),
            _ => {}
        }
    }
}

/// A tar archive of one file.
fn archive(name: &str, content: &[u8]) -> Vec<u8> {
    let mut header = vec![0; 512];
    let mut put = |at: usize, text: &str| header[at..at + text.len()].copy_from_slice(text.as_bytes());
    put(0, name);
    put(100, "0000644");
    put(108, "0000000");
    put(116, "0000000");
    put(124, &format!("{:011o}", content.len()));
    put(136, "00000000000");
    put(148, "        ");
    put(156, "0");
    put(257, "ustar");
    put(263, "00");
    let sum: u32 = header.iter().map(|&byte| u32::from(byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    let mut archive = [header, content.to_vec()].concat();
    archive.resize(1024 + 1024, 0);
    archive
}
