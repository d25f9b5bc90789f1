//! The request pipeline below HTTP: plain async functions over the store's handle.
//!
//! Owns the order of stages for reads and writes of every kind. It opens no socket and reads no clock or random number:
//! the store, time and randomness are handed in, so that simulated clients drive the same code.
//!
//!     write: once for a document:   decode -> default -> ownership -> admission mutates -> prepare -> validate
//!                                   -> admission validates -> encode
//!            again for each view:   admission reserves -> propose
//!            -> answer
//!     read:  point in time -> state of this node -> select -> answer
//!
//! Invariant: a handler changes objects by proposed transactions only.

mod admit;
mod allotment;
mod audited;
mod binding;
mod budget_selectors;
mod create;
mod definitions;
mod delete;
mod delete_collection;
mod delete_query;
mod eviction;
mod foreign;
mod get;
mod grace;
mod import;
mod incoming;
mod judged;
mod list;
mod media_type;
mod modified;
mod modify;
mod namespace_label;
mod new_object;
mod options;
mod owners;
mod patch;
mod patch_body;
mod patch_part;
mod patch_refusal;
mod point;
mod propose;
mod review;
mod scale;
pub(crate) mod staged;
mod stored;
#[cfg(test)]
mod tests;
mod token;
mod turns;
mod update;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use orch_raft::{Key, Revision, Store};
use orch_rules::Action;
use orch_rules::kinds::Context;
use orch_rules::selector::{FieldSelector, LabelSelector, SelectableFields};
use orch_schema::budget::Budget;

use crate::admission::{Attributes, Chain, Operation};
use crate::aggregation::{Aggregation, OwnService};
use crate::allocation::Allocator;
use crate::ambient::Ambient;
use crate::authn::User;
use crate::definitions::Definitions;
use crate::error::{ApiError, Subject};
use crate::exchange::Exchange;
use crate::follow::{Builder, Maintained};
use crate::gate::Gate;
use crate::index::Indexes;
use crate::metrics::LoopFigures;
use crate::paging::TokenKey;
use crate::registry::{Handle, Registry, Resource};
use crate::render::SharedEvents;
use crate::request::{Query, Target, Verb, quote_shortened};
use crate::selector::Selector;
use crate::webhook::Webhooks;
use budget_selectors::BudgetSelectors;

pub use crate::answer::{Answer, Effort, ListAnswer, WriteOutcome, Written};
pub(crate) use allotment::parent_service;
pub(crate) use delete_collection::DELETIONS_UNDER_WAY_MAX;
pub use import::RIGHT as IMPORT_RIGHT;
pub(crate) use propose::is_changed_together;
pub(crate) use stored::{OBJECT_BYTES_MAX, tree_of};
pub use turns::Turns;

/// Time for which changes that follow one another closely are gathered before a watch sends them, unless the node is told
/// another: what an informer does not notice, and a two-hundredth of the frames where thousands of changes come in a second.
pub const WATCH_BATCH_DELAY: Duration = Duration::from_millis(5);

/// Feature gates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// `APIListChunking`: `limit` and `continue` are honoured.
    pub list_chunking: bool,
    /// `ServerSideFieldValidation`: unknown and duplicate fields are reported.
    pub field_validation: bool,
}

impl Default for Features {
    fn default() -> Self {
        Features { list_chunking: true, field_validation: true }
    }
}

impl Features {
    /// Names of the gates.
    pub const NAMES: [&str; 2] = ["APIListChunking", "ServerSideFieldValidation"];

