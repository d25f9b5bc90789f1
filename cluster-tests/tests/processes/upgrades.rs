//! A program that is replaced under load by one of the same feature level, and put back.
//!
//! An older program is not at hand here: `make upgrade FROM=REVISION` builds one, and runs the same with it.

use orch_cluster_tests::cluster::program;
use orch_cluster_tests::upgrade::{Options, run};

#[test]
fn members_are_replaced_one_by_one_under_load_and_may_go_back_at_the_same_level() {
    let options = Options { from: program("orch").unwrap(), writers: 16, seconds: 0 };
    let report = run(&options).unwrap();
    assert!(report.is_good() && !report.refused_older(), "{report}");
}
