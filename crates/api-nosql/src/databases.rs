//! Databases: create, read, delete, list, query.
