//! Large writes that wait for another server: they keep no place in the pool from others.

use std::time::Duration;

use futures::future::{join, join_all};

use super::*;
use crate::admission::slow::Slow;
use crate::admission::testing::builtin_with;
use crate::http::pool::Pool;
use crate::http::turns::Turns;

const PODS: &str = "/api/v1/namespaces/ns/pods";
const QUOTAS: &str = "/api/v1/namespaces/ns/resourcequotas";

/// A pod whose body is processed in the pool.
fn large_pod(name: &str) -> Value {
    let note = "x".repeat(70_000);
    json!({
        "metadata": {"name": name, "annotations": {"note": note}},
        "spec": {"containers": [{"name": "c", "image": "i"}]}
    })
}

/// Headers of a request in the name of another administrator.
const OTHER: [(&str, &str); 2] = [("impersonate-user", "other"), ("impersonate-group", "system:masters")];

#[test]
fn sixty_four_slow_hooks_leave_every_place_of_the_pool_to_others() {
    block_on(async {
        let server = Server::new().await;
        for at in 0..300 {
            server.create(MAPS, map(&format!("m{at}"), "v")).await;
        }
        let slow = Slow::of("pods");
        let mut pipeline = pipeline(server.store.clone(), server.clock.clone(), Features::default());
        pipeline.admission = builtin_with(Box::new(slow.clone()));
        // A pool of two threads, however many processors there are.
        let pool = Pool::of(2);
        let places = pool.places();
        let api = Api { pool, ..Api::new(Arc::new(pipeline), server.stopping.clone()) };
        let server = Server { router: api.router(), ..server };
        let hard = json!({"pods": "20"});
        server.create(QUOTAS, json!({"metadata": {"name": "q"}, "spec": {"hard": hard}})).await;
        let status = json!({"status": {"hard": hard, "used": {"pods": "0"}}});
        assert_eq!(server.merge(&format!("{QUOTAS}/q/status"), status).await.code, StatusCode::OK);
        let all_free = places.iter().map(Turns::free).collect::<Vec<_>>();
        let create = |at: usize| {
            let server = &server;
            async move {
                let body = Body::from(large_pod(&format!("p{at}")).to_string());
                server.send(Method::POST, PODS, &[], body).await.code.as_u16()
            }
        };
        let meanwhile = async {
            slow.until_waiting(64).await;
            // The last one gives its place back when its job has ended.
            let given_back = async {
                while places.iter().map(Turns::free).collect::<Vec<_>>() != all_free {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            };
            tokio::time::timeout(Duration::from_secs(5), given_back).await.expect("every place is free");
            let table = [("accept", "application/json;as=Table;g=meta.orch.io;v=v1"), OTHER[0], OTHER[1]];
            let listed = server.send(Method::GET, MAPS, &table, Body::empty()).await;
            assert_eq!(listed.json()["rows"].as_array().unwrap().len(), 300);
            let large = json!({"metadata": {"name": "large"}, "data": {"k": "x".repeat(70_000)}});
            let made = server.send(Method::POST, MAPS, &OTHER, Body::from(large.to_string())).await;
            assert_eq!(made.code, StatusCode::CREATED);
            slow.answer(64);
        };
        let (codes, ()) = join(join_all((0..64).map(create)), meanwhile).await;
        let count = |code: u16| codes.iter().filter(|found| **found == code).count();
        assert_eq!((count(201), count(403)), (20, 44));
        let asked: Vec<usize> = slow.asked("mutate").into_values().collect();
        assert_eq!(asked, [1; 64]);
    });
}
