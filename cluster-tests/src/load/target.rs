//! A target of the load: one server and the credentials for it.

use crate::client::{Access, Endpoint};

/// One server as the load generator sees it.
#[derive(Clone)]
pub(super) struct Target {
    pub(super) endpoint: Endpoint,
    pub(super) access: Access,
}

impl Target {
    /// The part of every HTTP/1.1 request after method and path, up to the content headers.
    pub(super) fn preamble(&self) -> String {
        let mut text = format!(
            " HTTP/1.1\r\nHost: {}\r\nUser-Agent: bench\r\nAccept: application/json\r\n",
            self.endpoint.authority()
        );
        if let Some(authorization) = self.access.authorization() {
            text.push_str(&format!("Authorization: {authorization}\r\n"));
        }
        text
    }
}
