//! The command line and the configuration file.
