//! What a script can reach: one collection, in one transaction.

/// What a script can do to the items of its logical partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostOperation {
    /// Adds an item.
    Create,
    /// Adds or replaces an item.
    Upsert,
    /// Replaces an item.
    Replace,
    /// Reads an item.
    Read,
    /// Removes an item.
    Delete,
    /// Reads a page of items.
    List,
    /// Reads a page of a query.
    Query,
}

impl HostOperation {
    pub(crate) fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "create" => HostOperation::Create,
            "upsert" => HostOperation::Upsert,
            "replace" => HostOperation::Replace,
            "read" => HostOperation::Read,
            "delete" => HostOperation::Delete,
            "list" => HostOperation::List,
            "query" => HostOperation::Query,
            _ => return None,
        })
    }
}

/// What a script can ask about geometries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpatialFunction {
    /// How far two are apart.
    Distance,
    /// Whether one lies within another.
    Within,
    /// Whether two have a point in common.
    Intersects,
    /// Whether something is one.
    IsValid,
    /// Whether something is one, and why not.
    IsValidDetailed,
}

impl SpatialFunction {
    pub(crate) fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "distance" => SpatialFunction::Distance,
            "within" => SpatialFunction::Within,
            "intersects" => SpatialFunction::Intersects,
            "isValid" => SpatialFunction::IsValid,
            "isValidDetailed" => SpatialFunction::IsValidDetailed,
            _ => return None,
        })
    }
}

/// Something a script asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostCall {
    /// What to do.
    pub operation: HostOperation,
    /// The collection or document that the script names.
    pub link: String,
    /// JSON text of an item or of a query.
    pub body: Option<String>,
    /// JSON text of an object.
    pub options: String,
}

/// What became of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostReply {
    /// The status that the API has for it.
    pub status: u16,
    /// JSON text of the item or of an array of rows.
    pub body: Option<String>,
    /// Where the next page begins.
    pub continuation: Option<String>,
    /// Whether the script has the item already.
    pub not_modified: bool,
}

/// Why it could not be done, as the script is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostError {
    /// The status that the API has for it.
    pub number: u16,
    /// A text for people.
    pub message: String,
}

/// The collection a script works in.
pub trait Host: Send + 'static {
    /// The collection's link by resource ids and by names.
    fn links(&self) -> [String; 2];
    /// About how much the collection holds.
    fn size_mb(&self) -> u64;
    /// Whether there is anything left to pay for more.
    fn accepts(&self) -> bool;
    /// Answers a question about geometries, which come as a JSON array, with JSON text; `None` if
    /// there is no answer.
    fn spatial(&self, question: SpatialFunction, args: &str) -> Option<String>;
    /// Does what a script asks for.
    fn call(&mut self, call: HostCall) -> Result<HostReply, HostError>;
}
