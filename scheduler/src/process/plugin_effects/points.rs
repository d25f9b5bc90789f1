//! The plugins of each extension point, with their weights and the number of nodes that are scored.

use super::*;

#[test]
fn fewer_candidates_of_a_preemption_may_miss_the_best() {
    let world = World {
        nodes: vec![node("a", &[], &[]), node("b", &[], &[])],
        pods: vec![
            with_priority(pod("u", "a", &[("cpu", "10")]), 5),
            with_priority(pod("v", "b", &[("cpu", "10")]), 1),
        ],
        pod: with_priority(pod("p", "", &[("cpu", "1")]), 10),
        ..World::default()
    };
    let candidates = |percentage: i32, absolute: i32| {
        let given =
            format!("{{minCandidateNodesPercentage: {percentage}, minCandidateNodesAbsolute: {absolute}}}");
        args("DefaultPreemption", &given)
    };
    world.check((&candidates(1, 100), "nominated b"), (&candidates(1, 1), "nominated a or nominated b"));
    world.check((&candidates(100, 1), "nominated b"), (&candidates(1, 1), "nominated a or nominated b"));
    let without = "profiles:\n- plugins: {postFilter: {disabled: [{name: DefaultPreemption}]}}\n";
    world.check(("", "nominated b"), (without, "0/2 nodes are available: 2 Insufficient cpu. no new claims"));
}

#[test]
fn a_percentage_of_nodes_ends_the_search_early() {
    let nodes = (0..200).map(|index| node(&format!("n{index}"), &[], &[])).collect();
    let world = World { nodes, pod: pod("p", "", &[]), ..World::default() };
    for (members, expected) in [
        ("", 200),
        ("percentageOfNodesToScore: 60\n", 120),
        ("percentageOfNodesToScore: 60\nprofiles:\n- percentageOfNodesToScore: 100\n", 200),
        ("profiles:\n- percentageOfNodesToScore: 5\n", 100),
    ] {
        let Decision::Bind(placement) = world.plan(members, 0) else { panic!("{members}") };
        assert_eq!(placement.feasible, expected, "{members}");
    }
}

#[test]
fn plugins_that_are_disabled_at_a_point_do_not_run_there() {
    let mut port = pod("p", "", &[]);
    port.spec.as_mut().unwrap().containers[0].ports =
        vec![ContainerPort { host_port: 80, container_port: 80, ..ContainerPort::default() }];
    let mut taken = port.clone();
    taken.metadata = metadata("u", &[]);
    taken.spec.as_mut().unwrap().node_name = "a".to_owned();
    let world = World { nodes: vec![node("a", &[], &[])], pods: vec![taken], pod: port, ..World::default() };
    let refused = "0/1 nodes are available: 1 node(s) didn't have free ports";
    let disabled =
        |point: &str| format!("profiles:\n- plugins: {{{point}: {{disabled: [{{name: NodePorts}}]}}}}\n");
    world.check(("", refused), (&disabled("filter"), "a"));
    world.check(("", refused), (&disabled("multiPoint"), "a"));
    let mut gated = world.clone();
    gated.pod.spec.as_mut().unwrap().scheduling_gates = vec![PodSchedulingGate { name: "g".to_owned() }];
    let without = "profiles:\n- plugins: {preEnqueue: {disabled: [{name: SchedulingGates}]}}\n";
    for (members, is_admitted) in [("", false), (without, true)] {
        let (mut cluster, planner) = gated.planner(members);
        let pod = cluster.compile(&gated.pod);
        assert_eq!(planner.admit(&cluster, &pod) == Admission::Admitted, is_admitted, "{members}");
    }
}

