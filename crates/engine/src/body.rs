//! The form in which a container keeps its items.

/// The form of the bodies of a container's items, fixed when the container is created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BodyFormat {
    /// JSON text.
    #[default]
    Json,
    /// BSON documents.
    Bson,
}
