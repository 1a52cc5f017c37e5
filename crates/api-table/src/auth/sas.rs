//! Shared access signatures: a holder of a key signs rights for a client that has no key.

use std::net::IpAddr;
use std::time::{Duration, UNIX_EPOCH};

use account::{Caller, Scheme};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use model::Timestamp;
use model::edm::parse_date;

use super::{Grant, GrantRange, GrantScope};
use crate::errors::{Mismatch, TableError};
use crate::options::Options;

/// From this version on an account's signature has a line for an encryption scope.
const ENCRYPTION_SCOPE_SINCE: &str = "2020-12-06";

/// A stored access policy of a table: fields that a signature leaves out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Policy {
    pub(crate) start: Option<String>,
    pub(crate) expiry: Option<String>,
    pub(crate) permissions: Option<String>,
}

/// A signature in the query of a request, not verified yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sas {
    version: String,
    permissions: Option<String>,
    start: Option<String>,
    expiry: Option<String>,
    ip: Option<String>,
    protocol: Option<String>,
    signature: Vec<u8>,
    scope: Scope,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Scope {
    Account { services: String, resource_types: String, encryption_scope: String },
    Table { name: String, policy: Option<String>, range: Box<RawRange> },
}

/// The key range in its signed form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct RawRange {
    start_partition: Option<String>,
    start_row: Option<String>,
    end_partition: Option<String>,
    end_row: Option<String>,
}

/// The connection and time of a request with a signature.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SasRequest {
    pub(crate) scheme: Scheme,
    pub(crate) peer: Option<IpAddr>,
    pub(crate) now: Timestamp,
}

impl Sas {
    /// Parses the signature of a request for `table`; `None` if it has none.
    pub(crate) fn parse(
        options: &Options,
        table: Option<&str>,
    ) -> Option<Result<Self, TableError>> {
        let signature = options.get("sig")?;
        if options.names().filter(|name| *name == "sig").count() > 1 {
            return Some(Err(TableError::not_authenticated()));
        }
        let text = |name: &str| options.get(name).map(str::to_owned);
        let required = |name: &str| text(name).ok_or_else(TableError::not_authenticated);
        let read = || {
            // A signature that leaves everything to a policy may omit the table name too.
            let name =
                text("tn").or_else(|| table.filter(|_| text("si").is_some()).map(str::to_owned));
            let scope = match (name, text("ss")) {
                (Some(name), _) => Scope::Table {
                    name,
                    policy: text("si"),
                    range: Box::new(RawRange {
                        start_partition: text("spk"),
                        start_row: text("srk"),
                        end_partition: text("epk"),
                        end_row: text("erk"),
                    }),
                },
                (None, Some(services)) => Scope::Account {
                    services,
                    resource_types: required("srt")?,
                    encryption_scope: text("ses").unwrap_or_default(),
                },
                (None, None) => return Err(TableError::not_authenticated()),
            };
            let signature =
                STANDARD.decode(signature).map_err(|_| TableError::not_authenticated())?;
            Ok(Self {
                version: required("sv")?,
                permissions: text("sp"),
                start: text("st"),
                expiry: text("se"),
                ip: text("sip"),
                protocol: text("spr"),
                signature,
                scope,
            })
        };
        Some(read())
    }

    /// The table, and its stored policy that fills in omitted fields.
    pub(crate) fn policy(&self) -> Option<(&str, &str)> {
        match &self.scope {
            Scope::Table { name, policy: Some(policy), .. } => Some((name, policy)),
            Scope::Table { policy: None, .. } | Scope::Account { .. } => None,
        }
    }

    pub(crate) fn signature(&self) -> &[u8] {
        &self.signature
    }

    /// The signed text.
    pub(crate) fn payload(&self, account: &str) -> String {
        let or_empty = |text: &Option<String>| text.clone().unwrap_or_default();
        let (permissions, start, expiry) =
            (or_empty(&self.permissions), or_empty(&self.start), or_empty(&self.expiry));
        let (ip, protocol) = (or_empty(&self.ip), or_empty(&self.protocol));
        match &self.scope {
            Scope::Account { services, resource_types, encryption_scope } => {
                let mut lines = vec![
                    account,
                    &permissions,
                    services,
                    resource_types,
                    &start,
                    &expiry,
                    &ip,
                    &protocol,
                    &self.version,
                ];
                if self.version.as_str() >= ENCRYPTION_SCOPE_SINCE {
                    lines.push(encryption_scope);
                }
                lines.join("\n") + "\n"
            }
            Scope::Table { name, policy, range } => [
                permissions,
                start,
                expiry,
                format!("/table/{account}/{}", name.to_lowercase()),
                or_empty(policy),
                ip,
                protocol,
                self.version.clone(),
                or_empty(&range.start_partition),
                or_empty(&range.start_row),
                or_empty(&range.end_partition),
                or_empty(&range.end_row),
            ]
            .join("\n"),
        }
    }

