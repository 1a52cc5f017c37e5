//! The setting that says where clients in Direct mode are served.

use serde::Deserialize;

/// Whether and where clients in Direct mode are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Written")]
pub(crate) enum DirectMode {
    /// On the ports of the NoSQL API.
    Auto,
    /// Nowhere.
    Off,
    /// On this port alone.
    Port(u16),
}

/// The setting as it is written: in a file, a port may be a number or a text.
#[derive(Deserialize)]
#[serde(untagged, expecting = "`auto`, `off` or the number of a port is expected")]
enum Written {
    Number(i64),
    Text(String),
}

impl DirectMode {
    /// The port that is for Direct mode alone.
    pub(crate) fn own_port(self) -> Option<u16> {
        match self {
            DirectMode::Auto | DirectMode::Off => None,
            DirectMode::Port(port) => Some(port),
        }
    }
}

impl TryFrom<Written> for DirectMode {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        let text = match written {
            Written::Number(number) => number.to_string(),
            Written::Text(text) => text,
        };
        match text.trim() {
            "auto" => Ok(DirectMode::Auto),
            "off" => Ok(DirectMode::Off),
            "0" => Err("0 is not a port; `off` turns Direct mode off".to_owned()),
            number => number.parse().map(DirectMode::Port).map_err(|_| {
                format!(
                    "`{number}` is not known; it can be `auto`, `off`, or the number of a port, 1 \
                     to 65535"
                )
            }),
        }
    }
}
