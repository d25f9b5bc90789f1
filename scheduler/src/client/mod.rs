//! The API server as seen from here: client configuration, requests, lists and watches.
