//! Processor time of this thread beside the time that passed.
//!
//! Owns the clock: other work on the machine makes a plan take longer, but not its processor time, so that this is the
//! figure to compare.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

pub(crate) struct Clock {
    cpu: Duration,
    wall: Instant,
}

pub(crate) struct Elapsed {
    pub(crate) cpu: Duration,
    pub(crate) wall: Duration,
}

impl Clock {
    pub(crate) fn start() -> Clock {
        Clock { cpu: thread_time(), wall: Instant::now() }
    }

    pub(crate) fn elapsed(&self) -> Elapsed {
        Elapsed { cpu: thread_time() - self.cpu, wall: self.wall.elapsed() }
    }
}

fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap(), time.tv_nsec.try_into().unwrap())
}
