//! Who is asking: bearer tokens, client certificates, anonymous.
