//! The built program: its command lines and its HTTPS port, against recorded ones.

#![allow(clippy::unwrap_used, reason = "what the tests share is part of the tests")]
#![expect(clippy::disallowed_methods, reason = "tests of a program wait for real time")]

mod access;
mod command_line;
mod fake_api;
mod field_table;
mod flag_table;
mod flags;
mod https;
mod process;
mod serving;
mod tls;
