//! Fair queuing over a clock moved by hand: its rules case by case, and its fairness against equal shares.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use proptest::prelude::*;

use super::*;

/// One queue for each hash.
const OWN_QUEUES: Shape = Shape { queues: 1000, hand_size: 1, queue_length_max: 1000 };

fn ticket(arrival: Arrival) -> Ticket {
    match arrival {
        Arrival::Dispatched(ticket) | Arrival::Queued(ticket) => ticket,
        refused => panic!("{refused:?}"),
    }
}

#[test]
fn without_queues_a_request_that_finds_no_seat_is_rejected() {
    let mut set = QueueSet::new(Shape { queues: 0, hand_size: 0, queue_length_max: 0 }, 2, 0);
    let first = ticket(set.arrive(0, 1, 1));
    assert!(matches!(set.arrive(0, 2, 1), Arrival::Dispatched(_)));
    assert_eq!(set.arrive(0, 3, 1), Arrival::ConcurrencyLimit);
    set.leave(1, first);
    assert!(matches!(set.arrive(1, 3, 1), Arrival::Dispatched(_)));
}

#[test]
fn a_full_queue_rejects_and_another_still_takes() {
    let mut set = QueueSet::new(Shape { queue_length_max: 1, ..OWN_QUEUES }, 1, 0);
    assert!(matches!(set.arrive(0, 1, 1), Arrival::Dispatched(_)));
    assert!(matches!(set.arrive(0, 1, 1), Arrival::Queued(_)));
    assert_eq!(set.arrive(0, 1, 1), Arrival::QueueFull);
    assert!(matches!(set.arrive(0, 2, 1), Arrival::Queued(_)));
}

#[test]
fn a_queue_behind_a_wide_request_is_as_short_as_any_other() {
    let mut set = QueueSet::new(Shape { queue_length_max: 2, ..OWN_QUEUES }, 4, 0);
    assert!(matches!(set.arrive(0, 1, 2), Arrival::Dispatched(_)));
    assert!(matches!(set.arrive(0, 1, 3), Arrival::Queued(_)), "two seats are free");
    assert!(matches!(set.arrive(0, 1, 3), Arrival::Queued(_)));
    for seats in [3, 1] {
        assert_eq!(set.arrive(0, 1, seats), Arrival::QueueFull, "{seats}");
    }
}

#[test]
fn a_request_wider_than_all_seats_runs_alone() {
    let mut set = QueueSet::new(OWN_QUEUES, 2, 0);
    let first = ticket(set.arrive(0, 1, 1));
    let Arrival::Queued(wide) = set.arrive(0, 2, 5) else { panic!("a seat is in use") };
    set.leave(1, first);
    assert_eq!(set.take_dispatched().collect::<Vec<_>>(), [wide]);
    assert!(matches!(set.arrive(1, 3, 1), Arrival::Queued(_)));
}

#[test]
fn a_request_that_left_its_queue_is_not_dispatched() {
    let mut set = QueueSet::new(OWN_QUEUES, 1, 0);
    let first = ticket(set.arrive(0, 1, 1));
    let (gone, next) = (ticket(set.arrive(0, 1, 1)), ticket(set.arrive(0, 1, 1)));
    set.leave(1, gone);
    set.leave(2, first);
    assert_eq!(set.take_dispatched().collect::<Vec<_>>(), [next]);
    set.leave(3, next);
    assert_eq!((set.totals(), set.view()), (Totals::default(), vec![]));
}

#[test]
fn more_seats_dispatch_what_waits() {
    let mut set = QueueSet::new(OWN_QUEUES, 1, 0);
    let tickets: Vec<_> = (0..4).map(|hash| ticket(set.arrive(0, hash, 1))).collect();
    set.set_seats_max(1, 3);
    assert_eq!(set.take_dispatched().collect::<Vec<_>>(), tickets[1..3]);
    set.set_seats_max(2, 1);
    set.leave(3, tickets[0]);
    set.leave(3, tickets[1]);
    assert!(!set.has_dispatched(), "three had seats, and now there is one");
    set.leave(3, tickets[2]);
    assert_eq!(set.take_dispatched().collect::<Vec<_>>(), tickets[3..]);
}

