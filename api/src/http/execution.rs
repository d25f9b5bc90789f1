//! Execution of an operation: the body, the pipeline within the request's time, and the rendered answer.
//!
//! Owns the order, and where a request is carried out: on this thread, or in the pool if it is large or turns out to be. A small body is read before
//! the request waits for its seat, a large one after that.

use std::pin::pin;
use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use http::{Response, header};
use orch_raft::Store;
use orch_rules::Action;
use orch_schema::budget::Budget;

use super::body::Upload;
use super::brief::Weights;
use super::deadline::{deadline, run_until_deadline};
use super::headers::header_text;
use super::memory_ledger::{COUNTED_BYTES_MIN, Hold, Payer, keep_until_sent};
use super::pool::OwnedRequest;
use super::stages::{Authorized, Operation, Seated, status_response};
use super::{Api, brief, respond, response_events};
use crate::error::ApiError;
use crate::exchange::Step;
use crate::negotiate::{Representation, ResponseView};
use crate::pipeline::{Answer, Request, WriteOutcome};
use crate::render::{IncludeObject, Renderer};
use crate::request::Verb;

/// The budget of a request. Reads, and deletions of collections, iterate over stored objects, not over the client's
/// input: their steps are unbounded, and they end when the client disconnects.
fn budget_of(verb: Verb) -> Budget {
    if verb.is_read() || verb == Verb::DeleteCollection { Budget::of(u64::MAX) } else { Budget::default() }
}

impl<S: Store> Api<S> {
    /// Waits for a seat, takes the body, and runs the pipeline, all within the request's time from its arrival.
    pub(super) async fn execute(
        self: &Arc<Self>,
        authorized: Authorized<'_, Operation<'_>>,
        upload: &mut Upload,
    ) -> Result<Response<Body>, ApiError> {
        let (arrived, Operation { endpoint, verb, .. }) = (authorized.arrived(), *authorized.destination());
        let representation = arrived.representation_of(endpoint)?;
        let deadline = arrived.deadline_after(deadline(verb, &arrived.query)?);
        let content_type = header_text(&arrived.headers, &header::CONTENT_TYPE).to_ascii_lowercase();
        let (budget, store) = (Arc::new(budget_of(verb)), &self.pipeline.store);
        let ambient = &self.pipeline.ambient;
        let began = ambient.now();
        let small = self.small_body(upload, verb, deadline, &budget).await?;
        if !verb.is_read() {
            arrived.exchange.note(Step::Body, began, ambient.now());
        }
        let body_bytes = if small.is_some() { 0 } else { upload.may_hold(verb) };
        let seated = self.seat(authorized, (deadline.left(store), body_bytes)).await?;
        if verb == Verb::Watch && seated.seat().is_limited() {
            // The start of a watch never waits. Of ten thousand that come at once no more than have seats are in the line of
            // tasks, so that other requests are not behind them all.
            tokio::task::yield_now().await;
        }
        let response = {
            let work = pin!(async {
                let is_own = endpoint.action == Action::Object;
                if !verb.is_read() || !is_own || !representation.is_as_stored(endpoint.resource) {
                    endpoint.resource.make_tables().await?;
                }
                let (hold, body) = match small {
                    Some(body) => (None, body),
                    None => {
                        let began = ambient.now();
                        let payer = Payer::of(seated.user(), &arrived.exchange);
                        let taken = self.take_body(upload, verb, payer, seated.seat()).await?;
                        arrived.exchange.note(Step::Body, began, ambient.now());
                        taken
                    }
                };
                let request = seated.request(&content_type, &body, &budget);
                if !self.is_large(request, representation) && !self.weights.counts_as_heavy(request) {
                    let work = pin!(self.carry_out(request, representation));
                    if let Some(result) = brief::tried(Weights::is_unknown(request), &budget, work).await {
                        return result;
                    }
                    self.weights.note_heavy(request);
                }
                let (exchange, user) = (arrived.exchange.clone(), seated.user().clone());
                let large = OwnedRequest::of(request, exchange, user, budget.clone());
                self.carry_out_large(request, large, representation, hold).await
            });
            run_until_deadline(store, deadline, verb, &budget, work).await?
        };
        Ok(seated.until_sent(store, response))
    }

