//! Images of nodes in plans: which of them a pod's images are, and what they weigh.

use serde_json::{Value, json};

use super::answers::{Bench, decode, pod, with_requests};
use crate::plan::{Change, Object};

fn offer(cpu: &str, images: &[(&str, i64)]) -> Value {
    let images =
        images.iter().map(|(name, mebibytes)| json!({ "names": [name], "sizeBytes": mebibytes << 20 }));
    json!({ "allocatable": { "cpu": cpu, "memory": "64Gi", "pods": "10" }, "images": images.collect::<Vec<_>>() })
}

/// A pod of one image, which takes the larger node if images do not decide.
fn of_image(image: &str) -> Value {
    let mut pod = with_requests(pod("p", json!({}), json!({})), json!({ "cpu": "10", "memory": "6Gi" }));
    pod["spec"]["containers"][0]["image"] = json!(image);
    pod
}

#[test]
fn images_of_volumes_count_like_those_of_containers() {
    let mut bench = Bench::new();
    bench.node_with("a", json!({}), offer("100", &[("model:1", 900)]));
    bench.node_with("b", json!({}), offer("1000", &[]));
    let volume = json!({ "name": "m", "image": { "reference": "model:1" } });
    let plain = of_image("i");
    assert_eq!(bench.bound(&plain), "b");
    let mut with_image = plain;
    with_image["spec"]["volumes"] = json!([volume]);
    assert_eq!(bench.bound(&with_image), "a");
}

#[test]
fn an_image_has_the_size_that_its_first_node_told() {
    let mut bench = Bench::new();
    bench.node_with("a", json!({}), offer("1000", &[("i:1", 100)]));
    bench.node_with("b", json!({}), offer("100", &[("i:1", 900)]));
    assert_eq!(bench.bound(&of_image("i:1")), "a");
    // The size goes with the last node that holds the image.
    bench.node_with("a", json!({}), offer("1000", &[]));
    bench.node_with("b", json!({}), offer("100", &[("i:1", 800)]));
    assert_eq!(bench.bound(&of_image("i:1")), "b");
    bench
        .cluster
        .apply(Change::Delete(Object::Node(&decode("Node", &json!({ "metadata": { "name": "b" } })))));
    bench.node_with("b", json!({}), offer("100", &[("i:1", 10)]));
    assert_eq!(bench.bound(&of_image("i:1")), "a");
}

#[test]
fn an_image_that_a_node_names_without_a_tag_is_not_the_latest() {
    for (held, node) in [("i:latest", "a"), ("i", "b")] {
        let mut bench = Bench::new();
        bench.node_with("a", json!({}), offer("100", &[(held, 900)]));
        bench.node_with("b", json!({}), offer("1000", &[]));
        assert_eq!(bench.bound(&of_image("i")), node, "{held}");
    }
}