#[test]
fn the_lists_of_one_flow_leave_seats_for_others() {
    let mut set = QueueSet::new(OWN_QUEUES, 48, 0);
    let lists: Vec<_> = (0..5).map(|_| set.arrive(0, 1, 10)).collect();
    assert!(matches!(
        lists[..],
        [
            Arrival::Dispatched(_),
            Arrival::Dispatched(_),
            Arrival::Queued(_),
            Arrival::Queued(_),
            Arrival::Queued(_)
        ]
    ));
    assert!(matches!(set.arrive(1, 2, 10), Arrival::Dispatched(_)), "another flow has a share of its own");
    assert!(matches!(set.arrive(1, 3, 1), Arrival::Dispatched(_)), "and the next one finds seats");
    set.leave(2, ticket(lists[0]));
    assert_eq!(set.take_dispatched().collect::<Vec<_>>(), [ticket(lists[2])]);
    set.leave(3, ticket(lists[3]));
    set.leave(4, ticket(lists[1]));
    assert_eq!(set.take_dispatched().collect::<Vec<_>>(), [ticket(lists[4])]);
    let narrow: Vec<_> = (0..17).map(|_| set.arrive(5, 1, 1)).collect();
    assert!(
        narrow.iter().all(|arrival| matches!(arrival, Arrival::Dispatched(_))),
        "requests of one seat have no share"
    );
    assert!(matches!(set.arrive(6, 1, 1), Arrival::Queued(_)));
}

/// A flow that always has `backlog` requests here, each of `seats` for `duration`.
#[derive(Clone, Copy, Debug)]
struct Flow {
    backlog: usize,
    seats: u32,
    duration: u64,
}

/// Runs backlogged flows for `span`; returns the seat-microseconds that each got.
fn run(flows: &[Flow], seats_max: u32, span: u64) -> Vec<u64> {
    let mut set = QueueSet::new(OWN_QUEUES, seats_max, 0);
    let mut service = vec![0_u64; flows.len()];
    let mut owners: BTreeMap<Ticket, usize> = BTreeMap::new();
    let mut ends: BTreeSet<(u64, Ticket)> = BTreeSet::new();
    let mut arrivals: VecDeque<usize> =
        flows.iter().enumerate().flat_map(|(at, flow)| std::iter::repeat_n(at, flow.backlog)).collect();
    let mut now = 0;
    while now < span {
        while let Some(flow) = arrivals.pop_front() {
            let arrival = set.arrive(now, u64::try_from(flow).unwrap(), flows[flow].seats);
            owners.insert(ticket(arrival), flow);
            if let Arrival::Dispatched(ticket) = arrival {
                ends.insert((now + flows[flow].duration, ticket));
            }
        }
        let (end, ticket) = ends.pop_first().expect("the flows are never idle");
        now = end;
        let flow = owners.remove(&ticket).unwrap();
        service[flow] += flows[flow].duration * u64::from(flows[flow].seats);
        set.leave(now, ticket);
        for ticket in set.take_dispatched() {
            ends.insert((now + flows[owners[&ticket]].duration, ticket));
        }
        arrivals.push_back(flow);
    }
    service
}

#[test]
fn a_light_flow_is_soon_in_turn_whatever_another_has_queued() {
    let mut set = QueueSet::new(OWN_QUEUES, 2, 0);
    let mut executing: VecDeque<_> = (0..2).map(|_| ticket(set.arrive(0, 1, 1))).collect();
    for _ in 0..500 {
        assert!(matches!(set.arrive(0, 1, 1), Arrival::Queued(_)));
    }
    let mut now = 0;
    for _ in 0..100 {
        let light = ticket(set.arrive(now, 2, 1));
        let mut passed = 0;
        while !set.is_executing(light) {
            now += 4_000;
            set.leave(now, executing.pop_front().unwrap());
            let next: Vec<_> = set.take_dispatched().collect();
            executing.extend(next.into_iter().filter(|ticket| *ticket != light));
            passed += 1;
        }
        assert!(passed <= 3, "of 500 that wait, {} passed it", passed - 1);
        now += 2_000;
        set.leave(now, light);
        executing.extend(set.take_dispatched());
    }
}

