//! Connections on event loops that are not the thread that accepts.

use std::io::{Read, Write};
use std::thread::JoinHandle;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::RecvError;

use super::*;

/// Threads that run one event loop each, until this is dropped.
struct Loops {
    runtimes: Vec<Handle>,
    threads: Vec<(Option<oneshot::Sender<()>>, Option<JoinHandle<RecvError>>)>,
}

impl Loops {
    fn start(names: &[&str]) -> Loops {
        let mut loops = Loops { runtimes: Vec::new(), threads: Vec::new() };
        for name in names {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            loops.runtimes.push(runtime.handle().clone());
            let (stop, stopped) = oneshot::channel();
            let thread = std::thread::Builder::new().name((*name).to_owned());
            let thread = thread.spawn(move || runtime.block_on(stopped).unwrap_err()).unwrap();
            loops.threads.push((Some(stop), Some(thread)));
        }
        loops
    }

    fn event_loops(&self) -> EventLoops {
        let mut runtimes = self.runtimes.iter().cloned();
        EventLoops::new(runtimes.next().unwrap(), runtimes)
    }
}

impl Drop for Loops {
    fn drop(&mut self) {
        for (stop, thread) in &mut self.threads {
            drop(stop.take());
            thread.take().unwrap().join().unwrap();
        }
    }
}

async fn thread_of(sender: &mut http1::SendRequest<Empty<Bytes>>) -> String {
    text(sender.send_request(request("/thread")).await.unwrap()).await
}

#[tokio::test]
async fn connections_are_spread_over_the_loops_and_stay_on_theirs() {
    let loops = Loops::start(&["a", "b"]);
    let fixture = start_on(loops.event_loops(), |_| {});
    let mut held = Vec::new();
    for name in ["a", "b", "a"] {
        let mut sender = fixture.one(None).await;
        assert_eq!(thread_of(&mut sender).await, name);
        held.push((sender, name));
    }
    // Of every port and protocol.
    let mut plain = fixture.plain().await;
    assert_eq!(thread_of(&mut plain).await, "b");
    held.push((plain, "b"));
    let mut two = fixture.two(None).await;
    assert_eq!(text(two.send_request(request("https://localhost/thread")).await.unwrap()).await, "a");
    for (sender, name) in &mut held {
        assert_eq!(thread_of(sender).await, *name);
    }
}

#[tokio::test]
async fn a_loop_that_is_held_up_holds_up_no_connection_of_another() {
    let loops = Loops::start(&["a", "b"]);
    let fixture = start_on(loops.event_loops(), |_| {});
    let (mut on_a, mut on_b) = (fixture.one(None).await, fixture.one(None).await);
    assert_eq!((thread_of(&mut on_a).await, thread_of(&mut on_b).await), ("a".to_owned(), "b".to_owned()));
    let blocked = tokio::spawn(async move { on_a.send_request(request("/block")).await });
    fixture.meeting.arrived.notified().await;
    assert_eq!(thread_of(&mut on_b).await, "b");
    // The next one goes to the held loop, and is accepted all the same; the one behind it is not held up.
    let waiting = TcpStream::connect(fixture.plain).await.unwrap();
    let mut next = fixture.plain().await;
    assert_eq!(thread_of(&mut next).await, "b");
    assert!(!blocked.is_finished());
    fixture.meeting.go_on.notify_one();
    blocked.await.unwrap().unwrap();
    drop(waiting);
}

#[tokio::test]
async fn a_stop_drains_connections_of_every_loop() {
    let loops = Loops::start(&["a", "b"]);
    let fixture = start_on(loops.event_loops(), |_| {});
    let (mut on_a, mut on_b) = (fixture.plain().await, fixture.two(None).await);
    let first = tokio::spawn(async move { text(on_a.send_request(request("/slow")).await.unwrap()).await });
    fixture.meeting.arrived.notified().await;
    let slow = request("https://localhost/slow");
    let second = tokio::spawn(async move { text(on_b.send_request(slow).await.unwrap()).await });
    fixture.meeting.arrived.notified().await;
    let stopping = fixture.server.stop();
    tokio::pin!(stopping);
    assert!(futures::poll!(stopping.as_mut()).is_pending());
    let cut = loop {
        // Each of them may wait a little later than it arrived.
        fixture.meeting.go_on.notify_one();
        tokio::select! {
            cut = stopping.as_mut() => break cut,
            () = tokio::task::yield_now() => {}
        }
    };
    assert_eq!((first.await.unwrap().as_str(), second.await.unwrap().as_str()), ("none true", "none false"));
    assert_eq!(cut, 0);
}

/// A request over a connection that the test reads and writes itself.
fn ask(client: &mut std::net::TcpStream) {
    client.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"none true") {
        let mut bytes = [0; 1024];
        let count = client.read(&mut bytes).unwrap();
        assert!(count > 0, "{answer:?}");
        answer.extend_from_slice(&bytes[..count]);
    }
}

#[test]
fn a_connection_needs_no_thread_but_its_loop() {
    let accepting = Builder::new_current_thread().enable_all().build().unwrap();
    let loops = Loops::start(&["a"]);
    let (fixture, mut client) = accepting.block_on(async {
        let fixture = start_on(loops.event_loops(), |_| {});
        let address = fixture.plain;
        let asked = tokio::task::spawn_blocking(move || {
            let mut client = std::net::TcpStream::connect(address).unwrap();
            client.set_read_timeout(Some(PATIENCE)).unwrap();
            ask(&mut client);
            client
        });
        (fixture, asked.await.unwrap())
    });
    // From here on nothing drives the runtime that accepted it: a socket that it had registered would never be read.
    ask(&mut client);
    drop(fixture);
}
