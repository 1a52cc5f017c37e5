//! Tests of stages over documents in memory.