fn flows() -> impl Strategy<Value = Vec<Flow>> {
    let flow = (40_usize..80, 1_u32..4, 1_000_u64..20_000).prop_map(|(backlog, seats, duration)| Flow {
        backlog,
        seats,
        duration,
    });
    prop::collection::vec(flow, 2..6)
}

proptest! {
    /// The oracle: while all flows have work, each gets an equal share of the seats.
    #[test]
    fn backlogged_flows_get_equal_shares(flows in flows(), seats_max in 4_u32..10) {
        let span = 4_000_000;
        let service = run(&flows, seats_max, span);
        let total: u64 = service.iter().sum();
        let share = total / u64::try_from(flows.len()).unwrap();
        // A guess of a duration is corrected when the request ends: until then a flow may be ahead by what runs at once.
        let error = 2 * u64::from(seats_max + 3) * 20_000;
        for (flow, got) in flows.iter().zip(&service) {
            prop_assert!(got.abs_diff(share) <= error, "{flow:?} got {got} of {service:?}, not {share}");
        }
        // Seats that the next request in turn does not fit into stay free: fewer than it is wide.
        prop_assert!(total >= span * u64::from(seats_max - 2) - error, "{total} of {seats_max} seats");
    }

    /// Whatever comes and goes: each request is dispatched once, the seats suffice, and nothing waits that fits.
    #[test]
    fn the_invariants_hold_after_every_step(
        steps in prop::collection::vec((0_u8..4, 0_u64..6, 1_u32..5, 0_u64..5_000), 1..300),
        seats_max in 1_u32..6,
        hand_size in 1_u32..4,
    ) {
        let mut set = QueueSet::new(Shape { queues: 8, hand_size, queue_length_max: 5 }, seats_max, 0);
        let (mut now, mut waiting, mut executing) = (0, Vec::new(), Vec::new());
        for (step, hash, seats, passed) in steps {
            now += passed;
            match step {
                0 | 1 => match set.arrive(now, hash.wrapping_mul(0x9e37_79b9_7f4a_7c15), seats) {
                    Arrival::Dispatched(ticket) => executing.push(ticket),
                    Arrival::Queued(ticket) => waiting.push(ticket),
                    Arrival::QueueFull => prop_assert!(set.totals().waiting >= 5, "no queue is full"),
                    Arrival::ConcurrencyLimit => prop_assert!(false, "there are queues"),
                },
                2 => if let Some(ticket) = executing.pop() { set.leave(now, ticket) },
                _ => if let Some(ticket) = waiting.pop() { set.leave(now, ticket) },
            }
            for ticket in set.take_dispatched() {
                let at = waiting.iter().position(|other| *other == ticket);
                prop_assert!(at.is_some(), "{ticket:?} was not waiting");
                executing.push(waiting.remove(at.unwrap()));
            }
            prop_assert!(set.view().iter().all(|queue| queue.waiting.len() <= 5), "a queue is too long");
            let totals = set.totals();
            let counts = (totals.waiting as usize, totals.executing as usize);
            prop_assert_eq!(counts, (waiting.len(), executing.len()));
            let in_use: u32 = executing.iter().map(|ticket| set.seats_of(*ticket)).sum();
            prop_assert_eq!(in_use, totals.seats_in_use);
            prop_assert!(in_use <= seats_max || executing.len() == 1);
            let next = set.next_in_turn().map(|(_, ticket)| ticket);
            prop_assert_eq!(next.is_some(), totals.waiting > 0);
            prop_assert!(next.is_none_or(|ticket| !set.fits(set.seats_of(ticket))), "it fits and waits");
        }
    }
}
