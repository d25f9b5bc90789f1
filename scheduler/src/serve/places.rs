//! Connection places: their number, and the choice of the connection that is closed for a new one.
//!
//! Owns the two bounds, of all connections and of those from one origin (an IPv4 address, or a /64 of IPv6, which one
//! machine can have whole). A new connection at a bound closes another: of those within the bound first one without
//! accepted credentials, first one without a request under way, and of these the one that has been idle for longest. So
//! idle connections, which cost an attacker nothing, keep nobody out. Only where each connection belongs to a user and has
//! a request under way is a new one refused.
//!
//! Owns as well how long a connection may be idle: HTTP/2 has no deadline of its own, and answers to pings keep a
//! connection alive that asks for nothing.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

/// Most connections: a handful of collectors and people use this port.
const CONNECTIONS_MAX: usize = 512;
/// Most connections of one origin, so that one client leaves places to others.
const CONNECTIONS_PER_ORIGIN_MAX: usize = 128;
/// How long a connection may be without a request: longer than the usual minute between two collections of metrics.
const IDLE_MAX: Duration = Duration::from_secs(90);
/// The part of an IPv6 address that tells origins apart.
const ORIGIN_OF_IPV6: u128 = !0 << 64;

/// The places of a port.
#[derive(Debug, Default)]
pub(super) struct Places(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    /// Number of the next connection.
    next: u64,
    held: BTreeMap<u64, Held>,
}

#[derive(Debug)]
struct Held {
    origin: IpAddr,
    is_known: bool,
    /// Requests under way.
    requests: usize,
    /// When the connection was made, or its last request ended.
    idle_since: Instant,
    evicted: CancellationToken,
}

/// The place of a connection, released on drop.
#[derive(Debug)]
pub(super) struct Place {
    number: u64,
    places: Arc<Places>,
    evicted: CancellationToken,
}

/// Counts a request as under way until it is dropped.
#[derive(Debug)]
pub(super) struct UnderWay<'a>(&'a Place);

impl Places {
    /// A place for a connection from `address`, for which another connection may have to go. `None` if none can.
    pub(super) fn take(self: &Arc<Places>, address: IpAddr) -> Option<Place> {
        let origin = origin(address);
        let mut table = self.0.lock();
        let same = table.held.values().filter(|held| held.origin == origin).count();
        if same >= CONNECTIONS_PER_ORIGIN_MAX {
            table.evict(|held| held.origin == origin)?;
        } else if table.held.len() >= CONNECTIONS_MAX {
            table.evict(|_| true)?;
        }
        let number = table.next;
        table.next += 1;
        let evicted = CancellationToken::new();
        let held = Held {
            origin,
            is_known: false,
            requests: 0,
            idle_since: Instant::now(),
            evicted: evicted.clone(),
        };
        table.held.insert(number, held);
        Some(Place { number, places: Arc::clone(self), evicted })
    }
}

impl Table {
    /// Takes the place of the connection that may go first. `None`: none may.
    fn evict(&mut self, is_within: impl Fn(&Held) -> bool) -> Option<()> {
        let may_go = |held: &Held| is_within(held) && !(held.is_known && held.requests > 0);
        let candidates = self.held.iter().filter(|(_, held)| may_go(held));
        let (&number, _) =
            candidates.min_by_key(|(_, held)| (held.is_known, held.requests > 0, held.idle_since))?;
        let held = self.held.remove(&number)?;
        held.evicted.cancel();
        Some(())
    }
}

impl Place {
    /// The connection's client has shown credentials that were accepted.
    pub(super) fn hold(&self) {
        self.change(|held| held.is_known = true);
    }

    /// A request begins.
    pub(super) fn request(&self) -> UnderWay<'_> {
        self.change(|held| held.requests += 1);
        UnderWay(self)
    }

    /// Completes when another connection has got the place.
    pub(super) async fn evicted(&self) {
        self.evicted.cancelled().await;
    }

    /// Completes when the connection has been without a request for too long.
    pub(super) async fn idle(&self) {
        loop {
            let now = Instant::now();
            let since = match self.places.0.lock().held.get(&self.number) {
                Some(held) if held.requests == 0 => held.idle_since,
                _ => now,
            };
            if now >= since + IDLE_MAX {
                return;
            }
            sleep_until(since + IDLE_MAX).await;
        }
    }

    /// Changes the place's entry, which an evicted connection has no more.
    fn change(&self, change: impl FnOnce(&mut Held)) {
        if let Some(held) = self.places.0.lock().held.get_mut(&self.number) {
            change(held);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.0.lock().held.remove(&self.number);
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.change(|held| {
            held.requests -= 1;
            held.idle_since = Instant::now();
        });
    }
}

