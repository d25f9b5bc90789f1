//! Texts and exit codes of the command.
