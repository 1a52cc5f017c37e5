//! Logging in, and who a client is.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use account::{Caller, Key, KeyKind, Scheme};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use model::{Object, Value};
use ring::hmac;
use subtle::ConstantTimeEq;

use super::Access;
use crate::client::Client;
use crate::command::{Command, whole_number};
use crate::document::{binary, document};
use crate::errors::codes as code;
use crate::rights::{Principal, Rights, Role};
use crate::scram::{ClientFirst, Exchange, Mechanism, Verifier};
use crate::stored_users::{Credential, StoredUser};
use crate::{MongoError, Service};

/// The name that connection strings of the emulator have.
const EMULATOR_USER: &str = "localhost";
/// The mechanism that sends the password.
const PLAIN: &str = "PLAIN";
/// The number of the only exchange of a connection.
const CONVERSATION: i32 = 1;
/// Bytes of the server's part of a nonce.
const NONCE_BYTES: usize = 24;
/// Longest password whose check is worth the time.
const PASSWORD_BYTES_MAX: usize = 4096;

/// An exchange by which a client logs in.
pub(crate) struct Login {
    exchange: Exchange,
    candidates: Vec<(Principal, Verifier)>,
    /// Whether an empty message ends the exchange.
    ends_empty: bool,
    /// Who it is, once that is shown.
    shown: Option<Principal>,
}

/// What logging in needs of the past: the secret of salts, and verifiers of the account's keys, each
/// of which takes milliseconds to make.
pub(crate) struct Logins {
    secret: hmac::Key,
    known: Mutex<BTreeMap<(Mechanism, String, String, String), Verifier>>,
}

impl Logins {
    pub(crate) fn new(secret: [u8; 32]) -> Self {
        Self { secret: hmac::Key::new(hmac::HMAC_SHA256, &secret), known: Mutex::default() }
    }

    /// The salt of the account's user, or of a user that is not known: the same each time, so that
    /// no client learns which users there are.
    fn salt(&self, mechanism: Mechanism, user: &str, database: &str) -> Vec<u8> {
        let text = format!("{}\0{database}\0{user}", mechanism.name());
        let tag = hmac::sign(&self.secret, text.as_bytes());
        tag.as_ref().iter().copied().take(mechanism.salt_bytes()).collect()
    }

    /// The verifier of a key of the account.
    fn verifier(&self, mechanism: Mechanism, name: (&str, &str), key: &Key) -> Verifier {
        /// Most verifiers that are kept.
        const KNOWN_MAX: usize = 64;
        let (user, database) = name;
        let at = (mechanism, user.to_owned(), database.to_owned(), key.fingerprint());
        if let Some(verifier) = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(&at) {
            return verifier.clone();
        }
        let salt = self.salt(mechanism, user, database);
        let verifier = Verifier::new(mechanism, user, key.expose(), &salt);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        known.insert(at, verifier.clone());
        verifier
    }
}

fn failed() -> MongoError {
    MongoError::new(code::AUTHENTICATION_FAILED, "Authentication failed.")
}

/// `saslStart`.
pub(crate) fn start(
    service: &Service,
    client: &mut Client,
    command: &Command,
) -> Result<Object, MongoError> {
    client.login = None;
    let payload = payload(command)?;
    let name = command.text("mechanism").unwrap_or_default();
    if name == PLAIN && client.entry.scheme == Scheme::Https {
        return plain(service, client, &payload);
    }
    let mechanism = Mechanism::named(name).ok_or_else(|| unavailable(name))?;
    let first = ClientFirst::read(&payload).map_err(|_| failed())?;
    let (user, database) = (first.user.clone(), command.database.clone());
    let (salt, candidates) = match service.stored_user(&user, &database) {
        Some(stored) => {
            let own = stored.credentials.into_iter().find(|own| own.mechanism == mechanism);
            let own = own.ok_or_else(|| unavailable(name))?;
            (own.salt, vec![(Principal::User { user, database }, own.verifier)])
        }
        None => {
            let salt = service.logins.salt(mechanism, &user, &database);
            let principals = service.account_principals(&user, &database).into_iter();
            let candidates = principals.map(|(principal, key)| {
                let verifier = service.logins.verifier(mechanism, (&user, &database), &key);
                (principal, verifier)
            });
            (salt, candidates.collect())
        }
    };
    let mut nonce = [0; NONCE_BYTES];
    service.engine.components().random.fill(&mut nonce);
    let exchange = Exchange::begin(mechanism, first, &salt, &STANDARD.encode(nonce));
    let skips = command.object("options").and_then(|options| options.get("skipEmptyExchange"));
    let answer = step(false, exchange.server_first.as_bytes());
    let ends_empty = skips.and_then(Value::as_bool) != Some(true);
    client.login = Some(Login { exchange, candidates, ends_empty, shown: None });
    Ok(answer)
}

