//! Tokens of service accounts, made on request.
//!
//! Owns the way of a TokenRequest through the stages: decode, default, ownership, admission, validate, look up the
//! account and what the token is bound to, sign, answer. Nothing is stored.
//!
//! Invariant: a token names the uids of objects that existed when it was made, in the namespace of the request.

use orch_raft::{Key, State, Store};
use orch_rules::validate::names::path_segment;
use orch_rules::validate::tree::{Tree, child_mut, set};
use orch_rules::validate::{FieldError, FieldErrors, Path, WriteKind};
use orch_schema::excerpt::quoted;
use orch_schema::value::Value;
use orch_schema::{apply_defaults, encode_json};

use super::options::Options;
use super::stored::tree_of;
use super::{Pipeline, Request, WriteOutcome, Written};
use crate::admission::{Additions, Attributes, Operation};
use crate::ambient::{Timestamp, uuid_text};
use crate::authn::service_account::{Claims, ObjectRef, Settings};
use crate::error::{ApiError, Subject};

/// The life in seconds that pods' mounted tokens ask for. As in the reference, a token for this server with that life is
/// valid for longer, so that programs that read their token once keep working; it says when a new one was due.
const RENEWED_LIFE_S: u64 = 60 * 60 + 7;
/// The life of such a token: a year, as in the reference.
const EXTENDED_LIFE_S: u64 = 365 * 24 * 60 * 60;

impl<S: Store> Pipeline<S> {
    /// POST of a TokenRequest.
    pub(super) async fn token(&self, request: Request<'_>) -> Result<Written, ApiError> {
        let accounts = self.gate.service_accounts().filter(|accounts| accounts.keys().signer().is_some());
        let accounts = accounts.ok_or(ApiError::UnknownPath)?;
        let (options, now) = (self.write_options(request, WriteKind::Plain)?, self.ambient.now());
        let mut value = self.token_request(request, &options, now)?;
        // One view for all: the account may have been made on another node a moment ago.
        let (mut view, mut additions) = (self.newest_view().await?, Additions::default());
        let attributes =
            Attributes { dry_run: options.dry_run, ..self.attributes(request, Operation::Create) };
        self.mutate(&attributes, Some(&mut value), &mut view, &mut additions).await?;
        let state = view.applied().state.clone();
        let lookup = Lookup { request, state: &state };
        let account = lookup.account(&value)?;
        complete(&mut value, request, &account, accounts.settings(), now);
        self.validate_token_request(request, &value, now)?;
        self.validate_unstored(&attributes, &value, &mut view, &mut additions).await?;
        let claims = Claims { id: uuid_text(self.ambient.random()), ..lookup.claims(account, &value)? };
        let claims = date(claims, &mut value, request, accounts.settings(), now);
        let label = request.registry.brand.label_domain;
        request.exchange.annotate(
            || format!("authentication.{label}/issued-credential-id"),
            || format!("JTI={}", claims.id),
        );
        let token = accounts.issue(&claims).map_err(|error| ApiError::Internal(error.to_string()))?;
        set(child_mut(&mut value, "status"), "token", token);
        let mut json = Vec::new();
        encode_json(&request.resource.schema, request.resource.type_id, &value, &mut json);
        Ok(Written { json: json.into(), stored: None, written_as: None, outcome: WriteOutcome::Created })
    }

    /// The document in the body, with its defaults and owners.
    fn token_request(
        &self,
        request: Request<'_>,
        options: &Options,
        now: Timestamp,
    ) -> Result<Value, ApiError> {
        let mut value = self.incoming(request, options.field_validation)?;
        self.settle_namespace(request, &mut value)?;
        let (resource, now) = (request.resource, now.seconds_text());
        apply_defaults(&resource.schema, resource.type_id, &mut value);
        resource.strategy.default(&self.context(request, &now), &mut value);
        self.own_document(request, &options.manager, &now, &mut value);
        Ok(value)
    }

