//! Starts and ends the program.

use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Longest wait for anything: a busy machine may be slow.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(60);

/// A program that has ended.
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// A running program. It is killed when it is dropped.
pub(crate) struct Running {
    child: Child,
    lines: Receiver<String>,
    seen: Vec<String>,
}

/// A port that nobody listens on.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}

fn command(arguments: &[String]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_scheduler"));
    command.args(arguments).env_clear().stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs the program to its end.
pub(crate) fn run(arguments: &[String]) -> Ended {
    let mut child = command(arguments).spawn().unwrap();
    let (mut out, mut err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let reading = std::thread::spawn(move || {
        let mut text = String::new();
        out.read_to_string(&mut text).map(|_| text)
    });
    let (sender, ended) = channel();
    std::thread::spawn(move || {
        let mut text = String::new();
        let read = err.read_to_string(&mut text).map(|_| text);
        sender.send(read)
    });
    let Ok(stderr) = ended.recv_timeout(WAIT_MAX) else {
        child.kill().unwrap();
        panic!("still running: {arguments:?}");
    };
    let status = child.wait().unwrap();
    Ended { status, stdout: reading.join().unwrap().unwrap(), stderr: stderr.unwrap() }
}

/// Starts the program, and waits until it says that it has started.
pub(crate) fn start(arguments: &[String]) -> Running {
    let mut child = command(arguments).spawn().unwrap();
    let err = BufReader::new(child.stderr.take().unwrap());
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        for line in err.lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    let mut running = Running { child, lines, seen: Vec::new() };
    running.wait_for(" started");
    running
}

impl Running {
    /// Waits for a log line with `text`, and returns it.
    pub(crate) fn wait_for(&mut self, text: &str) -> String {
        let until = Instant::now() + WAIT_MAX;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) if line.contains(text) => return line,
                Ok(line) => self.seen.push(line),
                Err(_) => panic!("no line with {text:?}: {:?}", self.seen),
            }
        }
    }

    /// Waits for a log line with `text`, unless one has come.
    pub(crate) fn wait_until_said(&mut self, text: &str) {
        if !self.said(text) {
            let line = self.wait_for(text);
            self.seen.push(line);
        }
    }

    /// Whether a log line with `text` has come so far.
    pub(crate) fn said(&self, text: &str) -> bool {
        self.seen.iter().any(|line| line.contains(text))
    }

    /// Tells the program to stop, and waits for its end.
    pub(crate) fn stop(mut self) -> ExitStatus {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        let until = Instant::now() + WAIT_MAX;
        while Instant::now() < until {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("it does not stop: {:?}", self.seen);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A client configuration for the server at `url`.
pub(crate) fn write_client_config(path: &Path, url: &str) {
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts:\n- name: a\n  context: {{cluster: c, user: u}}\n\
         clusters:\n- name: c\n  cluster: {{server: \"{url}\"}}\nusers:\n- name: u\n  user: {{token: scheduler-token}}\n"
    );
    std::fs::write(path, text).unwrap();
}
