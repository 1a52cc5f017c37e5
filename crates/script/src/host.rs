//! The interface of a script to the server: one collection, in one transaction.

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

/// Spatial functions that a script can call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpatialFunction {
    /// The distance of two geometries.
    Distance,
    /// Whether one geometry lies within another.
    Within,
    /// Whether two geometries have a point in common.
    Intersects,
    /// Whether a value is a valid geometry.
    IsValid,
    /// Whether a value is a valid geometry, and if not, why.
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

/// A call from a script to the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostCall {
    /// The operation.
    pub operation: HostOperation,
    /// The link of a collection or document, as given by the script.
    pub link: String,
    /// JSON text of an item or of a query.
    pub body: Option<String>,
    /// JSON text of an object.
    pub options: String,
}

/// The result of a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostReply {
    /// The status code of the API for this result.
    pub status: u16,
    /// JSON text of the item or of an array of rows.
    pub body: Option<String>,
    /// The continuation of the next page.
    pub continuation: Option<String>,
    /// Whether the script has the current item already.
    pub not_modified: bool,
}

/// Why a call failed, as reported to the script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostError {
    /// The status code of the API for this error.
    pub number: u16,
    /// A readable message.
    pub message: String,
}

/// The collection a script works in.
pub trait Host: Send + 'static {
    /// The collection's link by resource ids and by names.
    fn links(&self) -> [String; 2];
    /// The approximate size of the collection in MB.
    fn size_mb(&self) -> u64;
    /// Whether the budget allows more calls.
    fn accepts(&self) -> bool;
    /// Evaluates a spatial function on a JSON array of arguments and returns JSON text; `None` if
    /// there is no result.
    fn spatial(&self, question: SpatialFunction, args: &str) -> Option<String>;
    /// Carries out a call of the script.
    fn call(&mut self, call: HostCall) -> Result<HostReply, HostError>;
}
