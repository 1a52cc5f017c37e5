//! SCRAM-SHA-1 and SCRAM-SHA-256: how a client shows that it knows a password without sending it.
//!
//! Everything here is a function of what was received, so that the exchanges of a book can be
//! replayed; who the users are does not belong here.

use std::num::NonZeroU32;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use md5::{Digest, Md5};
use ring::{digest, hmac, pbkdf2};
use subtle::ConstantTimeEq;

/// A mechanism, by the hash function it uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Mechanism {
    /// SCRAM-SHA-256.
    Sha256,
    /// SCRAM-SHA-1, of older clients.
    Sha1,
}

impl Mechanism {
    /// Both, in the order of preference.
    pub(crate) const ALL: [Mechanism; 2] = [Mechanism::Sha256, Mechanism::Sha1];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Mechanism::Sha256 => "SCRAM-SHA-256",
            Mechanism::Sha1 => "SCRAM-SHA-1",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mechanism| mechanism.name() == name)
    }

    /// How often the hash function is applied; drivers refuse less than 4096.
    pub(crate) fn iterations(self) -> NonZeroU32 {
        const SHA_256: NonZeroU32 = NonZeroU32::new(15_000).expect("it is not 0");
        const SHA_1: NonZeroU32 = NonZeroU32::new(10_000).expect("it is not 0");
        match self {
            Mechanism::Sha256 => SHA_256,
            Mechanism::Sha1 => SHA_1,
        }
    }

    /// Bytes of a salt.
    pub(crate) fn salt_bytes(self) -> usize {
        match self {
            Mechanism::Sha256 => 28,
            Mechanism::Sha1 => 16,
        }
    }

    fn hmac(self) -> hmac::Algorithm {
        match self {
            Mechanism::Sha256 => hmac::HMAC_SHA256,
            Mechanism::Sha1 => hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
        }
    }

    fn digest(self) -> &'static digest::Algorithm {
        match self {
            Mechanism::Sha256 => &digest::SHA256,
            Mechanism::Sha1 => &digest::SHA1_FOR_LEGACY_USE_ONLY,
        }
    }

    fn pbkdf2(self) -> pbkdf2::Algorithm {
        match self {
            Mechanism::Sha256 => pbkdf2::PBKDF2_HMAC_SHA256,
            Mechanism::Sha1 => pbkdf2::PBKDF2_HMAC_SHA1,
        }
    }

    /// The form of a password that is hashed.
    fn prepared(self, user: &str, password: &str) -> String {
        match self {
            // What can't be prepared is taken as it is, as drivers do.
            Mechanism::Sha256 => {
                stringprep::saslprep(password).map_or_else(|_| password.to_owned(), Into::into)
            }
            Mechanism::Sha1 => {
                let digest = Md5::digest(format!("{user}:mongo:{password}"));
                digest.iter().map(|byte| format!("{byte:02x}")).collect()
            }
        }
    }
}

/// What is stored of a password: enough to check it, too little to log in with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Verifier {
    pub(crate) stored_key: Vec<u8>,
    pub(crate) server_key: Vec<u8>,
}

impl Verifier {
    /// That of a password.
    pub(crate) fn new(mechanism: Mechanism, user: &str, password: &str, salt: &[u8]) -> Self {
        let password = mechanism.prepared(user, password);
        let mut salted = vec![0; mechanism.digest().output_len()];
        pbkdf2::derive(
            mechanism.pbkdf2(),
            mechanism.iterations(),
            salt,
            password.as_bytes(),
            &mut salted,
        );
        let key = hmac::Key::new(mechanism.hmac(), &salted);
        let client_key = hmac::sign(&key, b"Client Key");
        let stored_key = digest::digest(mechanism.digest(), client_key.as_ref());
        let server_key = hmac::sign(&key, b"Server Key");
        Self { stored_key: stored_key.as_ref().to_vec(), server_key: server_key.as_ref().to_vec() }
    }

