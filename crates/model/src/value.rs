//! One tree that can hold every value of the four APIs.
//!
//! NoSQL JSON uses the plain subset (null, bool, int64, double, string, array, object); BSON and
//! EDM use the typed values. SQL's *undefined* is never a `Value`: it is the absence of one, so
//! functions that may yield it return `Option<Value>`. `Value::Undefined` is the BSON type of that
//! name, which a document can hold.

/// A date with the precision of both formats: EDM counts 100-nanosecond ticks, BSON milliseconds.
/// Splitting the two keeps the full BSON range, which ticks alone would overflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Date {
    /// Milliseconds since the Unix epoch, rounded down.
    pub millis: i64,
    /// 100-nanosecond ticks within the millisecond, 0..10,000.
    pub ticks: u16,
}

/// Any value an item can hold.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// JSON null.
    Null,
    /// A boolean.
    Bool(bool),
    /// BSON or EDM int32.
    Int32(i32),
    /// An exact 64-bit integer; every JSON integer that fits is one.
    Int64(i64),
    /// An IEEE double.
    Double(f64),
    /// IEEE decimal128 in BSON's little-endian byte order.
    Decimal128([u8; 16]),
    /// UTF-8 text.
    String(String),
    /// Bytes with their BSON subtype (0 = generic, also EDM binary).
    Binary {
        /// BSON binary subtype.
        subtype: u8,
        /// The bytes themselves.
        bytes: Vec<u8>,
    },
    /// An EDM guid, in textual (big-endian) byte order.
    Guid([u8; 16]),
    /// A point in time.
    Date(Date),
    /// A BSON object id.
    ObjectId([u8; 12]),
    /// A BSON internal timestamp.
    Timestamp {
        /// Seconds since the Unix epoch.
        seconds: u32,
        /// Ordinal within the second.
        increment: u32,
    },
    /// A BSON regular expression.
    Regex {
        /// The pattern.
        pattern: String,
        /// Option letters, in the order in which they were written.
        options: String,
    },
    /// BSON JavaScript code, with its scope when it has one.
    JavaScript {
        /// Source text.
        code: String,
        /// Scope document.
        scope: Option<Box<Object>>,
    },
    /// A BSON symbol.
    Symbol(String),
    /// BSON's deprecated *undefined*, a value that an item holds. Where there is no value at all
    /// functions return `None`; both sort alike.
    Undefined,
    /// BSON's deprecated pointer to a document of another collection.
    DbPointer {
        /// The collection that the pointer names.
        namespace: String,
        /// The document's object id.
        id: [u8; 12],
    },
    /// An array.
    Array(Vec<Value>),
    /// An object; field order is kept.
    Object(Object),
    /// BSON MinKey: sorts before everything.
    MinKey,
    /// BSON MaxKey: sorts after everything.
    MaxKey,
}

/// Named fields in the order they were written. Names are unique: `insert` replaces.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Object {
    fields: Vec<(String, Value)>,
}

impl Object {
    /// An object without fields.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty object with room for `n` fields.
    pub fn with_capacity(n: usize) -> Self {
        Self { fields: Vec::with_capacity(n) }
    }

    /// The value of field `name`.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.fields.iter().find(|(n, _)| n == name).map(|(_, v)| v)
    }

    /// The value of field `name`, to change in place.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut Value> {
        self.fields.iter_mut().find(|(n, _)| n == name).map(|(_, v)| v)
    }

    /// Sets field `name`, keeping its position if it exists, else appending it. Returns the old
    /// value.
    pub fn insert(&mut self, name: impl Into<String>, value: Value) -> Option<Value> {
        let name = name.into();
        match self.get_mut(&name) {
            Some(slot) => Some(std::mem::replace(slot, value)),
            None => {
                self.fields.push((name, value));
                None
            }
        }
    }

    /// Appends a field that the caller knows to be absent, without the search of `insert`.
    pub fn push_unique(&mut self, name: String, value: Value) {
        // The search is skipped in large objects, which it would make quadratic.
        let is_large = self.fields.len() > LINEAR_SEARCH_MAX;
        debug_assert!(is_large || self.get(&name).is_none(), "field {name} is already present");
        self.fields.push((name, value));
    }

    /// Replaces the field at `at`, or appends after the last. The caller ensures that no field
    /// before it has its name; the fields after it are invalid until they are replaced too.
    pub(crate) fn put(&mut self, at: usize, name: &str, value: Value) {
        match self.fields.get_mut(at) {
            Some((old, slot)) => {
                if old != name {
                    name.clone_into(old);
                }
                *slot = value;
            }
            None => self.fields.push((name.to_owned(), value)),
        }
    }

    /// Keeps the first `count` fields.
    pub(crate) fn truncate(&mut self, count: usize) {
        self.fields.truncate(count);
    }

    /// Takes all fields at once. Of repeated names the last wins, at the position of the first; the
    /// flag says whether there were any. Cheaper than inserting one by one, and never quadratic, so
    /// it is the way to build an object from a client's input.
    pub fn from_fields(mut fields: Vec<(String, Value)>) -> (Self, bool) {
        let has_repeated_names = has_repeated_names(&fields);
        if has_repeated_names {
            keep_last_values(&mut fields);
        }
        (Self { fields }, has_repeated_names)
    }

    /// As [`Object::from_fields`], but of repeated names the first wins, as in BSON.
    pub fn from_fields_keeping_first(mut fields: Vec<(String, Value)>) -> Self {
        if has_repeated_names(&fields) {
            keep_first_values(&mut fields);
        }
        Self { fields }
    }

    /// Removes field `name`; the order of the others is kept.
    pub fn remove(&mut self, name: &str) -> Option<Value> {
        let at = self.fields.iter().position(|(n, _)| n == name)?;
        Some(self.fields.remove(at).1)
    }

    /// Fields in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value)> + '_ {
        self.fields.iter().map(|(n, v)| (n.as_str(), v))
    }

    /// Number of fields.
    pub fn len(&self) -> usize {
        self.fields.len()
    }

    /// Whether there are no fields.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }
}

