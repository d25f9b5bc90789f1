//! A recorder of series, and what policies count of match conditions.

use std::collections::BTreeMap;
use std::sync::Mutex;

use metrics::{
    Counter, CounterFn, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit,
};

use super::mutating::apply;
use super::*;

/// What was counted, and how often something was observed, by series.
#[derive(Clone, Default)]
struct Counted(Arc<Mutex<BTreeMap<String, u64>>>);

struct Series(Counted, String);

impl Counted {
    fn series(&self, key: &Key) -> Arc<Series> {
        let labels: Vec<String> =
            key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        Arc::new(Series(self.clone(), format!("{}{{{}}}", key.name(), labels.join(","))))
    }

    /// The series whose names begin with `start`, without that.
    fn of(&self, start: &str) -> Vec<(String, u64)> {
        let all = self.0.lock().unwrap();
        let named =
            all.iter().filter_map(|(name, count)| Some((name.strip_prefix(start)?.to_owned(), *count)));
        named.collect()
    }
}

impl CounterFn for Series {
    fn increment(&self, value: u64) {
        *self.0.0.lock().unwrap().entry(self.1.clone()).or_default() += value;
    }

    fn absolute(&self, _value: u64) {}
}

impl HistogramFn for Series {
    fn record(&self, _value: f64) {
        self.increment(1);
    }
}

impl Recorder for Counted {
    fn describe_counter(&self, _key: KeyName, _unit: Option<Unit>, _description: SharedString) {}

    fn describe_gauge(&self, _key: KeyName, _unit: Option<Unit>, _description: SharedString) {}

    fn describe_histogram(&self, _key: KeyName, _unit: Option<Unit>, _description: SharedString) {}

    fn register_counter(&self, key: &Key, _metadata: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.series(key))
    }

    fn register_gauge(&self, _key: &Key, _metadata: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, key: &Key, _metadata: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.series(key))
    }
}

#[tokio::test]
async fn conditions_of_policies_that_do_not_all_hold_are_counted() {
    let counted = Counted::default();
    let _recording = metrics::set_default_local_recorder(&counted);
    let server = Server::new().await;
    let names = ["object.none == 1", "object.other == 1", "object.metadata.name != 'c'", "object.last == 1"];
    let condition = |(at, source): (usize, &&str)| json!({"name": format!("c{at}"), "expression": source});
    let conditions = Value::Array(names.iter().enumerate().map(condition).collect());
    let holding = json!([{"name": "c", "expression": "true"}]);
    let spec = |conditions: &Value| json!({"failurePolicy": "Ignore", "matchConditions": conditions, "validations": [{"expression": "true"}]});
    server.bound("p", spec(&conditions), json!({})).await;
    server.bound("q", spec(&holding), json!({})).await;
    let mutating =
        json!({"failurePolicy": "Ignore", "matchConditions": conditions, "mutations": [apply("Object{}")]});
    server.mutated("m", mutating, json!({})).await;
    server.create(MAPS, map("c")).await;
    let labels = |policy: &str| format!("{{kind=policy,name={policy},operation=CREATE,type=validate}}");
    let of = |series: &str| counted.of(&format!("apiserver_admission_match_condition_{series}"));
    assert_eq!(
        of("evaluation_errors_total"),
        [(labels("m"), 2), (labels("p"), 2)],
        "those before the false one"
    );
    assert_eq!(of("evaluation_seconds"), [(labels("m"), 1), (labels("p"), 1)]);
    server.create(MAPS, map("d")).await;
    assert_eq!(of("evaluation_errors_total"), [(labels("m"), 5), (labels("p"), 5)]);
    assert_eq!(of("evaluation_seconds"), [(labels("m"), 2), (labels("p"), 2)]);
    assert_eq!(of("exclusions_total"), [], "they are the webhooks'");
}