    /// The rights of the signature, once it was verified with `signer`'s key. `stored` is the
    /// policy that it names.
    pub(crate) fn grant(
        self,
        signer: Caller,
        stored: Option<&Policy>,
        sas_request: SasRequest,
    ) -> Result<Grant, TableError> {
        let default = Policy::default();
        let stored = stored.unwrap_or(&default);
        let start = one_of(self.start, stored.start.as_ref())?;
        let expiry = one_of(self.expiry, stored.expiry.as_ref())?;
        let permissions = one_of(self.permissions, stored.permissions.as_ref())?;
        check_time(start.as_deref(), expiry.as_deref(), sas_request.now)?;
        if let Some(protocol) = &self.protocol
            && !protocol.split(',').any(|allowed| allowed == sas_request.scheme.as_str())
        {
            return Err(TableError::not_authorized(Mismatch::Protocol));
        }
        if let Some(range) = &self.ip
            && !sas_request.peer.is_some_and(|peer| is_within(peer, range))
        {
            return Err(TableError::not_authorized(Mismatch::SourceIp));
        }
        let scope = match self.scope {
            Scope::Account { services, resource_types, .. } => {
                if !services.contains('t') {
                    return Err(TableError::not_authorized(Mismatch::Service));
                }
                GrantScope::Account { resource_types }
            }
            Scope::Table { name, range, .. } => {
                let RawRange { start_partition, start_row, end_partition, end_row } = *range;
                let range = GrantRange {
                    first: start_partition.map(|partition| (partition, start_row)),
                    last: end_partition.map(|partition| (partition, end_row)),
                };
                GrantScope::Table { name, range }
            }
        };
        let permissions = permissions.unwrap_or_default();
        Ok(Grant { permissions, scope, signer })
    }
}

/// A field of the signature or of its policy; it is an error if both set it.
fn one_of(own: Option<String>, stored: Option<&String>) -> Result<Option<String>, TableError> {
    match (own, stored) {
        (Some(_), Some(_)) => Err(TableError::not_authenticated()),
        (own, stored) => Ok(own.or_else(|| stored.cloned())),
    }
}

/// Milliseconds since 1970 of a time in one of the forms that signatures use.
pub(crate) fn parse_time(text: &str) -> Option<i64> {
    let (date, time) = text.split_once('T').unwrap_or((text, "00:00Z"));
    let time = time.strip_suffix('Z').unwrap_or(time);
    let time = if time.matches(':').count() == 1 { format!("{time}:00") } else { time.to_owned() };
    parse_date(&format!("{date}T{time}Z")).map(|date| date.millis)
}

/// Every signature must have an end; it may begin later than now.
fn check_time(start: Option<&str>, expiry: Option<&str>, now: Timestamp) -> Result<(), TableError> {
    let now = i64::try_from(now.0).unwrap_or(i64::MAX);
    let time = |text: &str| parse_time(text).ok_or_else(TableError::not_authenticated);
    let has_begun = start.map(time).transpose()?.is_none_or(|start| start <= now);
    let is_over = expiry.map(time).transpose()?.is_none_or(|expiry| expiry <= now);
    if has_begun && !is_over {
        return Ok(());
    }
    let now = UNIX_EPOCH + Duration::from_millis(u64::try_from(now).unwrap_or_default());
    Err(TableError::not_authenticated_since(&format!(
        "The signature is valid from {} to {}, and the server's time is {}: ask for another one, \
         or check the clocks of both machines.",
        start.unwrap_or("any time"),
        expiry.unwrap_or("any time"),
        httpdate::fmt_http_date(now),
    )))
}

