//! Why an entity is not taken.

/// What is wrong with an entity or its keys; all of these are answered with 400.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The body is not JSON, or not an object.
    Body,
    /// A value does not fit its type.
    Value,
    /// Some input is not as it must be.
    Input,
    /// A value or a key is not as it must be, in Cosmos DB's words.
    InputValue,
    /// A key is missing.
    KeyMissing,
    /// A key is empty where it must not be.
    KeyEmpty,
    /// A key has a character that keys can't have.
    KeyCharacter {
        /// `PartitionKey` or `RowKey`.
        name: &'static str,
        /// The key.
        value: String,
    },
    /// A key is too long.
    KeyTooLong,
    /// A property is named twice.
    Duplicate,
    /// A name that no property can have.
    Name {
        /// The name, where the flavour tells it.
        shown: Option<String>,
    },
    /// A name that is too long.
    NameTooLong,
    /// A value that is too large.
    ValueTooLarge,
    /// Too many properties.
    TooManyProperties,
    /// All properties together are too large.
    EntityTooLarge,
    /// An etag that is none.
    Etag(String),
}

impl Refusal {
    /// The service's code.
    pub fn code(&self) -> &'static str {
        match self {
            Refusal::Body | Refusal::Value | Refusal::Input | Refusal::InputValue => "InvalidInput",
            Refusal::Etag(_) | Refusal::KeyEmpty => "InvalidInput",
            Refusal::KeyMissing => "PropertiesNeedValue",
            Refusal::KeyCharacter { .. } => "OutOfRangeInput",
            Refusal::KeyTooLong => "KeyValueTooLarge",
            Refusal::Duplicate => "DuplicatePropertiesSpecified",
            Refusal::Name { .. } => "PropertyNameInvalid",
            Refusal::NameTooLong => "PropertyNameTooLong",
            Refusal::ValueTooLarge => "PropertyValueTooLarge",
            Refusal::TooManyProperties => "TooManyProperties",
            Refusal::EntityTooLarge => "EntityTooLarge",
        }
    }

    /// The service's words.
    pub fn message(&self) -> String {
        let text = match self {
            Refusal::Body | Refusal::Value => "An error occurred while processing this request.",
            Refusal::Input => "One of the request inputs is not valid.",
            Refusal::InputValue => "One of the input values is invalid.",
            Refusal::KeyMissing => "The values are not specified for all properties in the entity.",
            Refusal::KeyEmpty => "PartitionKey/RowKey cannot be empty.",
            Refusal::KeyCharacter { name, value } => {
                return format!("The '{name}' parameter of value '{value}' is out of range.");
            }
            Refusal::KeyTooLong => "The key value exceeds the maximum allowed size.",
            Refusal::Duplicate => "A property is specified more than one time.",
            Refusal::Name { shown: Some(name) } => {
                return format!("The property name '{name}' is invalid.");
            }
            Refusal::Name { shown: None } => "The property name is invalid.",
            Refusal::NameTooLong => "The property name exceeds the maximum allowed length.",
            Refusal::ValueTooLarge => {
                "The property value exceeds the maximum allowed size (64KB). If the property \
                 value is a string, it is UTF-16 encoded and the maximum number of characters \
                 should be 32K or less."
            }
            Refusal::TooManyProperties => {
                "The entity contains more properties than allowed. Each entity can include up to \
                 252 properties to store data. Each entity also has 3 system properties."
            }
            Refusal::EntityTooLarge => "The entity is larger than the maximum allowed size (1MB).",
            Refusal::Etag(etag) => {
                return format!(
                    "The etag value '{etag}' specified in one of the request headers is not \
                     valid. Please make sure only one etag value is specified and is valid."
                );
            }
        };
        text.to_owned()
    }
}
