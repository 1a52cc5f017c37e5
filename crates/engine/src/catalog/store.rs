//! Placeholder.
pub(crate) struct CatalogState;
pub(crate) fn load() {}