/// Larger objects find repeated names by sorting, smaller ones by comparing pairs. Sorting rather
/// than hashing, so that no choice of names makes it slow.
const LINEAR_SEARCH_MAX: usize = 24;

fn has_repeated_names(fields: &[(String, Value)]) -> bool {
    if fields.len() <= LINEAR_SEARCH_MAX {
        let is_repeated = |at: usize| fields[..at].iter().any(|(name, _)| *name == fields[at].0);
        return (1..fields.len()).any(is_repeated);
    }
    let mut names: Vec<&str> = fields.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    names.windows(2).any(|pair| pair[0] == pair[1])
}

/// Keeps the last value of every repeated name, at the position of the first.
fn keep_last_values(fields: &mut Vec<(String, Value)>) {
    let repeated = positions_of_repeated(fields);
    for run in &repeated {
        if let [first, .., last] = **run {
            fields[first].1 = std::mem::replace(&mut fields[last].1, Value::Null);
        }
    }
    keep_first_of_each(&repeated, fields);
}

/// Keeps the first value of every repeated name.
fn keep_first_values(fields: &mut Vec<(String, Value)>) {
    let repeated = positions_of_repeated(fields);
    keep_first_of_each(&repeated, fields);
}

/// For every repeated name the positions of its fields in order.
fn positions_of_repeated(fields: &[(String, Value)]) -> Vec<Vec<usize>> {
    let mut by_name: Vec<usize> = (0..fields.len()).collect();
    // The sort is stable, so each run of equal names is in order of appearance.
    by_name.sort_by(|a, b| fields[*a].0.cmp(&fields[*b].0));
    let runs = by_name.chunk_by(|a, b| fields[*a].0 == fields[*b].0);
    runs.filter(|run| run.len() > 1).map(<[usize]>::to_vec).collect()
}

fn keep_first_of_each(repeated: &[Vec<usize>], fields: &mut Vec<(String, Value)>) {
    let mut is_kept = vec![true; fields.len()];
    for later in repeated.iter().flat_map(|run| run.iter().skip(1)) {
        is_kept[*later] = false;
    }
    let mut is_kept = is_kept.into_iter();
    fields.retain(|_| is_kept.next().unwrap_or(true));
}

impl FromIterator<(String, Value)> for Object {
    fn from_iter<T: IntoIterator<Item = (String, Value)>>(iter: T) -> Self {
        Object::from_fields(iter.into_iter().collect()).0
    }
}

impl IntoIterator for Object {
    type Item = (String, Value);
    type IntoIter = std::vec::IntoIter<(String, Value)>;

    fn into_iter(self) -> Self::IntoIter {
        self.fields.into_iter()
    }
}

impl Value {
    /// The object inside, if this is one.
    pub fn as_object(&self) -> Option<&Object> {
        if let Value::Object(o) = self { Some(o) } else { None }
    }

    /// The object inside, to change, if this is one.
    pub fn as_object_mut(&mut self) -> Option<&mut Object> {
        if let Value::Object(o) = self { Some(o) } else { None }
    }

    /// The elements, if this is an array.
    pub fn as_array(&self) -> Option<&[Value]> {
        if let Value::Array(a) = self { Some(a) } else { None }
    }

    /// The text, if this is a string.
    pub fn as_str(&self) -> Option<&str> {
        if let Value::String(s) = self { Some(s) } else { None }
    }

    /// The exact integer, if this is an int32, an int64 or a double without a fraction in range.
    pub fn as_i64(&self) -> Option<i64> {
        crate::number::as_i64(self)
    }

    /// The nearest double, if this is a plain number (int32, int64 or double).
    pub fn as_f64(&self) -> Option<f64> {
        crate::number::as_f64(self)
    }

    /// The boolean, if this is one.
    pub fn as_bool(&self) -> Option<bool> {
        if let Value::Bool(b) = self { Some(*b) } else { None }
    }

    /// Field `name`, if this is an object that has it.
    pub fn field(&self, name: &str) -> Option<&Value> {
        self.as_object()?.get(name)
    }
}

impl From<bool> for Value {
    fn from(b: bool) -> Self {
        Value::Bool(b)
    }
}
impl From<i64> for Value {
    fn from(n: i64) -> Self {
        Value::Int64(n)
    }
}
impl From<f64> for Value {
    fn from(n: f64) -> Self {
        Value::Double(n)
    }
}
impl From<&str> for Value {
    fn from(s: &str) -> Self {
        Value::String(s.to_owned())
    }
}
impl From<String> for Value {
    fn from(s: String) -> Self {
        Value::String(s)
    }
}
impl From<Object> for Value {
    fn from(o: Object) -> Self {
        Value::Object(o)
    }
}
impl From<Vec<Value>> for Value {
    fn from(a: Vec<Value>) -> Self {
        Value::Array(a)
    }
}

#[cfg(test)]
pub(crate) mod tests;