    fn validate_token_request(
        &self,
        request: Request<'_>,
        value: &Value,
        now: Timestamp,
    ) -> Result<(), ApiError> {
        let (resource, now) = (request.resource, now.seconds_text());
        let errors = resource.strategy.validate_create(&self.context(request, &now), value);
        if errors.is_empty() {
            return Ok(());
        }
        Err(ApiError::Invalid { subject: Subject::kind(resource, ""), errors })
    }
}

/// Fills in what the server says: whose token it is, and since when.
fn complete(
    value: &mut Value,
    request: Request<'_>,
    account: &ObjectRef,
    settings: &Settings,
    now: Timestamp,
) {
    let metadata = child_mut(value, "metadata");
    set(metadata, "name", account.name.as_str());
    set(metadata, "namespace", request.target.namespace.as_str());
    set(metadata, "uid", account.uid.as_str());
    set(metadata, "creationTimestamp", now.seconds_text());
    let spec = child_mut(value, "spec");
    if spec.items("audiences").is_empty() {
        let own: Vec<Value> = settings.audiences.iter().map(|audience| audience.as_str().into()).collect();
        set(spec, "audiences", own);
    }
    set(value, "status", orch_schema::json!({}));
}

/// `claims` with the token's times: from `now` for as long as the request asks and the server allows.
fn date(
    claims: Claims,
    value: &mut Value,
    request: Request<'_>,
    settings: &Settings,
    now: Timestamp,
) -> Claims {
    let asked = value.at("spec").int("expirationSeconds").unwrap_or_default();
    let asked = u64::try_from(asked).unwrap_or_default();
    let life = asked.min(settings.life_s_max.unwrap_or(u64::MAX));
    if life < asked {
        let warning = format!("requested expiration of {asked} seconds shortened to {life} seconds");
        request.exchange.warn(vec![warning]);
        set(child_mut(value, "spec"), "expirationSeconds", life);
    }
    let issued_at = now.0 / 1_000_000;
    let expires = Timestamp((issued_at + life) * 1_000_000).seconds_text();
    set(child_mut(value, "status"), "expirationTimestamp", expires);
    // few: the audiences of one token and of one server.
    let is_own = claims.audiences.iter().all(|audience| settings.audiences.contains(audience));
    let is_mounted = life == RENEWED_LIFE_S && claims.pod.is_some() && is_own;
    let is_extended = is_mounted && settings.extends_mounted;
    let valid = if is_extended { EXTENDED_LIFE_S } else { life };
    let warn_after = is_extended.then_some(issued_at + life);
    Claims { issued_at, expires_at: issued_at + valid, warn_after, ..claims }
}

/// The objects that a token names, at one revision.
struct Lookup<'a> {
    request: Request<'a>,
    state: &'a State,
}

