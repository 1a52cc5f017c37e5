//! Master-key signatures as the SDKs make them.

use std::time::SystemTime;

use anyhow::Context;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// A decoded account key.
#[derive(Clone)]
pub struct Key(Vec<u8>);

/// The signed parts of a request besides the date.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// The HTTP verb in any case.
    pub verb: &'a str,
    /// `docs`, `colls`, `dbs`, or empty for the account.
    pub resource_type: &'a str,
    /// The resource's link: the parent's for feeds and creates, its own otherwise.
    pub link: &'a str,
}

impl Key {
    /// Decodes the base64 form that accounts show.
    pub fn from_base64(text: &str) -> anyhow::Result<Self> {
        Ok(Self(STANDARD.decode(text).context("the account key is not base64")?))
    }

    /// The value of the `authorization` header for a request dated `date` (RFC 1123).
    pub fn authorization(&self, target: Target<'_>, date: &str) -> String {
        percent_encode(&format!("type=master&ver=1.0&sig={}", self.signature(target, date)))
    }

    fn signature(&self, target: Target<'_>, date: &str) -> String {
        let text = format!(
            "{}\n{}\n{}\n{}\n\n",
            target.verb.to_lowercase(),
            target.resource_type,
            target.link,
            date.to_lowercase()
        );
        self.mac(&text)
    }

    /// The HMAC of a text, in base64.
    pub fn mac(&self, text: &str) -> String {
        let mut mac =
            Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes keys of any length");
        mac.update(text.as_bytes());
        STANDARD.encode(mac.finalize().into_bytes())
    }
}

/// The current time in the form of `x-ms-date`.
pub fn date_now() -> String {
    httpdate::fmt_http_date(SystemTime::now())
}

fn percent_encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len() * 2);
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMULATOR_KEY: &str =
        "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";

    fn check(verb: &str, resource_type: &str, link: &str, expect: &str) {
        let key = Key::from_base64(EMULATOR_KEY).unwrap();
        let got =
            key.signature(Target { verb, resource_type, link }, "Thu, 27 Apr 2017 00:51:12 GMT");
        assert_eq!(got, expect);
    }

    #[test]
    fn signatures_equal_those_of_the_sdks() {
        check("GET", "", "", "gFB1bRB/PLJTG3bCgMuoVgNzOyFvZAamzEtLuSITjRc=");
        check("GET", "dbs", "dbs/ToDoList", "mM0rMK/7o1MZhQwDitGRoGisPRPx09os/86Jk0YwquY=");
        check("POST", "docs", "dbs/db1/colls/c1", "pTGQzKdYvdxaLYLD3NjExGL/mezZdIeS3Mak7aIS7VA=");
    }

    #[test]
    fn the_header_is_percent_encoded() {
        assert_eq!(percent_encode("type=a&sig=+/="), "type%3Da%26sig%3D%2B%2F%3D");
    }
}
