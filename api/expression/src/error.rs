//! Faults of compiling and of evaluating, with the reference's texts.

use std::fmt::Write;

use crate::library::access_checks::Question;

/// Reasons why an expression is refused, each with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompileError {
    faults: Vec<Fault>,
}

/// One reason.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Fault {
    /// From one.
    line: usize,
    /// Characters before it in its line.
    column: usize,
    message: String,
    /// The line.
    snippet: String,
}

/// Faults that are reported of one expression. The reference's parser has the same bound.
const FAULTS_MAX: usize = 100;
/// Bytes of all texts of faults together: a line is repeated with each fault in it, and texts go into the objects' errors.
const FAULT_BYTES_MAX: usize = 64 << 10;

impl CompileError {
    /// A fault without a place.
    pub(crate) fn plain(message: impl Into<String>) -> CompileError {
        let fault = Fault { line: 0, column: 0, message: message.into(), snippet: String::new() };
        CompileError { faults: vec![fault] }
    }

    /// The texts, in the order of their places: bytes before them.
    pub(crate) fn at_places(source: &str, mut messages: Vec<(usize, String)>) -> CompileError {
        messages.sort_by_key(|(offset, _)| *offset);
        messages.truncate(FAULTS_MAX);
        let lines: Vec<&str> = source.split('\n').collect();
        let mut faults = Vec::new();
        let mut bytes = 0;
        // Lines and places are both in order: one pass finds the line of each place.
        let (mut line, mut start) = (0, 0);
        for (offset, message) in messages {
            while line + 1 < lines.len() && offset > start + lines[line].len() {
                start += lines[line].len() + 1;
                line += 1;
            }
            let snippet = lines.get(line).copied().unwrap_or_default().to_owned();
            let before = offset.saturating_sub(start);
            let column = snippet.char_indices().take_while(|(at, _)| *at < before).count();
            bytes += message.len() + 2 * snippet.len();
            if !faults.is_empty() && bytes > FAULT_BYTES_MAX {
                break;
            }
            faults.push(Fault { line: line + 1, column, message, snippet });
        }
        CompileError { faults }
    }

    /// Faults whose lines and columns (from one) are known.
    pub(crate) fn at_lines(source: &str, messages: Vec<(usize, usize, String)>) -> CompileError {
        let lines: Vec<&str> = source.split('\n').collect();
        let fault = |(line, column, message): (usize, usize, String)| {
            let snippet = lines.get(line.saturating_sub(1)).copied().unwrap_or_default().to_owned();
            Fault { line, column: column.saturating_sub(1), message, snippet }
        };
        CompileError { faults: messages.into_iter().take(FAULTS_MAX).map(fault).collect() }
    }
}

impl std::fmt::Display for CompileError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (at, fault) in self.faults.iter().enumerate() {
            if at > 0 {
                f.write_char('\n')?;
            }
            if fault.line == 0 {
                f.write_str(&fault.message)?;
                continue;
            }
            write!(f, "ERROR: <input>:{}:{}: {}", fault.line, fault.column + 1, fault.message)?;
            write!(f, "\n | {}\n | {}^", fault.snippet.replace('\t', " "), ".".repeat(fault.column))?;
        }
        Ok(())
    }
}

impl std::error::Error for CompileError {}

/// The reason why an evaluation has no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvaluationError {
    /// A member or an entry is not there.
    #[error("no such key: {0}")]
    NoSuchKey(String),
    /// A variable has no value in this evaluation.
    #[error("no such attribute(s): {0}")]
    NoSuchAttribute(String),
    /// A function or operator does not take values of these types.
    #[error("no such overload{0}")]
    NoSuchOverload(String),
    /// The evaluation costs more than one may.
    #[error("operation cancelled: actual cost limit exceeded")]
    Cost,
    /// A question about rights has no answer yet: with it the evaluation has to be made again.
    #[error("a question about rights is not answered yet")]
    Undecided(Box<Question>),
    /// Another fault, which may repeat values.
    #[error("{0}")]
    Other(String),
}

impl EvaluationError {
    /// Whether the evaluation has to be made again with an answer.
    pub(crate) fn is_undecided(&self) -> bool {
        matches!(self, EvaluationError::Undecided(_))
    }

    /// Whether no other part of the expression can make up for the fault.
    pub(crate) fn is_final(&self) -> bool {
        matches!(self, EvaluationError::Cost | EvaluationError::Undecided(_))
    }
}

/// A fault on its way through an evaluation.
pub(crate) type Failure = Box<EvaluationError>;

/// A fault with a text of its own.
pub(crate) fn fault(message: impl Into<String>) -> Failure {
    Box::new(EvaluationError::Other(message.into()))
}

/// The fault of values that a function does not take.
pub(crate) fn no_overload() -> Failure {
    Box::new(EvaluationError::NoSuchOverload(String::new()))
}