/// Whether an address is the given one, or in the given range.
fn is_within(peer: IpAddr, range: &str) -> bool {
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    match (first.trim().parse::<IpAddr>(), last.trim().parse::<IpAddr>()) {
        (Ok(first), Ok(last)) => {
            peer.is_ipv4() == first.is_ipv4()
                && first.is_ipv4() == last.is_ipv4()
                && first <= peer
                && peer <= last
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use account::{Key, KeyRing, Signers};

    use super::*;

    /// 2026-11-15.
    const NOW: Timestamp = Timestamp(1_794_700_000_000);

    fn sas(query: &str) -> Sas {
        Sas::parse(&Options::parse(query).unwrap(), Some("addressed")).unwrap().unwrap()
    }

    fn is_signed(sas: &Sas) -> bool {
        let key = Key::parse(crate::DEVELOPMENT_KEY).unwrap();
        let signers = Signers::new(&KeyRing::single(key));
        let payload = sas.payload("devstoreaccount1");
        signers.signer_of(payload.as_bytes(), sas.signature()).is_some()
    }

    fn sas_request(scheme: Scheme, peer: &str) -> SasRequest {
        SasRequest { scheme, peer: peer.parse().ok(), now: NOW }
    }

    fn granted(query: &str, stored: Option<&Policy>) -> Result<Grant, TableError> {
        sas(query).grant(Caller::ReadWrite, stored, sas_request(Scheme::Http, "10.0.0.5"))
    }

    #[test]
    fn known_signatures_are_recognised() {
        let account = "sp=rwdlacu&ss=t&srt=soc&se=2030-01-01T00:00:00Z&sv=2019-02-02\
                       &sig=2/d58i4%2BJROW5cOSI9tFJNZYQKyAwfsgJowJg6WzqHQ=";
        assert!(is_signed(&sas(account)));
        assert!(!is_signed(&sas(&account.replace("rwdlacu", "rwdlac"))));
        let table = "tn=Demo&sp=raud&se=2030-01-01T00:00:00Z&sv=2019-02-02&spk=a&srk=1&epk=c&erk=9\
                     &sig=C03carsP6vbJYvMa17YIFh/RXVxrd1NO/7saldKrx1Q=";
        assert!(is_signed(&sas(table)));
        let policy = "tn=DEMO&si=pol1&sv=2019-02-02\
                      &sig=sX4WBioLtDaYA7KeJ3eK8k1y2jrUEsJGRNmBNhRNm2w=";
        assert!(is_signed(&sas(policy)));
        assert_eq!(sas(policy).policy(), Some(("DEMO", "pol1")));
        assert_eq!(sas("si=pol1&sv=2019-02-02&sig=AAAA").policy(), Some(("addressed", "pol1")));
    }

    #[test]
    fn what_is_left_out_comes_from_the_policy_and_only_that() {
        let stored = Policy {
            expiry: Some("2030-01-01T00:00:00.0000000Z".into()),
            permissions: Some("r".into()),
            ..Policy::default()
        };
        let grant = granted("tn=t&si=p&sv=2019-02-02&sig=AAAA", Some(&stored)).unwrap();
        assert_eq!(grant.permissions, "r");
        let twice = granted("tn=t&si=p&sp=r&sv=2019-02-02&sig=AAAA", Some(&stored));
        assert_eq!(twice.unwrap_err().code, "AuthenticationFailed");
        assert!(granted("tn=t&sp=r&sv=2019-02-02&sig=AAAA", None).is_err(), "it never ends");
    }

    #[test]
    fn times_services_protocols_and_addresses_are_checked() {
        let base = "ss=t&srt=o&sp=r&sv=2019-02-02&sig=AAAA";
        let code = |extra: &str| match granted(&format!("{base}&{extra}"), None) {
            Ok(_) => "".to_owned(),
            Err(error) => error.code.to_owned(),
        };
        assert_eq!(code("se=2030-01-01"), "");
        assert_eq!(code("se=2030-01-01T00:00Z&st=2026-01-01"), "");
        assert_eq!(code("se=2020-01-01"), "AuthenticationFailed");
        assert_eq!(code("se=2030-01-01&st=2029-01-01"), "AuthenticationFailed");
        assert_eq!(code("se=soon"), "AuthenticationFailed");
        assert_eq!(code("se=2030-01-01&spr=https"), "AuthorizationProtocolMismatch");
        assert_eq!(code("se=2030-01-01&spr=https,http"), "");
        assert_eq!(code("se=2030-01-01&sip=10.0.0.5"), "");
        assert_eq!(code("se=2030-01-01&sip=10.0.0.1-10.0.0.9"), "");
        assert_eq!(code("se=2030-01-01&sip=10.0.0.6-10.0.0.9"), "AuthorizationSourceIPMismatch");
        assert_eq!(code("se=2030-01-01&sip=x"), "AuthorizationSourceIPMismatch");
        let blob = granted("ss=b&srt=o&sp=r&sv=2019-02-02&se=2030-01-01&sig=AAAA", None);
        assert_eq!(blob.unwrap_err().code, "AuthorizationServiceMismatch");
    }
}