    /// The gates by name, and whether each is on.
    pub(crate) fn all(self) -> [(&'static str, bool); 2] {
        let [list_chunking, field_validation] = Self::NAMES;
        [(list_chunking, self.list_chunking), (field_validation, self.field_validation)]
    }

    /// Sets the gate called `name`. `false`: there is no such gate.
    pub fn set(&mut self, name: &str, on: bool) -> bool {
        match name {
            _ if name == Self::NAMES[0] => self.list_chunking = on,
            _ if name == Self::NAMES[1] => self.field_validation = on,
            _ => return false,
        }
        true
    }
}

/// The parts of a server that all requests share.
pub struct Pipeline<S> {
    /// The replicated state.
    pub store: S,
    /// The handle to the served registry. A request keeps the registry that it started with.
    pub served: Handle,
    /// The admission chain.
    pub admission: Chain,
    /// Allots cluster addresses and node ports.
    pub allocator: Allocator,
    /// The cluster's key for continue tokens.
    pub token_key: TokenKey,
    /// Clock and random numbers.
    pub ambient: Arc<dyn Ambient>,
    /// Feature gates.
    pub features: Features,
    /// Indexes of collections, for lists by an equality.
    pub indexes: Indexes,
    /// Decides on the rights of users.
    pub gate: Arc<Gate>,
    /// Queues of requests that conflict over one object.
    pub turns: Turns,
    /// Longest time for which a watch gathers changes after a frame: [`WATCH_BATCH_DELAY`] unless set.
    pub watch_batch_delay: Duration,
    /// Events that are rendered once for all watches.
    pub shared_events: SharedEvents,
    /// The definitions of custom kinds, which the served registry follows.
    pub definitions: Definitions,
    /// The webhooks that objects name. None are called unless they are set ([`Pipeline::call_webhooks`]).
    pub webhooks: Webhooks,
    /// The groups and versions that other servers answer. None is asked unless there is a way to them.
    pub aggregation: Aggregation,
    /// The numbers of the loops' queues and requests, for metrics.
    pub(crate) loops: LoopFigures,
    /// Selectors of disruption budgets, for evictions.
    budget_selectors: Maintained<BudgetSelectors>,
}

/// One request for a served resource, parsed and authorized.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// Verb, from method, path and query.
    pub verb: Verb,
    /// The registry when the request started.
    pub registry: &'a Arc<Registry>,
    /// The parsed path.
    pub target: &'a Target,
    /// The resource that the target names.
    pub resource: &'a Arc<Resource>,
    /// Action on the object: on itself or through a sub-resource.
    pub action: Action,
    /// Query parameters.
    pub query: &'a Query,
    /// Takes the warnings of the response.
    pub exchange: &'a Exchange,
    /// The authenticated user.
    pub user: &'a User,
    /// `User-Agent`.
    pub user_agent: &'a str,
    /// `Content-Type` in lower case, not validated.
    pub content_type: &'a str,
    /// The body; empty where there is none.
    pub body: &'a Bytes,
    /// Memory and steps left to the request, and whether its client still waits.
    pub budget: &'a Budget,
}

impl<S: Store> Pipeline<S> {
    /// A pipeline with the built-in admission plugins, which serves `registry` at first.
    pub fn new(
        store: S,
        registry: Arc<Registry>,
        token_key: TokenKey,
        ambient: Arc<dyn Ambient>,
        features: Features,
        gate: Arc<Gate>,
    ) -> Self {
        let (admission, allocator, turns) = (Chain::builtin(), Allocator::default(), Turns::default());
        let budget_selectors = Maintained::default();
        let definitions = Definitions::new(&registry, Builder::default());
        Pipeline {
            store,
            served: Handle::new(registry),
            definitions,
            admission,
            allocator,
            token_key,
            ambient,
            features,
            indexes: Indexes::default(),
            gate,
            turns,
            watch_batch_delay: WATCH_BATCH_DELAY,
            shared_events: SharedEvents::default(),
            webhooks: Webhooks::none(),
            aggregation: Aggregation::none(Builder::default()),
            loops: LoopFigures::default(),
            budget_selectors,
        }
    }

    /// Has `webhooks` called: those of admission and of conversion. Called once, before definitions are read and after `aggregation` is
    /// set, from which webhooks at the service of this server are answered.
    pub fn call_webhooks(&mut self, webhooks: Webhooks) {
        let (aggregation, ambient) = (self.aggregation.clone(), self.ambient.clone());
        let own = OwnService::new(aggregation, self.store.clone(), self.served.clone(), ambient);
        webhooks.answer_own_service(Arc::new(own));
        self.definitions.call_webhooks(webhooks.clone(), self.ambient.clone());
        self.webhooks = webhooks;
    }

    /// The registry that is served now. A request asks once, when it begins.
    pub fn registry(&self) -> Arc<Registry> {
        self.served.load()
    }

    /// Runs a request of any verb but watch. The objects of the answer are of the request's version, or of the stored form of
    /// a built-in kind, which the renderer converts.
    pub async fn run(&self, request: Request<'_>) -> Result<Answer, ApiError> {
        let answer = self.run_in_state(request).await?;
        self.follow_definition(request, &answer).await;
        staged::shown(request.resource, answer, request).await
    }