#[test]
fn the_weight_of_a_plugin_decides_between_two() {
    let world = World {
        nodes: vec![node("a", &[("disk", "ssd")], &[]), node("b", &[], &[])],
        pods: vec![pod("u", "a", &[("cpu", "5"), ("memory", "5G")])],
        pod: pod("p", "", &[("cpu", "1"), ("memory", "1G")]),
        ..World::default()
    };
    let weighing = |affinity: i32, fit: i32| {
        let term = "{matchExpressions: [{key: disk, operator: In, values: [ssd]}]}";
        format!(
            "profiles:\n- plugins: {{score: {{disabled: [{{name: '*'}}], enabled: [{{name: NodeAffinity, weight: \
             {affinity}}}, {{name: NodeResourcesFit, weight: {fit}}}]}}}}\n  pluginConfig: [{{name: NodeAffinity, args: \
             {{addedAffinity: {{preferredDuringSchedulingIgnoredDuringExecution: [{{weight: 1, preference: {term}}}]}}}}}}]\n"
        )
    };
    world.check((&weighing(1, 1), "a"), (&weighing(1, 9), "b"));
}

#[test]
fn plugins_without_anything_to_prepare_or_write_have_no_effect() {
    let mut named = pod("p", "", &[]);
    named.spec.as_mut().unwrap().affinity = Some(Affinity {
        node_affinity: Some(NodeAffinity {
            required_during_scheduling_ignored_during_execution: Some(NodeSelector {
                node_selector_terms: vec![NodeSelectorTerm {
                    match_fields: vec![NodeSelectorRequirement {
                        key: "metadata.name".to_owned(),
                        operator: "In".to_owned(),
                        values: vec!["elsewhere".to_owned()],
                    }],
                    ..NodeSelectorTerm::default()
                }],
            }),
            ..NodeAffinity::default()
        }),
        ..Affinity::default()
    });
    let world = World { nodes: vec![node("a", &[], &[])], pod: named, ..World::default() };
    let disabled = |point: &str, plugin: &str| {
        format!("profiles:\n- plugins: {{{point}: {{disabled: [{{name: {plugin}}}]}}}}\n")
    };
    world.check(
        ("", "0/1 nodes are available: 1 node(s) didn't satisfy plugin(s) [NodeAffinity]"),
        (
            &disabled("preFilter", "NodeAffinity"),
            "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector",
        ),
    );
    let mut stored = pod("p", "", &[]);
    let source = PersistentVolumeClaimVolumeSource { claim_name: "c".to_owned(), ..Default::default() };
    let source = VolumeSource { persistent_volume_claim: Some(source), ..VolumeSource::default() };
    stored.spec.as_mut().unwrap().volumes =
        vec![Volume { name: "v".to_owned(), volume_source: Some(source) }];
    let world = World { nodes: vec![node("a", &[], &[])], pod: stored, ..World::default() };
    for (members, writes) in [("", 1), (&*disabled("preBind", "VolumeBinding"), 0)] {
        let (mut cluster, mut planner) = world.planner(members);
        let class = StorageClass {
            metadata: metadata("fast", &[]).map(|one| ObjectMeta { namespace: String::new(), ..one }),
            provisioner: "d.io".to_owned(),
            volume_binding_mode: Some("WaitForFirstConsumer".to_owned()),
            ..StorageClass::default()
        };
        cluster.apply(Change::Upsert(Object::StorageClass(&class)));
        let spec = PersistentVolumeClaimSpec {
            storage_class_name: Some("fast".to_owned()),
            ..PersistentVolumeClaimSpec::default()
        };
        let claim = PersistentVolumeClaim { metadata: metadata("c", &[]), spec: Some(spec), status: None };
        cluster.apply(Change::Upsert(Object::PersistentVolumeClaim(&claim)));
        let pod = cluster.compile(&world.pod);
        let decision = planner.plan(&cluster, &pod, WallTime::default(), 0, &mut NoExtenders);
        let Decision::Bind(placement) = decision else { panic!("{members}: {decision:?}") };
        assert_eq!(placement.volumes.provision.len(), writes, "{members}");
    }
}
