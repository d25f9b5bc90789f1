//! Looks names up, a few at a time.
//!
//! Owns the places of look-ups. The system's resolver blocks a thread for as long as a name server is silent, and cannot be called off
//! when the caller gives up. Its threads are those that decode large bodies and read files, too: without a bound, a webhook whose name
//! server does not answer takes them all, and its look-ups still wait in their queue minutes after the last call. A look-up therefore
//! holds a place until the resolver returns, and callers wait for one outside of that queue, as long as they want to.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Look-ups at once: a thirtieth of the threads for blocking work.
const PLACES: usize = 16;

/// Look-ups of one name at once: one that hangs leaves places for the others.
const PLACES_OF_NAME: usize = 2;

/// Names whose places are kept when nobody looks them up.
const IDLE_NAMES_MAX: usize = 64;

/// The places of this process, as there is one pool of threads.
static LOOKUPS: LazyLock<Lookups> = LazyLock::new(Lookups::new);

struct Lookups {
    all: Arc<Semaphore>,
    of_names: Mutex<HashMap<String, Arc<Semaphore>>>,
}

/// The addresses of `host`, at `port`.
///
/// # Errors
/// The system's resolver knows none.
pub(crate) async fn look_up(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    let name = host.to_owned();
    LOOKUPS.run(host, move || Ok((name.as_str(), port).to_socket_addrs()?.collect())).await
}

impl Lookups {
    fn new() -> Lookups {
        Lookups { all: Arc::new(Semaphore::new(PLACES)), of_names: Mutex::default() }
    }

    /// Runs a look-up of `host` on a thread for blocking work, once there are places for it.
    async fn run<T: Send + 'static>(
        &self,
        host: &str,
        look_up: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let of_name = self.of_name(host);
        let places = (place(of_name).await?, place(Arc::clone(&self.all)).await?);
        let looking = tokio::task::spawn_blocking(move || {
            let found = look_up();
            drop(places);
            found
        });
        looking.await.map_err(io::Error::other)?
    }

    fn of_name(&self, host: &str) -> Arc<Semaphore> {
        let mut of_names = self.of_names.lock();
        if of_names.len() > IDLE_NAMES_MAX {
            // Those that are looked up are held by their callers.
            of_names.retain(|_, places| Arc::strong_count(places) > 1);
        }
        let places = of_names.entry(host.to_owned());
        Arc::clone(places.or_insert_with(|| Arc::new(Semaphore::new(PLACES_OF_NAME))))
    }
}

async fn place(of: Arc<Semaphore>) -> io::Result<OwnedSemaphorePermit> {
    of.acquire_owned().await.map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn a_name_that_hangs_holds_two_places_however_many_gave_up_and_others_are_found() {
        let (lookups, begun) = (Lookups::new(), Arc::new(AtomicUsize::new(0)));
        let (release, released) = channel::<()>();
        let released = Arc::new(Mutex::new(released));
        for _ in 0..5 {
            let (begun, released) = (Arc::clone(&begun), Arc::clone(&released));
            let hangs = lookups.run("hangs.test", move || {
                begun.fetch_add(1, Ordering::SeqCst);
                released.lock().recv().map_err(io::Error::other)
            });
            assert!(timeout(Duration::from_millis(20), hangs).await.is_err(), "its caller gives up");
        }
        assert_eq!(
            begun.load(Ordering::SeqCst),
            PLACES_OF_NAME,
            "two look-ups of it run, and none is queued"
        );
        assert_eq!(lookups.run("answers.test", || Ok(1)).await.unwrap(), 1);
        release.send(()).unwrap();
        release.send(()).unwrap();
        assert_eq!(lookups.run("hangs.test", || Ok(2)).await.unwrap(), 2, "its places are free again");
    }

    #[tokio::test]
    async fn addresses_are_not_looked_up() {
        let found = look_up("127.0.0.1", 7).await.unwrap();
        assert_eq!(found, [SocketAddr::new([127, 0, 0, 1].into(), 7)]);
    }
}
