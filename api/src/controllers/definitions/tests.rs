//! Tests of the loop of definitions over one state machine in memory.
