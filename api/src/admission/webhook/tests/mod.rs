//! Webhooks: documents, answers, and the rules about dead ones.

mod answers;
mod reviews;
