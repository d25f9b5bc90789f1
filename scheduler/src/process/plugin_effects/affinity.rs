//! Affinity: weights between pods, and what is added to every pod.

use super::*;

#[test]
fn affinity_of_other_pods_weighs_as_configured() {
    let world = |affinity: PodAffinity| World {
        nodes: vec![node("a", &[], &[]), node("b", &[], &[])],
        pods: vec![with_affinity(pod("u", "a", &[("cpu", "5")]), affinity)],
        pod: pod("p", "", &[("cpu", "1")]),
        ..World::default()
    };
    let required = PodAffinity {
        required_during_scheduling_ignored_during_execution: vec![term()],
        ..PodAffinity::default()
    };
    let weighing =
        |weight: i32| scoring("InterPodAffinity", FIT, &format!("{{hardPodAffinityWeight: {weight}}}"));
    world(required).check((&weighing(1), "a"), (&weighing(0), "b"));
    let preferred = WeightedPodAffinityTerm { weight: 10, pod_affinity_term: Some(term()) };
    let preferred = PodAffinity {
        preferred_during_scheduling_ignored_during_execution: vec![preferred],
        ..PodAffinity::default()
    };
    let ignoring = |ignores: bool| {
        let args = format!("{{ignorePreferredTermsOfExistingPods: {ignores}}}");
        scoring("InterPodAffinity", FIT, &args)
    };
    world(preferred).check((&ignoring(false), "a"), (&ignoring(true), "b"));
}

#[test]
fn added_affinity_requires_and_prefers_nodes() {
    let world = World {
        nodes: vec![node("a", &[("disk", "ssd")], &[]), node("b", &[("disk", "hdd")], &[])],
        pods: vec![pod("u", "a", &[("cpu", "5")])],
        pod: pod("p", "", &[("cpu", "1")]),
        ..World::default()
    };
    let required = |term: &str| {
        let added =
            format!("requiredDuringSchedulingIgnoredDuringExecution: {{nodeSelectorTerms: [{term}]}}");
        args("NodeAffinity", &format!("{{addedAffinity: {{{added}}}}}"))
    };
    world
        .check(("", "b"), (&required("{matchExpressions: [{key: disk, operator: In, values: [ssd]}]}"), "a"));
    world.check(
        (&required("{matchExpressions: [{key: disk, operator: Exists}]}"), "b"),
        (&required("{matchExpressions: [{key: disk, operator: NotIn, values: [hdd]}]}"), "a"),
    );
    let by_name = "{matchFields: [{key: metadata.name, operator: In, values: [a]}]}";
    world.check(("", "b"), (&required(by_name), "a"));
    let prefers = |value: &str| {
        let term = format!("{{matchExpressions: [{{key: disk, operator: In, values: [{value}]}}]}}");
        let preferred = format!("[{{weight: 5, preference: {term}}}]");
        let added = format!("preferredDuringSchedulingIgnoredDuringExecution: {preferred}");
        scoring("NodeAffinity", FIT, &format!("{{addedAffinity: {{{added}}}}}"))
    };
    world.check((&prefers("hdd"), "b"), (&prefers("ssd"), "a"));
    let two = |a: i32, b: i32| {
        let term = |weight: i32, value: &str| {
            format!(
                "{{weight: {weight}, preference: {{matchExpressions: [{{key: disk, operator: In, values: [{value}]}}]}}}}"
            )
        };
        let both = format!("[{}, {}]", term(a, "ssd"), term(b, "hdd"));
        let added = format!("preferredDuringSchedulingIgnoredDuringExecution: {both}");
        scoring("NodeAffinity", "", &format!("{{addedAffinity: {{{added}}}}}"))
    };
    world.check((&two(5, 1), "a"), (&two(1, 5), "b"));
}
