//! Paths of sub-resources that another server answers: logs, streams and proxies.
//!
//! Owns their operations: their answers are text or bytes, and options stand in the query.

use orch_rules::Action;
use orch_schema::Subresource;

use super::names::{capitalized, group_version_kind};
use super::operation::{Answered, Operation};
use super::parameters::{CONTAINER, EXEC, LOG, NAME, PORTS, PRETTY, Parameter, STREAMS, SUBPATH};
use super::paths::{Maker, Path, Reach};

/// Media types of a log.
const OF_LOG: [&str; 3] = ["text/plain", "application/json", "application/yaml"];

/// Media types of what a backend answers.
const OF_BACKEND: [&str; 1] = ["*/*"];

/// Methods of streams.
const STREAM_METHODS: [&str; 2] = ["get", "post"];

/// Methods of proxies.
const PROXY_METHODS: [&str; 7] = ["get", "put", "post", "delete", "options", "head", "patch"];

impl Maker<'_> {
    /// The paths of the sub-resource `part`, which `action` passes on.
    pub(super) fn passed_on(&self, reach: Reach, part: &Subresource, action: Action) -> Vec<Path> {
        let options: &[&[Parameter]] = match action {
            Action::Log => &[&[CONTAINER], &LOG, &[PRETTY]],
            Action::Exec => &[&[CONTAINER], &STREAMS, &EXEC],
            Action::Attach => &[&[CONTAINER], &STREAMS],
            Action::PortForward => &[&PORTS],
            _ => &[],
        };
        let parameters = self.shared(reach, &[&[NAME], options.concat().as_slice()].concat());
        let path = self.path(reach, &format!("/{{name}}/{}", part.name));
        if action == Action::Log {
            let id = self.id_of("read", "", reach, &capitalized(&part.name));
            let own = self.operation("get", "get", id, &[]);
            let description = format!("read {} of the specified {}", part.name, self.resource.kind);
            let operations = vec![Operation { description, answer: Answered::Text(&OF_LOG), ..own }];
            return vec![Path { path, parameters, operations }];
        }
        let methods: &[&'static str] = if action == Action::Proxy { &PROXY_METHODS } else { &STREAM_METHODS };
        let operations =
            |end: &'static str| methods.iter().map(move |method| self.connection(reach, part, method, end));
        let plain =
            Path { path: path.clone(), parameters: parameters.clone(), operations: operations("").collect() };
        if action != Action::Proxy {
            return vec![plain];
        }
        let parameters = [parameters, vec![SUBPATH]].concat();
        let operations = operations("WithPath").collect();
        vec![plain, Path { path: format!("{path}/{{path}}"), parameters, operations }]
    }

    /// A method that is passed on; `end` is the end of its id.
    fn connection(&self, reach: Reach, part: &Subresource, method: &'static str, end: &str) -> Operation {
        let id =
            self.id_of("connect", &capitalized(method), reach, &format!("{}{end}", capitalized(&part.name)));
        let own = self.operation(method, "connect", id, &[]);
        let upper = method.to_ascii_uppercase();
        let description = format!("connect {upper} requests to {} of {}", part.name, self.resource.kind);
        let kind = group_version_kind(&part.group, &part.version, &part.kind);
        Operation { description, kind, answer: Answered::Text(&OF_BACKEND), ..own }
    }
}
