//! Why an entity is refused.

/// An error in an entity or its keys; all of these are answered with 400.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntityError {
    /// The body is not JSON, or not an object.
    Body,
    /// A value does not fit its type.
    Value,
    /// Some input is invalid.
    Input,
    /// A value or a key is invalid, in Cosmos DB's words.
    InputValue,
    /// A key is missing.
    KeyMissing,
    /// A key is empty although it must not be.
    KeyEmpty,
    /// A key has a character that is not allowed in keys.
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
    /// An invalid name of a property.
    Name {
        /// The name, if the flavour reports it.
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
    /// An invalid etag.
    Etag(String),
}

impl EntityError {
    /// The service's error code.
    pub fn code(&self) -> &'static str {
        match self {
            EntityError::Body
            | EntityError::Value
            | EntityError::Input
            | EntityError::InputValue => "InvalidInput",
            EntityError::Etag(_) | EntityError::KeyEmpty => "InvalidInput",
            EntityError::KeyMissing => "PropertiesNeedValue",
            EntityError::KeyCharacter { .. } => "OutOfRangeInput",
            EntityError::KeyTooLong => "KeyValueTooLarge",
            EntityError::Duplicate => "DuplicatePropertiesSpecified",
            EntityError::Name { .. } => "PropertyNameInvalid",
            EntityError::NameTooLong => "PropertyNameTooLong",
            EntityError::ValueTooLarge => "PropertyValueTooLarge",
            EntityError::TooManyProperties => "TooManyProperties",
            EntityError::EntityTooLarge => "EntityTooLarge",
        }
    }

    /// The service's error message.
    pub fn message(&self) -> String {
        let text = match self {
            EntityError::Body | EntityError::Value => {
                "An error occurred while processing this request."
            }
            EntityError::Input => "One of the request inputs is not valid.",
            EntityError::InputValue => "One of the input values is invalid.",
            EntityError::KeyMissing => {
                "The values are not specified for all properties in the entity."
            }
            EntityError::KeyEmpty => "PartitionKey/RowKey cannot be empty.",
            EntityError::KeyCharacter { name, value } => {
                return format!("The '{name}' parameter of value '{value}' is out of range.");
            }
            EntityError::KeyTooLong => "The key value exceeds the maximum allowed size.",
            EntityError::Duplicate => "A property is specified more than one time.",
            EntityError::Name { shown: Some(name) } => {
                return format!("The property name '{name}' is invalid.");
            }
            EntityError::Name { shown: None } => "The property name is invalid.",
            EntityError::NameTooLong => "The property name exceeds the maximum allowed length.",
            EntityError::ValueTooLarge => {
                "The property value exceeds the maximum allowed size (64KB). If the property \
                 value is a string, it is UTF-16 encoded and the maximum number of characters \
                 should be 32K or less."
            }
            EntityError::TooManyProperties => {
                "The entity contains more properties than allowed. Each entity can include up to \
                 252 properties to store data. Each entity also has 3 system properties."
            }
            EntityError::EntityTooLarge => {
                "The entity is larger than the maximum allowed size (1MB)."
            }
            EntityError::Etag(etag) => {
                return format!(
                    "The etag value '{etag}' specified in one of the request headers is not \
                     valid. Please make sure only one etag value is specified and is valid."
                );
            }
        };
        text.to_owned()
    }
}
