//! Field ownership: managed fields and server-side apply.