    /// Whether `proof` shows that the client knows the password, in the exchange of these messages.
    fn accepts(&self, mechanism: Mechanism, messages: &str, proof: &[u8]) -> bool {
        let key = hmac::Key::new(mechanism.hmac(), &self.stored_key);
        let signature = hmac::sign(&key, messages.as_bytes());
        if proof.len() != signature.as_ref().len() {
            return false;
        }
        let client_key = proof.iter().zip(signature.as_ref()).map(|(a, b)| a ^ b);
        let client_key = client_key.collect::<Vec<u8>>();
        let stored = digest::digest(mechanism.digest(), &client_key);
        stored.as_ref().ct_eq(&self.stored_key).into()
    }

    fn signature(&self, mechanism: Mechanism, messages: &str) -> String {
        let key = hmac::Key::new(mechanism.hmac(), &self.server_key);
        STANDARD.encode(hmac::sign(&key, messages.as_bytes()))
    }
}

/// A message that is none of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadExchange;

/// The first message of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClientFirst {
    /// The user.
    pub(crate) user: String,
    /// The client's part of the nonce.
    nonce: String,
    /// The message without its beginning about channels.
    bare: String,
}

impl ClientFirst {
    /// Reads `n,,n=user,r=nonce`.
    pub(crate) fn read(payload: &[u8]) -> Result<Self, BadExchange> {
        let text = std::str::from_utf8(payload).map_err(|_| BadExchange)?;
        // Channel binding is neither offered nor required.
        let bare = text.strip_prefix("n,,").or_else(|| text.strip_prefix("y,,"));
        let bare = bare.ok_or(BadExchange)?;
        let mut parts = bare.split(',');
        let user = parts.next().and_then(|part| part.strip_prefix("n=")).ok_or(BadExchange)?;
        let nonce = parts.next().and_then(|part| part.strip_prefix("r=")).ok_or(BadExchange)?;
        if nonce.is_empty() {
            return Err(BadExchange);
        }
        let (user, nonce) = (unescaped(user)?, nonce.to_owned());
        Ok(Self { user, nonce, bare: bare.to_owned() })
    }
}

/// A name in which commas and equals signs are written as `=2C` and `=3D`.
fn unescaped(name: &str) -> Result<String, BadExchange> {
    let mut parts = name.split('=');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (character, rest) = match (part.strip_prefix("2C"), part.strip_prefix("3D")) {
            (Some(rest), _) => (',', rest),
            (None, Some(rest)) => ('=', rest),
            (None, None) => return Err(BadExchange),
        };
        out.push(character);
        out.push_str(rest);
    }
    Ok(out)
}

/// An exchange in which the server has answered the first message.
#[derive(Clone, Debug)]
pub(crate) struct Exchange {
    mechanism: Mechanism,
    nonce: String,
    client_first: String,
    /// The answer.
    pub(crate) server_first: String,
}

impl Exchange {
    /// Answers the first message. `nonce` is the server's part.
    pub(crate) fn begin(
        mechanism: Mechanism,
        first: ClientFirst,
        salt: &[u8],
        nonce: &str,
    ) -> Self {
        let nonce = format!("{}{nonce}", first.nonce);
        let (salt, iterations) = (STANDARD.encode(salt), mechanism.iterations());
        let server_first = format!("r={nonce},s={salt},i={iterations}");
        Self { mechanism, nonce, client_first: first.bare, server_first }
    }