    /// [`Pipeline::run`] up to the conversion stage.
    async fn run_in_state(&self, request: Request<'_>) -> Result<Answer, ApiError> {
        self.store.may_serve()?;
        if let (Verb::Create, Some(review)) = (request.verb, request.resource.review) {
            return Box::pin(self.review(request, review)).await.map(Answer::Written);
        }
        if (request.verb, request.action) == (Verb::Create, Action::Token) {
            return Box::pin(self.token(request)).await.map(Answer::Written);
        }
        match (request.verb, request.action) {
            (Verb::Get | Verb::Update | Verb::Patch, Action::Scale) => {
                return Box::pin(self.scale(request)).await.map(Answer::Written);
            }
            (Verb::Create, Action::Eviction) => return Box::pin(self.evict(request)).await.map(Answer::Done),
            (Verb::Create, Action::Binding) => return Box::pin(self.bind(request)).await.map(Answer::Done),
            (Verb::Create, Action::Object) if *request.resource.storage == *binding::BINDINGS => {
                return Box::pin(self.bind(request)).await.map(Answer::Done);
            }
            _ => {}
        }
        if let Some(existing) = import::asked(request)? {
            return Box::pin(self.import(request, existing)).await;
        }
        // A read, whose own future is small, is not held in one as large as a write's.
        match request.verb {
            Verb::Get => self.get(request).await.map(Answer::Stored),
            Verb::List => self.list(request).await.map(Answer::List),
            Verb::Create => Box::pin(self.create(request)).await.map(Answer::Written),
            Verb::Update => Box::pin(self.update(request)).await.map(Answer::Written),
            Verb::Patch => Box::pin(self.patch(request)).await.map(Answer::Written),
            Verb::Delete => Box::pin(self.delete(request)).await,
            Verb::DeleteCollection => {
                let doomed = self.select_for_deletion(request).await?;
                Box::pin(self.delete_collection(request, doomed)).await
            }
            Verb::Watch => Err(ApiError::MethodNotAllowed),
        }
    }

    /// Label and field selectors of the request.
    pub(crate) fn selector(&self, request: Request<'_>) -> Result<Selector, ApiError> {
        let labels = LabelSelector::parse(request.query.text("labelSelector"))
            .map_err(|error| ApiError::BadRequest(error.to_string()))?;
        let (declared, namespaced) = (&request.resource.rules.selectable, request.resource.namespaced);
        let is_defined = request.resource.is_declared();
        let fields = SelectableFields { declared, namespaced, is_defined };
        let text = request.query.text("fieldSelector");
        let fields = match request.resource.direct() {
            Some(direct) => FieldSelector::parse_renamed(text, fields, direct.stored_field),
            None => FieldSelector::parse(text, fields),
        };
        let fields = fields.map_err(|error| ApiError::BadRequest(error.to_string()))?;
        Ok(Selector { labels, fields })
    }

    /// Admission attributes of `request`: the names of its path, no old object, no dry run.
    pub(crate) fn attributes<'a>(&'a self, request: Request<'a>, operation: Operation) -> Attributes<'a> {
        Attributes {
            brand: request.registry.brand,
            operation,
            registry: request.registry,
            resource: request.resource,
            action: request.action,
            path_version: &request.target.version,
            namespace: &request.target.namespace,
            name: &request.target.name,
            path_name: &request.target.name,
            draws_name: false,
            old: None,
            query: request.query,
            deletion: None,
            user: request.user,
            gate: &self.gate,
            exchange: request.exchange,
            budget: request.budget,
            dry_run: false,
            is_removal: false,
            now: self.ambient.now(),
        }
    }

    /// The context for the kind's strategy.
    pub(crate) fn context<'a>(&self, request: Request<'a>, now: &'a str) -> Context<'a> {
        Context {
            brand: request.registry.brand,
            group: &request.target.group,
            version: &request.target.version,
            namespace: &request.target.namespace,
            action: request.action,
            user: request.user.requester(),
            now,
            labels_given: true,
        }
    }
}

impl Request<'_> {
    /// Store key of the object of the request.
    ///
    /// # Errors
    /// `NotFound`: a name that cannot be stored names no object.
    pub(crate) fn key(&self) -> Result<Key, ApiError> {
        Key::new(&self.resource.storage, &self.target.namespace, &self.target.name)
            .map_err(|_| ApiError::NotFound(self.subject()))
    }

    /// Store key of the object that the path names, also where a sub-resource has documents of its own. `None`: there
    /// can be no such object.
    pub(crate) fn stored_key(&self) -> Option<Key> {
        let target = self.target;
        let resource = self.registry.find(&target.group, &target.version, &target.resource)?;
        Key::new(&resource.storage, &target.namespace, &target.name).ok()
    }

    /// The subject of errors about query options: `ListOptions.meta.orch.io`.
    pub(crate) fn options_subject(&self, kind: &str) -> Subject {
        Subject { group: self.registry.brand.group("meta"), kind: kind.to_owned(), name: String::new() }
    }

    /// The object as most errors name it: resource and name.
    pub(crate) fn subject(&self) -> Subject {
        Subject::resource(self.resource, &self.target.name)
    }
}

/// A resourceVersion parameter: absent, `0`, or a revision.
pub(crate) fn revision_parameter(text: &str) -> Result<Option<Revision>, ApiError> {
    if text.is_empty() {
        return Ok(None);
    }
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| digits).map(|number| Some(Revision(number))).ok_or_else(|| {
        let reason = if digits { "value out of range" } else { "invalid syntax" };
        let shown = quote_shortened(text);
        ApiError::BadRequest(format!("Invalid value: {shown}: strconv.ParseUint: parsing {shown}: {reason}"))
    })
}
