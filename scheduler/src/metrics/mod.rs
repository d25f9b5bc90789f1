//! Metrics under the names people's dashboards use.
