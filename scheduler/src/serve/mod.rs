//! The HTTPS server: health, metrics, configuration.
