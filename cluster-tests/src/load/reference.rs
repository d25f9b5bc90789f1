//! The reference's figures under the same work, in one table, and the aims for ours.
//!
//! Measured on a two-core machine of the kind used here: API server 1.36.2 with etcd 3.5.30, TLS, RBAC on, the load
//! generator on the same cores; two runs at different hours make the range. One set of figures serves for ours over
//! either protocol. `rate_three` is the rate with three etcd members.

use super::options::WorkName;

/// Unit of a work's rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    /// Operations a second; for the watch work, events.
    PerSecond,
    /// Megabytes (10^6) of body a second.
    Megabytes,
}

/// The reference's figures for one work, and the aim.
#[derive(Debug, Clone, Copy)]
pub(super) struct Figure {
    pub(super) work: WorkName,
    pub(super) unit: Unit,
    pub(super) rate_low: f64,
    pub(super) rate_high: f64,
    pub(super) rate_three: Option<f64>,
    /// CPU time of server and store for one operation, in microseconds; `None` where it was not measured.
    pub(super) cpu_us: Option<f64>,
    /// Multiple of the reference's rate that ours must reach.
    pub(super) aim_multiple: f64,
    /// Upper bound of our CPU time for one operation, in microseconds.
    pub(super) aim_cpu_us: Option<f64>,
}

/// Memory of server and store after all works, in megabytes, low and high. Ours must stay under an eighth of it.
pub(super) const MEMORY_MB: (f64, f64) = (700.0, 730.0);

/// The reference's figures by work.
const FIGURES: [Figure; 8] = [
    figure(WorkName::Create, (2010.0, 2120.0, Some(736.0)), 830.0, (5.0, 100.0)),
    figure(WorkName::Get, (2940.0, 4040.0, Some(1660.0)), 415.0, (8.0, 30.0)),
    figure(WorkName::GetAny, (3160.0, 6100.0, None), 258.0, (8.0, 25.0)),
    figure(WorkName::MergePatch, (815.0, 1460.0, Some(490.0)), 1260.0, (6.0, 150.0)),
    Figure {
        unit: Unit::Megabytes,
        ..figure(WorkName::List, (108.0, 160.0, None), 123_000.0, (8.0, 10_000.0))
    },
    figure(WorkName::ListChunked, (118.0, 190.0, None), 7500.0, (8.0, 600.0)),
    figure(WorkName::Watch, (57_000.0, 96_000.0, None), 20.0, (8.0, 2.0)),
    // Its scheduler beside them, 1,000 nodes.
    Figure {
        cpu_us: None,
        aim_cpu_us: None,
        ..figure(WorkName::Schedule, (287.0, 287.0, None), 0.0, (10.0, 0.0))
    },
];

const fn figure(work: WorkName, rates: (f64, f64, Option<f64>), cpu_us: f64, aim: (f64, f64)) -> Figure {
    Figure {
        work,
        unit: Unit::PerSecond,
        rate_low: rates.0,
        rate_high: rates.1,
        rate_three: rates.2,
        cpu_us: Some(cpu_us),
        aim_multiple: aim.0,
        aim_cpu_us: Some(aim.1),
    }
}

impl Figure {
    /// The reference's figure for `work`, where there is one.
    pub(super) fn of(work: WorkName) -> Option<Figure> {
        FIGURES.into_iter().find(|figure| figure.work == work)
    }

    /// The rates to compare with, low and high: those of one node, or with several servers that of three etcd members,
    /// if known.
    pub(super) fn rates(&self, servers: usize) -> (f64, f64) {
        match self.rate_three {
            Some(rate) if servers > 1 => (rate, rate),
            _ => (self.rate_low, self.rate_high),
        }
    }
}
