//! The queue: active, backoff and unschedulable pods.
