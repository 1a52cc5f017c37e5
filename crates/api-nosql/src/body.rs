//! Reading request bodies, bounded in size and time.
