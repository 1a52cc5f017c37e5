//! The fields of the rows, in the order of their tokens.

/// Most fields of a schema.
pub(super) const FIELDS_MAX: usize = 12;

/// What values of a field are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Bool,
    Int32,
    UInt32,
    Float64,
    Text,
    Binary,
}

/// Where a row has the value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Behind the presence byte; the bytes are there although the field may be absent.
    Fixed,
    /// Behind the fixed fields, with a length, if the presence byte says so.
    Variable,
    /// Behind all others, with its type and name.
    Sparse,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) place: Place,
    pub(super) kind: Kind,
}

/// A kind of row. The token of a field is one more than its index, as token 0 belongs to none.
#[derive(Debug)]
pub(super) struct Schema {
    pub(super) id: i32,
    /// Fixed fields first, then variable ones, then sparse ones.
    pub(super) fields: &'static [Field],
}

impl Schema {
    /// The names in the token table, token 0 included.
    pub(super) fn names(&self) -> usize {
        self.fields.len() + 1
    }

    /// How many fields have a bit in the presence byte.
    pub(super) fn bits(&self) -> usize {
        self.fields.iter().filter(|field| field.place != Place::Sparse).count()
    }
}

const fn field(name: &'static str, place: Place, kind: Kind) -> Field {
    Field { name, place, kind }
}

pub(super) static OPERATION: Schema = Schema {
    id: 2_145_473_648,
    fields: &[
        field("operationType", Place::Fixed, Kind::Int32),
        field("resourceType", Place::Fixed, Kind::Int32),
        field("partitionKey", Place::Variable, Kind::Text),
        field("effectivePartitionKey", Place::Variable, Kind::Binary),
        field("id", Place::Variable, Kind::Text),
        field("binaryId", Place::Variable, Kind::Binary),
        field("resourceBody", Place::Variable, Kind::Binary),
        field("indexingDirective", Place::Sparse, Kind::Text),
        field("ifMatch", Place::Sparse, Kind::Text),
        field("ifNoneMatch", Place::Sparse, Kind::Text),
        field("timeToLiveInSeconds", Place::Sparse, Kind::Int32),
        field("minimalReturnPreference", Place::Sparse, Kind::Bool),
    ],
};

pub(super) static RESULT: Schema = Schema {
    id: 2_145_473_649,
    fields: &[
        field("statusCode", Place::Fixed, Kind::Int32),
        field("subStatusCode", Place::Fixed, Kind::Int32),
        field("eTag", Place::Variable, Kind::Text),
        field("resourceBody", Place::Variable, Kind::Binary),
        field("retryAfterMilliseconds", Place::Sparse, Kind::UInt32),
        field("requestCharge", Place::Sparse, Kind::Float64),
    ],
};
