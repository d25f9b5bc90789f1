//! The search against trying everything, on small random pools.

use proptest::prelude::*;

use super::*;

const COLOURS: [&str; 3] = ["red", "green", "blue"];

#[derive(Clone, Debug)]
struct Case {
    /// Colour and rack of each device; whether it is held.
    devices: Vec<(usize, i64, bool)>,
    /// For each request the number of devices, and the colour that is wanted.
    requests: Vec<(i64, Option<usize>)>,
    /// Whether the devices of the first claim share their rack, or differ in it.
    rule: Option<bool>,
    /// Requests from this one on are another claim's.
    split: usize,
}

fn cases() -> impl Strategy<Value = Case> {
    let device = (0..COLOURS.len(), 0..3_i64, prop::bool::weighted(0.15));
    let request = (1..3_i64, prop::option::of(0..COLOURS.len()));
    (
        prop::collection::vec(device, 1..7),
        prop::collection::vec(request, 1..4),
        prop::option::of(any::<bool>()),
        0..4_usize,
    )
        .prop_map(|(devices, requests, rule, split)| Case { devices, requests, rule, split })
}

fn name(number: usize) -> String {
    format!("d{number}")
}

fn cluster(case: &Case) -> Cluster {
    let of = |(number, (colour, rack, _)): (usize, &(usize, i64, bool))| {
        device(&name(number), &[("colour", COLOURS[*colour]), ("rack", &rack.to_string())])
    };
    let mut cluster = Cluster::new(vec![slice("a", "pa", case.devices.iter().enumerate().map(of).collect())]);
    for (number, (_, _, held)) in case.devices.iter().enumerate() {
        if *held {
            let result = api::DeviceRequestAllocationResult {
                driver: "d.io".to_owned(),
                pool: "pa".to_owned(),
                device: name(number),
                ..Default::default()
            };
            let devices = api::DeviceAllocationResult { results: vec![result], ..Default::default() };
            let allocation = Some(AllocationResult { devices: Some(devices), ..Default::default() });
            let status = api::ResourceClaimStatus { allocation, ..Default::default() };
            let holder = claim(&format!("held-{number}"), Vec::new());
            cluster.add(api::ResourceClaim { status: Some(status), ..holder });
        }
    }
    let requests: Vec<_> = case
        .requests
        .iter()
        .enumerate()
        .map(|(number, (count, colour))| {
            let expression =
                colour.map(|colour| format!("device.attributes['d.io'].colour == '{}'", COLOURS[colour]));
            let expressions: Vec<&str> = expression.iter().map(String::as_str).collect();
            request(&format!("r{number}"), exactly("c", *count, &expressions))
        })
        .collect();
    let split = case.split.min(requests.len());
    let constraint =
        case.rule.map(|shares| if shares { matching("d.io/rack", &[]) } else { distinct("d.io/rack") });
    cluster.add(constrained(claim("x", requests[..split].to_vec()), constraint.into_iter().collect()));
    cluster.add(claim("y", requests[split..].to_vec()));
    cluster
}

/// What each device that is wanted asks for: its request.
fn wanted(case: &Case) -> Vec<usize> {
    let requests = case.requests.iter().enumerate();
    requests.flat_map(|(number, (count, _))| (0..*count).map(move |_| number)).collect()
}

/// Whether these devices, one for each that is wanted, are a solution.
fn is_solution(case: &Case, chosen: &[usize]) -> bool {
    let wanted = wanted(case);
    let mut racks = Vec::new();
    for (at, (device, request)) in chosen.iter().zip(&wanted).enumerate() {
        let (colour, rack, held) = case.devices[*device];
        let asked = case.requests[*request].1;
        if held || chosen[..at].contains(device) || asked.is_some_and(|asked| asked != colour) {
            return false;
        }
        if *request < case.split {
            racks.push(rack);
        }
    }
    match case.rule {
        None => true,
        Some(true) => racks.windows(2).all(|pair| pair[0] == pair[1]),
        Some(false) => (0..racks.len()).all(|at| !racks[..at].contains(&racks[at])),
    }
}

/// Whether some choice of devices is a solution: every choice is tried.
fn can_be_solved(case: &Case, chosen: &mut Vec<usize>) -> bool {
    if chosen.len() == wanted(case).len() {
        return is_solution(case, chosen);
    }
    (0..case.devices.len()).any(|device| {
        chosen.push(device);
        // Choices that are no solution so far become none.
        let found = is_solution(case, chosen) && can_be_solved(case, chosen);
        chosen.pop();
        found
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_solution_is_found_exactly_if_there_is_one(case in cases()) {
        let answer = cluster(&case).allocate(&["x", "y"], "a");
        let can = can_be_solved(&case, &mut Vec::new());
        match answer {
            Ok(claims) => {
                prop_assert!(can);
                let devices = claims["x"].iter().chain(&claims["y"]);
                let number = |device: &String| device.split_once("=d").and_then(|(_, number)| number.parse().ok());
                let chosen: Vec<usize> = devices.filter_map(number).collect();
                prop_assert_eq!(chosen.len(), wanted(&case).len());
                prop_assert!(is_solution(&case, &chosen));
            }
            Err(reason) => {
                prop_assert_eq!(reason, CANNOT);
                prop_assert!(!can);
            }
        }
    }

    #[test]
    fn devices_that_claims_hold_do_not_depend_on_the_order_of_events(
        holders in prop::collection::vec((0..4_usize, 0..5_usize), 1..20)
    ) {
        // Claims come and go; a world that was told only the last state of each must look the same.
        let result = |device: usize| {
            let result = api::DeviceRequestAllocationResult {
                driver: "d.io".to_owned(),
                pool: "pa".to_owned(),
                device: name(device),
                ..Default::default()
            };
            let devices = api::DeviceAllocationResult { results: vec![result], ..Default::default() };
            AllocationResult { devices: Some(devices), ..Default::default() }
        };
        let pool = || slice("a", "pa", plain(&["d0", "d1", "d2", "d3"]));
        let holder = |who: usize, device: usize| {
            let allocation = (device < 4).then(|| result(device));
            let status = Some(api::ResourceClaimStatus { allocation, ..Default::default() });
            api::ResourceClaim { status, ..claim(&format!("h{who}"), Vec::new()) }
        };
        let mut told = Cluster::new(vec![pool()]);
        let mut last = BTreeMap::new();
        for (who, device) in &holders {
            told.add(holder(*who, *device));
            last.insert(*who, *device);
        }
        let mut anew = Cluster::new(vec![pool()]);
        for (who, device) in last {
            anew.add(holder(who, device));
        }
        for count in 1..=4 {
            let wanted = claim("x", vec![many("r", count)]);
            prop_assert_eq!(told.one(wanted.clone(), "a"), anew.one(wanted, "a"));
        }
    }
}