    /// Checks the second message of the client against the passwords that it may have used. Returns
    /// which it was, and the answer.
    pub(crate) fn finish(
        &self,
        payload: &[u8],
        verifiers: &[Verifier],
    ) -> Result<Option<(usize, String)>, BadExchange> {
        let text = std::str::from_utf8(payload).map_err(|_| BadExchange)?;
        let (without_proof, proof) = text.rsplit_once(",p=").ok_or(BadExchange)?;
        let proof = STANDARD.decode(proof).map_err(|_| BadExchange)?;
        let mut parts = without_proof.split(',');
        let channel = parts.next().and_then(|part| part.strip_prefix("c="));
        let nonce = parts.next().and_then(|part| part.strip_prefix("r="));
        // `biws` is `n,,` in base64, `eSws` is `y,,`.
        if !matches!(channel, Some("biws" | "eSws")) || nonce != Some(self.nonce.as_str()) {
            return Err(BadExchange);
        }
        let messages = format!("{},{},{without_proof}", self.client_first, self.server_first);
        let accepts = |verifier: &Verifier| verifier.accepts(self.mechanism, &messages, &proof);
        let Some(at) = verifiers.iter().position(accepts) else { return Ok(None) };
        let signature = verifiers.get(at).map(|it| it.signature(self.mechanism, &messages));
        Ok(signature.map(|signature| (at, format!("v={signature}"))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: &[u8] = b"n,,n=planisphere,r=Y2xpZW50bm9uY2U=";
    const NONCE: &str = "c2VydmVybm9uY2U=";

    /// Exchanges of the user `planisphere` with the password `s3cret`.
    const KNOWN: [(Mechanism, &str, &str, &str); 2] = [
        (
            Mechanism::Sha256,
            "r=Y2xpZW50bm9uY2U=c2VydmVybm9uY2U=,s=AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGw==,i=15000",
            "c=biws,r=Y2xpZW50bm9uY2U=c2VydmVybm9uY2U=,p=39qrdIO5Q6bxWZvtVDU09ZU8/PgRM5H0H9EK6ChUk74=",
            "v=rtpwYzJE8pygU+4Ld9x5JwE59i0DF9La7Mc7IAdOavQ=",
        ),
        (
            Mechanism::Sha1,
            "r=Y2xpZW50bm9uY2U=c2VydmVybm9uY2U=,s=AAECAwQFBgcICQoLDA0ODw==,i=10000",
            "c=biws,r=Y2xpZW50bm9uY2U=c2VydmVybm9uY2U=,p=+jmakWfTK0G4lMpFkDa1ECB2akA=",
            "v=ApwD83IdPQ7UqgzlbePDjROCiso=",
        ),
    ];

    #[test]
    fn known_exchanges_are_repeated() {
        for (mechanism, server_first, client_final, server_final) in KNOWN {
            let salt: Vec<u8> = (0..).take(mechanism.salt_bytes()).collect();
            let first = ClientFirst::read(FIRST).unwrap();
            assert_eq!(first.user, "planisphere");
            let exchange = Exchange::begin(mechanism, first, &salt, NONCE);
            assert_eq!(exchange.server_first, server_first);
            let verifiers = ["other", "s3cret"]
                .map(|pass| Verifier::new(mechanism, "planisphere", pass, &salt));
            let finished = exchange.finish(client_final.as_bytes(), &verifiers);
            assert_eq!(finished, Ok(Some((1, server_final.to_owned()))));
            let finished = exchange.finish(client_final.as_bytes(), &verifiers[..1]);
            assert_eq!(finished, Ok(None), "of another password");
            assert_eq!(Mechanism::named(mechanism.name()), Some(mechanism));
        }
    }

    #[test]
    fn messages_that_are_none_are_refused() {
        for bad in
            [&b""[..], b"p=tls-unique,,n=a,r=b", b"n,,n=a", b"n,,n=a,r=", b"n,,n=a=b,r=c", b"\xff"]
        {
            assert_eq!(ClientFirst::read(bad), Err(BadExchange));
        }
        assert_eq!(
            ClientFirst::read(b"n,,n=a=2Cb=3D,r=c").map(|it| it.user),
            Ok("a,b=".to_owned())
        );
        let first = ClientFirst::read(FIRST).unwrap();
        let exchange = Exchange::begin(Mechanism::Sha1, first, &[1; 16], NONCE);
        for bad in [
            "c=biws,r=Y2xpZW50bm9uY2U=,p=AAAA",
            "c=biws,r=Y2xpZW50bm9uY2U=c2VydmVybm9uY2U=,p=?",
            "c=cD0=,r=Y2xpZW50bm9uY2U=c2VydmVybm9uY2U=,p=AAAA",
            "c=biws",
            "",
        ] {
            assert_eq!(exchange.finish(bad.as_bytes(), &[]), Err(BadExchange), "{bad}");
        }
        let short = "c=biws,r=Y2xpZW50bm9uY2U=c2VydmVybm9uY2U=,p=AAAA";
        let verifier = Verifier::new(Mechanism::Sha1, "a", "b", &[1; 16]);
        assert_eq!(exchange.finish(short.as_bytes(), &[verifier]), Ok(None));
    }
}