/// `saslContinue`.
pub(crate) fn proceed(
    service: &Service,
    client: &mut Client,
    command: &Command,
) -> Result<Object, MongoError> {
    let login = client.login.take();
    let mut login = login
        .ok_or_else(|| MongoError::new(code::PROTOCOL_ERROR, "No SASL session state found"))?;
    if command.get("conversationId").and_then(whole_number) != Some(i64::from(CONVERSATION)) {
        return Err(MongoError::new(code::PROTOCOL_ERROR, "sasl: Mismatched conversation id"));
    }
    if let Some(principal) = login.shown {
        service.admit(client, principal)?;
        return Ok(step(true, b""));
    }
    let payload = payload(command)?;
    let verifiers = login.candidates.iter().map(|(_, verifier)| verifier.clone());
    let verifiers = verifiers.collect::<Vec<_>>();
    let finished = login.exchange.finish(&payload, &verifiers).map_err(|_| failed())?;
    let (at, answer) = finished.ok_or_else(failed)?;
    let (principal, _) = login.candidates.swap_remove(at);
    let is_done = !login.ends_empty;
    match is_done {
        true => service.admit(client, principal)?,
        false => client.login = Some(Login { shown: Some(principal), ..login }),
    }
    Ok(step(is_done, answer.as_bytes()))
}

/// A password as it is, which is accepted over TLS only.
fn plain(service: &Service, client: &mut Client, payload: &[u8]) -> Result<Object, MongoError> {
    let text = std::str::from_utf8(payload).map_err(|_| failed())?;
    let mut parts = text.splitn(3, '\0').skip(1);
    let (user, password) = (parts.next().ok_or_else(failed)?, parts.next().ok_or_else(failed)?);
    if password.len() > PASSWORD_BYTES_MAX {
        return Err(failed());
    }
    let mut of_account = service.account_principals(user, "$external").into_iter();
    let is_key = |key: &Key| bool::from(key.expose().as_bytes().ct_eq(password.as_bytes()));
    let principal = of_account.find(|(_, key)| is_key(key)).map(|(principal, _)| principal);
    let principal = principal.or_else(|| service.user_with(user, password)).ok_or_else(failed)?;
    service.admit(client, principal)?;
    Ok(step(true, b""))
}

impl Service {
    /// Lets a client in, unless its key was replaced or its user removed since it began.
    fn admit(&self, client: &mut Client, principal: Principal) -> Result<(), MongoError> {
        let before = client.principal.replace(principal);
        if self.rights(client) == Rights::None {
            client.principal = before;
            return Err(failed());
        }
        Ok(())
    }

    /// Who a client may be that gives the name of the account's user, with the passwords.
    fn account_principals(&self, user: &str, database: &str) -> Vec<(Principal, Key)> {
        if user != self.settings.account && user != EMULATOR_USER {
            return Vec::new();
        }
        let keys = self.keys.load();
        let held = KeyKind::ALL.into_iter().filter_map(|kind| Some((kind, keys.get(kind)?)));
        let principals = held.map(|(kind, key)| {
            let caller = match kind {
                KeyKind::Primary | KeyKind::Secondary => Caller::ReadWrite,
                KeyKind::PrimaryReadonly | KeyKind::SecondaryReadonly => Caller::ReadOnly,
            };
            let (user, database) = (user.to_owned(), database.to_owned());
            (Principal::Account { user, database, key: key.clone(), caller }, key.clone())
        });
        principals.collect()
    }

    /// The user of any database that has this name and password.
    fn user_with(&self, user: &str, password: &str) -> Option<Principal> {
        let checks = |own: &Credential| {
            let given = Verifier::new(own.mechanism, user, password, &own.salt);
            bool::from(given.stored_key.ct_eq(&own.verifier.stored_key))
        };
        let is_it = |stored: &StoredUser| {
            stored.user == user && stored.credentials.first().is_some_and(checks)
        };
        let stored = self.stored_users().into_iter().find(is_it)?;
        Some(Principal::User { user: stored.user, database: stored.database })
    }
}

