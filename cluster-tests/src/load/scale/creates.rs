//! Creates of many objects by a client with several requests at a time, or one after the other.

use std::time::Instant;

use anyhow::{Result, ensure};
use futures::stream::{self, StreamExt, TryStreamExt};
use parking_lot::Mutex;
use serde_json::Value;

use super::stage::Stage;
use crate::load::tally::Tally;

/// Creates `count` objects, `concurrent` at a time; `of` gives path and object of each.
pub(super) async fn create(
    stage: &Stage,
    what: &str,
    (count, concurrent): (u32, usize),
    of: impl Fn(u32) -> (String, Value),
) -> Result<Tally> {
    eprintln!("{count} {what} ...");
    let tally = Mutex::new(Tally::new()?);
    let requests = stream::iter((0..count).map(&of)).map(|(path, object)| {
        let (admin, tally) = (stage.admin.clone(), &tally);
        async move {
            let began = Instant::now();
            let answer = admin.post(&path, &object).await?;
            ensure!(answer.status == 201, "{path}: {:?}", answer.success());
            tally.lock().success(began.elapsed(), answer.body.len() as u64);
            anyhow::Ok(())
        }
    });
    requests.buffer_unordered(concurrent).try_collect::<()>().await?;
    Ok(tally.into_inner())
}
