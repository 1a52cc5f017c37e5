//! Containers: create, read, replace, delete, list, query.
