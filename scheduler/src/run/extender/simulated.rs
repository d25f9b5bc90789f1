//! An extender in a simulation.
//!
//! Owns its connection and its way to wait. A simulated plan is made inside of the runtime and cannot wait: an answer is there at
//! once or never.

use std::future::Future;

use futures::FutureExt;
use orch_proto::Brand;
use tokio::time::Instant;

use super::{Extender, ExtenderConfig, ExtenderError, connection};
use crate::client::{Config, ConfigError, Simulated};

impl Extender {
    /// The extender of `config` over `network`; without one, over sockets.
    ///
    /// # Errors
    /// Those of [`Extender::new`].
    pub(in crate::run) fn over(
        network: Option<Simulated>,
        config: ExtenderConfig,
        brand: &'static Brand,
    ) -> Result<Self, ConfigError> {
        Self::connected(Config { simulated: network, ..connection(&config)? }, config, brand)
    }

    /// The answer of a simulated extender.
    pub(super) fn at_once<T>(
        &self,
        asking: impl Future<Output = Result<T, ExtenderError>>,
    ) -> Result<T, ExtenderError> {
        self.unless_silent(asking).now_or_never().unwrap_or_else(|| {
            self.silence.failed(self.config.timeout, Instant::now());
            Err(ExtenderError::Late { url: self.config.url_prefix.clone() })
        })
    }
}