fn origin(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from(u128::from(address) & ORIGIN_OF_IPV6).into(),
        address @ IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(third: usize, last: usize) -> IpAddr {
        [10, 0, u8::try_from(third).unwrap(), u8::try_from(last).unwrap()].into()
    }

    fn is_evicted(place: &Place) -> bool {
        place.evicted.is_cancelled()
    }

    /// `count` places, each taken a second after the one before, from four origins.
    async fn taken(places: &Arc<Places>, count: usize) -> Vec<Place> {
        let mut taken = Vec::new();
        for index in 0..count {
            tokio::time::advance(Duration::from_secs(1)).await;
            taken.push(places.take(address(0, index % 4)).unwrap());
        }
        taken
    }

    #[tokio::test(start_paused = true)]
    async fn idle_strangers_make_room_longest_idle_first() {
        let places = Arc::new(Places::default());
        let held = taken(&places, CONNECTIONS_MAX).await;
        held[0].hold();
        let busy = held[1].request();
        tokio::time::advance(Duration::from_secs(1)).await;
        drop(held[2].request());
        let new: Vec<Place> = (0..2).map(|last| places.take(address(1, last)).unwrap()).collect();
        let evicted: Vec<usize> = (0..held.len()).filter(|&index| is_evicted(&held[index])).collect();
        assert_eq!(evicted, [3, 4], "the known, the busy and the one that has just asked stay");
        assert!(!new.iter().any(is_evicted));
        drop(busy);
    }

    #[tokio::test(start_paused = true)]
    async fn an_origin_that_has_its_share_makes_room_itself() {
        let places = Arc::new(Places::default());
        let other = places.take(address(1, 1)).unwrap();
        let own: Vec<Place> =
            (0..CONNECTIONS_PER_ORIGIN_MAX).map(|_| places.take(address(0, 0)).unwrap()).collect();
        let next = places.take(address(0, 0)).unwrap();
        assert!(is_evicted(&own[0]) && !is_evicted(&own[1]) && !is_evicted(&other) && !is_evicted(&next));
        drop((own, next));
        assert_eq!(places.0.lock().held.len(), 1, "places are given back once");
    }

    #[tokio::test]
    async fn users_with_requests_under_way_keep_their_places() {
        let places = Arc::new(Places::default());
        let held: Vec<Place> =
            (0..CONNECTIONS_PER_ORIGIN_MAX).map(|_| places.take(address(0, 0)).unwrap()).collect();
        let busy: Vec<UnderWay<'_>> = held
            .iter()
            .map(|place| {
                place.hold();
                place.request()
            })
            .collect();
        assert!(places.take(address(0, 0)).is_none());
        drop(busy);
        assert!(places.take(address(0, 0)).is_some());
    }

    #[test]
    fn the_addresses_of_one_machine_are_one_origin() {
        let of = |text: &str| origin(text.parse().unwrap());
        assert_eq!(of("2001:db8:1:2::1"), of("2001:db8:1:2:ffff::7"));
        assert_ne!(of("2001:db8:1:2::1"), of("2001:db8:1:3::1"));
        assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
        assert_ne!(of("10.0.0.1"), of("10.0.0.2"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_without_requests_is_idle_in_the_end() {
        let places = Arc::new(Places::default());
        let place = places.take(address(0, 0)).unwrap();
        let began = Instant::now();
        let under_way = place.request();
        let idle = place.idle();
        tokio::pin!(idle);
        assert!(tokio::time::timeout(IDLE_MAX * 5, idle.as_mut()).await.is_err(), "a request is under way");
        drop(under_way);
        idle.await;
        assert_eq!(began.elapsed(), IDLE_MAX * 6);
    }
}
