//! Reviews: documents that are answered and never stored.
//!
//! Owns their way through the stages: decode, default, ownership, admission, validate, ask, answer. Nothing is proposed.

use orch_raft::Store;
use orch_rules::validate::WriteKind;
use orch_rules::validate::tree::{Tree, set};
use orch_schema::value::Value;
use orch_schema::{apply_defaults, encode_json};

use super::new_object::{clear_system_fields, known_name};
use super::{Pipeline, Request, WriteOutcome, Written};
use crate::admission::{Additions, Attributes, Operation, View};
use crate::authz::review::{Question, Review, subject, token_status, user_info};
use crate::error::{ApiError, Subject};
use crate::fields::{Writer, track_update};
use crate::follow::Applied;

impl<S: Store> Pipeline<S> {
    /// Answers the review in the body of a POST.
    pub(super) async fn review(&self, request: Request<'_>, review: Review) -> Result<Written, ApiError> {
        let options = self.write_options(request, WriteKind::Plain)?;
        let mut value = self.incoming(request, options.field_validation)?;
        self.settle_namespace(request, &mut value)?;
        let resource = request.resource;
        let now = self.ambient.now().seconds_text();
        clear_system_fields(&mut value);
        apply_defaults(&resource.schema, resource.type_id, &mut value);
        self.own_document(request, &options.manager, &now, &mut value);
        let name = known_name(&value).to_owned();
        let attributes = Attributes {
            name: &name,
            dry_run: options.dry_run,
            ..self.attributes(request, Operation::Create)
        };
        let (mut view, mut additions) = (View::of(&self.store), Additions::default());
        self.mutate(&attributes, Some(&mut value), &mut view, &mut additions).await?;
        self.validate_review(request, &value, &now)?;
        check_answerable(review, &value)?;
        self.validate_unstored(&attributes, &value, &mut view, &mut additions).await?;
        let applied = Applied::of(&self.store);
        let status = match review {
            Review::SubjectAccess => {
                let spec = value.at("spec");
                let question = Question::of(spec);
                question.status(&self.gate.rule(&subject(spec), question.attributes(), &applied).await)
            }
            Review::SelfSubjectAccess => {
                let question = Question::of(value.at("spec"));
                question.status(&self.gate.rule(request.user, question.attributes(), &applied).await)
            }
            Review::SelfSubjectRules => {
                let namespace = value.at("spec").text("namespace");
                self.gate.authorizers().rules_of(request.user, namespace, &applied).await.status()
            }
            Review::Token => {
                let spec = value.at("spec");
                let token = spec.text("token");
                let own = self.gate.audiences();
                let asked: Vec<String> = spec.texts("audiences").into_iter().map(str::to_owned).collect();
                let wanted = if asked.is_empty() { &own } else { &asked };
                let holder = self
                    .gate
                    .review(token.as_bytes(), wanted, request.exchange, (&self.store, self.ambient.now()))
                    .await;
                token_status(spec, &own, holder.as_ref().map_err(ToString::to_string))
            }
            Review::SelfSubject => orch_schema::json!({"userInfo": user_info(request.user)}),
        };
        // As in the reference, two answers are new documents: they repeat nothing of the request.
        match review {
            Review::SelfSubjectRules => {
                set(&mut value, "metadata", orch_schema::json!({}));
                set(&mut value, "spec", orch_schema::json!({}));
            }
            Review::SelfSubject => {
                set(&mut value, "metadata", orch_schema::json!({"creationTimestamp": now.as_str()}));
            }
            Review::SubjectAccess | Review::SelfSubjectAccess | Review::Token => {}
        }
        set(&mut value, "status", status);
        let mut json = Vec::new();
        encode_json(&resource.schema, resource.type_id, &value, &mut json);
        Ok(Written { json: json.into(), stored: None, written_as: None, outcome: WriteOutcome::Created })
    }

    fn validate_review(&self, request: Request<'_>, value: &Value, now: &str) -> Result<(), ApiError> {
        let resource = request.resource;
        let errors = resource.strategy.validate_create(&self.context(request, now), value);
        if errors.is_empty() {
            return Ok(());
        }
        // As in the reference, the error names the group and neither kind nor name.
        let subject = Subject { group: resource.group.clone(), ..Subject::default() };
        Err(ApiError::Invalid { subject, errors })
    }

    /// Sets the managed fields of a document that is answered and not stored.
    pub(super) fn own_document(&self, request: Request<'_>, manager: &str, now: &str, value: &mut Value) {
        let (resource, action) = (request.resource, request.action);
        let writer = Writer {
            manager,
            api_version: &resource.api_version(),
            subresource: action.subresource(),
            now,
            reset: resource.resets(action),
            others: &resource.others,
        };
        if let Err(error) = track_update(&resource.schema, resource.type_id, None, value, &writer) {
            tracing::debug!(%error, "ownership of an answer is not tracked");
        }
    }
}

/// Refuses a review that lacks what it is about.
fn check_answerable(review: Review, value: &Value) -> Result<(), ApiError> {
    let spec = value.at("spec");
    let message = match review {
        Review::SelfSubjectRules if spec.text("namespace").is_empty() => "no namespace on request",
        Review::Token if spec.text("token").is_empty() => {
            "token is required for TokenReview in authentication"
        }
        _ => return Ok(()),
    };
    Err(ApiError::BadRequest(message.to_owned()))
}
