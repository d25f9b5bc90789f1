//! The executor: takes pods from the queue, assumes, reserves and binds.