    /// Carries out a large request in the pool. Its response keeps `hold`, or room of its own.
    async fn carry_out_large(
        self: &Arc<Self>,
        request: Request<'_>,
        large: OwnedRequest,
        representation: Representation,
        hold: Option<Hold>,
    ) -> Result<Response<Body>, ApiError> {
        let hold = match hold {
            None => self.room_for_answer(request, representation).await?,
            both => both,
        };
        let response = Box::pin(self.carry_out_in_pool(large, representation)).await?;
        Ok(match hold {
            Some(hold) => keep_until_sent(response, hold),
            None => response,
        })
    }

    /// Runs the pipeline and renders its answer.
    pub(super) async fn carry_out(
        self: &Arc<Self>,
        request: Request<'_>,
        representation: Representation,
    ) -> Result<Response<Body>, ApiError> {
        // Only tables have this option; any value is accepted otherwise.
        let include = match representation.view {
            ResponseView::Table => IncludeObject::parse(request.query.text("includeObject"))?,
            ResponseView::Whole | ResponseView::Metadata | ResponseView::MetadataList => {
                IncludeObject::default()
            }
        };
        let renderer = Renderer::new(request.registry, request.resource, representation, include);
        if request.verb == Verb::Watch {
            return Box::pin(self.start_watch(request, representation, renderer)).await;
        }
        let began = self.pipeline.ambient.now();
        let (answer, hold) = self.run(request).await?;
        let now = self.pipeline.ambient.now();
        if request.verb.is_read() {
            request.exchange.note(Step::Read, began, now);
        }
        response_events::record_answer(request, representation, include, &answer, now);
        let content_type = renderer.content_type();
        let response = match answer {
            Answer::Stored(object) => respond::payload(200, content_type, renderer.object(&object, now)?),
            Answer::List(list) => {
                let payer = Payer::of(request.user, request.exchange);
                self.list_answer(payer, content_type, renderer.list(list, now)?)?
            }
            Answer::Listed(list) => {
                let response = respond::payload(200, content_type, renderer.list(list, now)?);
                match hold {
                    Some(hold) => keep_until_sent(response, hold),
                    None => response,
                }
            }
            Answer::Written(written) => {
                let code = match written.outcome {
                    WriteOutcome::Created => 201,
                    WriteOutcome::Done => 200,
                    WriteOutcome::Accepted => 202,
                };
                respond::payload(code, content_type, renderer.written(&written, now)?)
            }
            Answer::Done(status) => {
                let code = if status.code == 0 { 200 } else { status.code };
                status_response(code, request.registry, &status, representation)
            }
        };
        request.exchange.note(Step::Render, now, self.pipeline.ambient.now());
        Ok(response)
    }

    /// Runs the pipeline. A deletion of a collection reserves memory for its response before the first object is
    /// deleted: a write that has begun can no longer be refused.
    async fn run(&self, request: Request<'_>) -> Result<(Answer, Option<Hold>), ApiError> {
        if request.verb != Verb::DeleteCollection {
            return Ok((self.pipeline.run(request).await?, None));
        }
        self.pipeline.store.may_serve()?;
        let doomed = self.pipeline.select_for_deletion(request).await?;
        // The search may have been cut short by the deadline or a cancellation: nothing may be deleted by its result.
        request.budget.check()?;
        let hold = match doomed.bytes() {
            small if small < COUNTED_BYTES_MIN => None,
            bytes => Some(self.ledger.take(&Payer::of(request.user, request.exchange), bytes)?),
        };
        Ok((self.pipeline.delete_collection(request, doomed).await?, hold))
    }
}

impl<'a> Seated<'a, Operation<'a>> {
    /// The request as the pipeline takes it. `content_type` is in lower case.
    fn request<'r>(&'r self, content_type: &'r str, body: &'r Bytes, budget: &'r Budget) -> Request<'r> {
        let (arrived, Operation { target, endpoint, verb }) = (self.arrived(), self.operation());
        Request {
            verb,
            registry: &arrived.served().registry,
            target,
            resource: endpoint.resource,
            action: endpoint.action,
            query: &arrived.query,
            exchange: &arrived.exchange,
            user: self.user(),
            user_agent: header_text(&arrived.headers, &header::USER_AGENT),
            content_type,
            body,
            budget,
        }
    }
}