impl Lookup<'_> {
    /// The account of the path, which the document must name if it names one.
    fn account(&self, value: &Value) -> Result<ObjectRef, ApiError> {
        let metadata = value.at("metadata");
        let (name, asked) = (self.request.target.name.as_str(), metadata.text("name"));
        let subject = || Subject::kind(self.request.resource, name);
        if !asked.is_empty() && asked != name {
            let detail = "must match the service account name if specified";
            let mut errors = FieldErrors::new();
            errors.push(FieldError::invalid_str(Path::new("metadata").child("name"), asked, detail));
            return Err(ApiError::Invalid { subject: subject(), errors });
        }
        let found = self.object("serviceaccounts", &self.request.target.namespace, name)?;
        let (uid, asked) = (found.at("metadata").text("uid"), metadata.text("uid"));
        if !asked.is_empty() && asked != uid {
            let reason = format!(
                "the UID in the token request ({asked}) does not match the UID of the service account ({uid})"
            );
            return Err(ApiError::Conflict { subject: subject(), reason });
        }
        Ok(ObjectRef { name: name.to_owned(), uid: uid.to_owned() })
    }

    /// The claims of a token of `account`, without its times.
    fn claims(&self, account: ObjectRef, value: &Value) -> Result<Claims, ApiError> {
        let (spec, namespace) = (value.at("spec"), &self.request.target.namespace);
        let mut claims = Claims {
            audiences: spec.texts("audiences").into_iter().map(str::to_owned).collect(),
            namespace: namespace.clone(),
            account,
            ..Claims::default()
        };
        let wanted = spec.at("boundObjectRef");
        if !wanted.is_object() {
            return Ok(claims);
        }
        let (group, version) = group_and_version(wanted.text("apiVersion"));
        match (group, wanted.text("kind")) {
            ("", "Pod") => {
                let pod = self.object("pods", namespace, wanted.text("name"))?;
                let spec = pod.at("spec");
                if spec.text("serviceAccountName") != claims.account.name {
                    let name = &claims.account.name;
                    return Err(ApiError::BadRequest(format!(
                        "cannot bind token for serviceaccount {name:?} to pod running with different serviceaccount name."
                    )));
                }
                claims.node = self.node_of(spec.text("nodeName"))?;
                claims.pod = Some(same(&pod, wanted)?);
            }
            ("", "Secret") => {
                claims.secret = Some(same(&self.object("secrets", namespace, wanted.text("name"))?, wanted)?);
            }
            ("", "Node") => {
                claims.node = Some(same(&self.object("nodes", "", wanted.text("name"))?, wanted)?);
            }
            (group, kind) => {
                let message = format!("cannot bind token to object of type {group}/{version}, Kind={kind}");
                return Err(ApiError::BadRequest(message));
            }
        }
        Ok(claims)
    }

    /// The node that a pod runs on; without a uid where it has no object.
    fn node_of(&self, name: &str) -> Result<Option<ObjectRef>, ApiError> {
        if name.is_empty() {
            return Ok(None);
        }
        match self.object("nodes", "", name) {
            Ok(node) => Ok(Some(reference(&node))),
            Err(ApiError::NotFound(_)) => Ok(Some(ObjectRef { name: name.to_owned(), uid: String::new() })),
            Err(error) => Err(error),
        }
    }

    fn object(&self, resource: &str, namespace: &str, name: &str) -> Result<Value, ApiError> {
        if name.is_empty() {
            return Err(ApiError::BadRequest("Name parameter required.".to_owned()));
        }
        let faults = path_segment(name);
        if !faults.is_empty() {
            let (name, faults) = (quoted(name), faults.join(";"));
            return Err(ApiError::BadRequest(format!("Name parameter invalid: {name}: {faults}")));
        }
        let key = Key::new(&resource.into(), namespace, name).ok();
        let object = key.and_then(|key| self.state.object(&key));
        let subject = || Subject { group: String::new(), kind: resource.to_owned(), name: name.to_owned() };
        tree_of(object.ok_or_else(|| ApiError::NotFound(subject()))?)
    }
}

/// Group and version of an `apiVersion`. One that is malformed counts as empty, as in the reference.
fn group_and_version(api_version: &str) -> (&str, &str) {
    match api_version.split_once('/') {
        None => ("", api_version),
        Some((_, version)) if version.contains('/') => ("", ""),
        Some(parts) => parts,
    }
}

/// The reference to `object`, which the request names by `wanted`.
///
/// # Errors
/// `Conflict`: the request names another uid.
fn same(object: &Value, wanted: &Value) -> Result<ObjectRef, ApiError> {
    let (found, asked) = (reference(object), wanted.text("uid"));
    if asked.is_empty() || asked == found.uid {
        return Ok(found);
    }
    let reason = format!(
        "the UID in the bound object reference ({asked}) does not match the UID in record. The object might have been deleted and then recreated"
    );
    let subject = Subject { group: String::new(), kind: wanted.text("kind").to_owned(), name: found.name };
    Err(ApiError::Conflict { subject, reason })
}

fn reference(object: &Value) -> ObjectRef {
    let metadata = object.at("metadata");
    ObjectRef { name: metadata.text("name").to_owned(), uid: metadata.text("uid").to_owned() }
}
