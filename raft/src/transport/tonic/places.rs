//! Limits of connections on the peer port: strangers share a few places, members keep theirs.
//!
//! A stranger is a connection whose handshake is not done. At the limit of strangers, in total or from one address, the
//! newest takes the place of the oldest: of its own address, or of the address that has the most. So idle connections
//! keep no member out, and a member whose handshake takes its usual milliseconds is through before its turn comes. A
//! connection that has proved a name counts for that name and is never pushed out.
//!
//! Owns the table. It never reads from a connection and never judges a certificate.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// Handshakes under way at a time. Each holds about 30 kB, and a member's takes milliseconds.
pub(super) const STRANGERS_MAX: usize = 128;
/// Strangers from one address: eight other members behind one, each with a connection for each of four purposes.
const STRANGERS_PER_ADDRESS_MAX: usize = 32;
/// Connections of one name: one for each of four purposes, and twice as many again that the other end has given up and
/// this end has not noticed yet. More are refused, so that one certificate does not fill the port.
const CONNECTIONS_PER_NAME_MAX: usize = 12;
/// Connections with a proved name: nine members and a few that join or leave, each at its limit.
pub(super) const CONNECTIONS_MAX: usize = 256;

/// All places of a port. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Places(Arc<Mutex<Table>>);

#[derive(Debug, Default)]
struct Table {
    /// Number of the next stranger.
    number: u64,
    /// Strangers by number, which is by age.
    strangers: BTreeMap<u64, Stranger>,
    /// Connections of each name. Never 0.
    named: BTreeMap<Arc<str>, usize>,
}

#[derive(Debug)]
struct Stranger {
    network: IpAddr,
    /// Dropped when another takes the place.
    _keeps: oneshot::Sender<()>,
}

/// A stranger's place, given back when dropped.
#[derive(Debug)]
pub(super) struct StrangersPlace {
    places: Places,
    number: u64,
    lost: oneshot::Receiver<()>,
}

/// The place of a connection that has proved its name, given back when dropped.
#[derive(Debug)]
pub(super) struct NamedPlace {
    places: Places,
    name: Arc<str>,
}

/// The limit that refuses a connection with a proved name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoPlace {
    #[error("the name has {CONNECTIONS_PER_NAME_MAX} connections")]
    Name,
    #[error("there are {CONNECTIONS_MAX} peer connections")]
    Port,
}

impl Places {
    /// A place for a new connection from `address`. `true` if an older connection lost its own for it.
    pub(super) fn take(&self, address: IpAddr) -> (StrangersPlace, bool) {
        let network = network_of(address);
        let (keeps, lost) = oneshot::channel();
        let mut table = self.0.lock();
        let pushed_out =
            table.victim(network).is_some_and(|victim| table.strangers.remove(&victim).is_some());
        let number = table.number;
        table.number += 1;
        table.strangers.insert(number, Stranger { network, _keeps: keeps });
        (StrangersPlace { places: self.clone(), number, lost }, pushed_out)
    }

    /// A place for a connection that has proved `name`.
    pub(super) fn name(&self, name: &Arc<str>) -> Result<NamedPlace, NoPlace> {
        let mut table = self.0.lock();
        if table.named.values().sum::<usize>() >= CONNECTIONS_MAX {
            return Err(NoPlace::Port);
        }
        let count = table.named.entry(Arc::clone(name)).or_default();
        if *count >= CONNECTIONS_PER_NAME_MAX {
            return Err(NoPlace::Name);
        }
        *count += 1;
        Ok(NamedPlace { places: self.clone(), name: Arc::clone(name) })
    }
}

impl Table {
    /// Number of the stranger whose place a new one from `network` takes; `None` while places are free.
    fn victim(&self, network: IpAddr) -> Option<u64> {
        let mut counts = BTreeMap::<IpAddr, usize>::new();
        for stranger in self.strangers.values() {
            *counts.entry(stranger.network).or_default() += 1;
        }
        let crowded = if counts.get(&network).is_some_and(|&count| count >= STRANGERS_PER_ADDRESS_MAX) {
            network
        } else if self.strangers.len() >= STRANGERS_MAX {
            counts.into_iter().max_by_key(|&(_, count)| count)?.0
        } else {
            return None;
        };
        self.strangers.iter().find(|(_, stranger)| stranger.network == crowded).map(|(&number, _)| number)
    }
}

impl StrangersPlace {
    /// Waits until another connection has taken the place.
    pub(super) async fn lost(&mut self) {
        // Nothing is ever sent: the other end is dropped.
        let _ = (&mut self.lost).await;
    }
}

impl Drop for StrangersPlace {
    fn drop(&mut self) {
        self.places.0.lock().strangers.remove(&self.number);
    }
}

impl Drop for NamedPlace {
    fn drop(&mut self) {
        let mut table = self.places.0.lock();
        if let Some(count) = table.named.get_mut(&self.name) {
            *count -= 1;
            if *count == 0 {
                table.named.remove(&self.name);
            }
        }
    }
}

/// The unit that limits count as one address: IPv4 addresses, and /64 networks of IPv6, because one machine has as many
/// addresses of such a network as it likes.
fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn address(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    fn has_lost(place: &mut StrangersPlace) -> bool {
        place.lost().now_or_never().is_some()
    }

    #[test]
    fn the_newest_of_an_address_takes_the_place_of_its_oldest() {
        let places = Places::default();
        let (mut member, _) = places.take(address(2));
        let mut flood: Vec<_> = (0..STRANGERS_PER_ADDRESS_MAX).map(|_| places.take(address(1))).collect();
        assert!(flood.iter().all(|(_, pushed_out)| !pushed_out));
        let (_newest, pushed_out) = places.take(address(1));
        assert!(pushed_out);
        let lost: Vec<bool> = flood.iter_mut().map(|(place, _)| has_lost(place)).collect();
        assert!(lost[0] && lost[1..].iter().all(|lost| !lost), "{lost:?}");
        assert!(!has_lost(&mut member));
    }

    #[test]
    fn where_all_are_taken_the_address_that_has_the_most_gives_one() {
        let places = Places::default();
        let mut member = places.take(address(200)).0;
        let mut few: Vec<_> = (0..STRANGERS_MAX - 1 - STRANGERS_PER_ADDRESS_MAX)
            .map(|count| places.take(address(u8::try_from(count).unwrap() + 2)).0)
            .collect();
        let mut many: Vec<_> = (0..STRANGERS_PER_ADDRESS_MAX).map(|_| places.take(address(1)).0).collect();
        let (mut newest, pushed_out) = places.take(address(201));
        assert!(pushed_out && has_lost(&mut many[0]));
        assert!(
            !has_lost(&mut member) && !has_lost(&mut newest) && few.iter_mut().all(|place| !has_lost(place))
        );
        drop(many);
        assert!(!places.take(address(202)).1, "places are given back");
    }

    #[test]
    fn connections_of_a_single_name_do_not_fill_the_port() {
        let places = Places::default();
        let (a, b): (Arc<str>, Arc<str>) = ("a".into(), "b".into());
        let mut held: Vec<_> = (0..CONNECTIONS_PER_NAME_MAX).map(|_| places.name(&a).unwrap()).collect();
        assert_eq!(places.name(&a).unwrap_err(), NoPlace::Name);
        places.name(&b).unwrap();
        held.pop();
        places.name(&a).unwrap();
    }

    #[test]
    fn addresses_of_one_network_count_as_one() {
        let of = |text: &str| network_of(text.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:2"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
        assert_ne!(of("10.0.0.1"), of("10.0.0.2"));
    }
}