fn payload(command: &Command) -> Result<Vec<u8>, MongoError> {
    match command.get("payload") {
        Some(Value::Binary { bytes, .. }) => Ok(bytes.clone()),
        Some(Value::String(text)) => STANDARD.decode(text).map_err(|_| failed()),
        Some(_) | None => Err(failed()),
    }
}

fn step(is_done: bool, payload: &[u8]) -> Object {
    document! { "conversationId" => CONVERSATION, "done" => is_done, "payload" => binary(payload) }
}

fn unavailable(mechanism: &str) -> MongoError {
    let message = format!("Received authentication for mechanism {mechanism} which is not enabled");
    MongoError::new(code::MECHANISM_UNAVAILABLE, message)
}

/// The mechanisms by which `database.user` can log in. Of users that are not known as of others.
pub(crate) fn mechanisms_of(service: &Service, user: &str) -> Result<Value, MongoError> {
    let (database, user) = user.split_once('.').ok_or_else(|| {
        MongoError::new(code::BAD_VALUE, "UserName must contain a '.' separated database.user pair")
    })?;
    let stored = service.stored_user(user, database);
    let is_usable = |mechanism: &Mechanism| {
        let has =
            |user: &StoredUser| user.credentials.iter().any(|own| own.mechanism == *mechanism);
        stored.as_ref().is_none_or(has)
    };
    let usable = Mechanism::ALL.into_iter().filter(is_usable);
    Ok(Value::Array(usable.map(|mechanism| mechanism.name().into()).collect()))
}

/// `authenticate`, which is for client certificates.
pub(crate) fn authenticate(command: &Command) -> Result<Object, MongoError> {
    Err(unavailable(command.text("mechanism").unwrap_or("MONGODB-X509")))
}

/// `logout`.
pub(crate) fn logout(client: &mut Client) -> Object {
    client.principal = None;
    client.login = None;
    Object::new()
}

/// `getnonce`.
pub(crate) fn nonce(service: &Service) -> Object {
    let mut nonce = [0; 8];
    service.engine.components().random.fill(&mut nonce);
    let nonce = nonce.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    document! { "nonce" => nonce }
}

/// `connectionStatus`.
pub(crate) fn status(service: &Service, client: &Client, command: &Command) -> Object {
    let (mut users, mut roles) = (Vec::new(), Vec::new());
    let rights = service.rights(client);
    if let Some(principal) = &client.principal
        && rights != Rights::None
    {
        let (user, database) = principal.name();
        users.push(document! { "user" => user, "db" => database });
        roles.extend(rights.roles().iter().map(Role::to_document));
    }
    let mut info = document! { "authenticatedUsers" => users, "authenticatedUserRoles" => roles };
    if command.flag("showPrivileges") == Some(true) {
        info.insert("authenticatedUserPrivileges", privileges(&rights).into());
    }
    document! { "authInfo" => info }
}

/// What a client may do, in the words that tools look for.
fn privileges(rights: &Rights) -> Vec<Value> {
    const ACTIONS: &[(Access, &[&str])] = &[
        (
            Access::Read,
            &["find", "listCollections", "listIndexes", "collStats", "dbStats", "killCursors"],
        ),
        (Access::Write, &["insert", "update", "remove"]),
        (
            Access::Define,
            &["createCollection", "dropCollection", "createIndex", "dropIndex", "dropDatabase"],
        ),
        (Access::Users, &["createUser", "dropUser", "viewUser", "grantRole", "revokeRole"]),
        (Access::Monitor, &["serverStatus", "hostInfo", "listDatabases", "inprog"]),
    ];
    let roles = rights.roles();
    let privileges = roles.iter().filter_map(|role| {
        let single = Rights::Roles(vec![role.clone()]);
        // A role that holds everywhere holds in a database that is none.
        let is_for_all = ACTIONS.iter().any(|(access, _)| single.grant(*access, ""));
        let database = if is_for_all { "" } else { &role.database };
        let granted = ACTIONS.iter().filter(|(access, _)| single.grant(*access, database));
        let actions = granted.flat_map(|(_, actions)| actions.iter().copied()).map(Value::from);
        let actions = actions.collect::<Vec<_>>();
        if actions.is_empty() {
            return None;
        }
        let resource = document! { "db" => database, "collection" => "" };
        Some(Value::Object(document! { "resource" => resource, "actions" => actions }))
    });
    privileges.collect()
}
