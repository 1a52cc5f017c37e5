//! Names that are not settings: the setting that was probably meant, and variables of other
//! programs.

use std::collections::BTreeMap;

use super::{KEYS, Key, REPLACED};

/// The prefix of this program's environment variables.
pub(crate) const PREFIX: &str = "PLANISPHERE_";
/// Variables that are arguments of commands.
const ARGUMENTS: [&str; 2] = ["PLANISPHERE_CONFIG", "PLANISPHERE_ADMIN_ENDPOINT"];
/// Schemes of service addresses, in variables that Kubernetes and Docker set.
const SERVICE_SCHEMES: [&str; 3] = ["tcp://", "udp://", "sctp://"];

/// The key that was probably meant by `name` in `section`: one with this name elsewhere, else the
/// one of the section with the most similar name.
pub(super) fn meant(section: &str, name: &str) -> Option<&'static Key> {
    let likeness = |key: &Key| strsim::normalized_damerau_levenshtein(key.name, name);
    let in_section = KEYS.iter().filter(|key| key.section == section);
    called(&format!("{section}_{name}"))
        .or_else(|| called(name))
        .or_else(|| in_section.max_by(|a, b| likeness(a).total_cmp(&likeness(b))))
}

/// What says now what this key of an earlier version did.
pub(super) fn replacement(section: &str, name: &str) -> Option<&'static str> {
    let is_it = |key: &Key| (key.section, key.name) == (section, name);
    REPLACED.iter().find(|(key, _)| is_it(key)).map(|(_, text)| *text)
}

/// The section with the name most similar to `name`.
pub(super) fn meant_section(name: &str) -> Option<&'static str> {
    let likeness = |section: &str| strsim::normalized_damerau_levenshtein(section, name);
    let sections = KEYS.iter().map(|key| key.section);
    sections.max_by(|a, b| likeness(a).total_cmp(&likeness(b)))
}

/// The key with this name or flag, in any section.
fn called(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name || key.flag.replace('-', "_") == name)
}

/// Variables with the prefix of settings that are not settings, each with the setting that was
/// probably meant, if that is clear. A variable whose name begins with a section's name is an
/// error: it was meant as a setting.
///
/// Kubernetes sets variables for every service of a namespace, named after it. A service named
/// `planisphere` or `planisphere-table` must not keep the server from starting.
pub(super) fn other_variables(variables: &BTreeMap<String, String>) -> Result<Vec<String>, String> {
    let mut others = Vec::new();
    for (variable, value) in variables {
        let Some(rest) = variable.strip_prefix(PREFIX) else { continue };
        let is_ours = ARGUMENTS.contains(&variable.as_str())
            || KEYS.iter().any(|key| key.variable() == *variable);
        if is_of_service(rest, value) {
            others.push(variable.clone());
        } else if !is_ours {
            let name = rest.to_lowercase();
            let in_section = KEYS.iter().find_map(|key| {
                let name = name.strip_prefix(key.section)?.strip_prefix('_')?;
                Some((key.section, name))
            });
            if let Some((section, name)) = in_section {
                return Err(unknown_variable(variable, section, name));
            }
            others.push(match called(&name) {
                Some(key) => format!("{variable} ({} is one)", key.variable()),
                None => variable.clone(),
            });
        }
    }
    Ok(others)
}

fn unknown_variable(variable: &str, section: &str, name: &str) -> String {
    if let Some(text) = replacement(section, name) {
        return format!("the environment variable {variable}: {text}");
    }
    let meant = meant(section, name).map(Key::variable).unwrap_or_default();
    format!(
        "the environment variable {variable} is not a setting; did you mean {meant}? \
         `planisphere serve --help-all` lists all"
    )
}

/// Whether a variable, without our prefix, states the address of a service.
pub(super) fn is_of_service(rest: &str, value: &str) -> bool {
    let is_port_of_protocol = || {
        let (_, after) = rest.split_once("PORT_")?;
        let (number, kind) = after.split_once('_')?;
        let mut kinds = kind.splitn(2, '_');
        let is_protocol = matches!(kinds.next(), Some("TCP" | "UDP" | "SCTP"));
        let is_part = matches!(kinds.next(), None | Some("ADDR" | "PORT" | "PROTO"));
        Some(number.parse::<u16>().is_ok() && is_protocol && is_part)
    };
    let is_service = |ending: &str| rest == ending || rest.ends_with(&format!("_{ending}"));
    is_service("SERVICE_HOST")
        || is_service("SERVICE_PORT")
        || rest.starts_with("SERVICE_PORT_")
        || rest.contains("_SERVICE_PORT_")
        || (is_service("PORT") && SERVICE_SCHEMES.iter().any(|scheme| value.starts_with(scheme)))
        || is_port_of_protocol().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn others(variables: &[(&str, &str)]) -> Result<Vec<String>, String> {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        other_variables(&variables.iter().map(owned).collect())
    }

    #[test]
    fn a_wrong_name_in_a_section_is_refused_with_the_nearest() {
        for (variable, nearest) in [
            ("PLANISPHERE_LISTEN_NOSQL_PROT", "PLANISPHERE_LISTEN_NOSQL_PORT"),
            ("PLANISPHERE_STORAGE_DURABLITY", "PLANISPHERE_STORAGE_DURABILITY"),
            ("PLANISPHERE_ENGINE_NOSQL_PORT", "PLANISPHERE_LISTEN_NOSQL_PORT"),
            ("PLANISPHERE_TABLE_PORT", "PLANISPHERE_LISTEN_TABLE_PORT"),
            ("PLANISPHERE_TABLE_STORAGE_PORT", "PLANISPHERE_LISTEN_TABLE_STORAGE_PORT"),
            ("PLANISPHERE_SCRIPTS_SCRIPT_TIMEOUT_MS", "PLANISPHERE_SCRIPTS_TIMEOUT_MS"),
            ("PLANISPHERE_LOG_LEVEL", "PLANISPHERE_LOG_FILTER"),
        ] {
            let refused = others(&[(variable, "1")]).unwrap_err();
            assert!(refused.contains(&format!("{variable} is not a setting")), "{refused}");
            assert!(refused.contains(&format!("did you mean {nearest}?")), "{refused}");
        }
    }

    #[test]
    fn a_key_of_an_earlier_version_is_refused_with_what_replaced_it() {
        let refused = others(&[("PLANISPHERE_STORAGE_COPIES", "off")]).unwrap_err();
        assert!(refused.contains("`--lookup-cache-bytes 0`"), "{refused}");
    }

    #[test]
    fn variables_of_others_and_of_kubernetes_are_let_through() {
        let others = others(&[
            ("PLANISPHERE_BIN", "target/debug/planisphere"),
            ("PLANISPHERE_DATA", "/data"),
            ("PLANISPHERE_PORT", "tcp://10.0.0.1:8081"),
            ("PLANISPHERE_PORT_8081_TCP", "tcp://10.0.0.1:8081"),
            ("PLANISPHERE_PORT_8081_TCP_ADDR", "10.0.0.1"),
            ("PLANISPHERE_SERVICE_HOST", "10.0.0.1"),
            ("PLANISPHERE_SERVICE_PORT_HTTP", "8081"),
            ("PLANISPHERE_TABLE_PORT", "tcp://10.0.0.1:8902"),
            ("PLANISPHERE_TABLE_PORT_8902_TCP_PROTO", "tcp"),
            ("PLANISPHERE_TABLE_SERVICE_HOST", "10.0.0.1"),
            ("PLANISPHERE_TABLE_SERVICE_PORT", "8902"),
            ("PLANISPHERE_TABLE_SERVICE_PORT_HTTP", "8902"),
            // Variables of a service named `planisphere-listen-nosql`.
            ("PLANISPHERE_LISTEN_NOSQL_PORT", "tcp://10.0.0.1:8081"),
            ("PLANISPHERE_LISTEN_NOSQL_SERVICE_HOST", "10.0.0.1"),
            // A setting of ours.
            ("PLANISPHERE_LISTEN_TABLE_PORT", "9000"),
            ("PLANISPHERE_CONFIG", "settings.toml"),
            ("PLANISPHERE_ADMIN_ENDPOINT", "localhost:1"),
        ]);
        let others = others.unwrap();
        assert_eq!(others.len(), 14, "{others:?}");
        assert!(others.contains(&"PLANISPHERE_BIN".to_owned()), "{others:?}");
        let meant = "PLANISPHERE_DATA (PLANISPHERE_STORAGE_DATA is one)".to_owned();
        assert!(others.contains(&meant), "{others:?}");
    }

    #[test]
    fn no_variable_of_ours_looks_like_one_of_a_service() {
        for key in KEYS {
            let variable = key.variable();
            assert!(!is_of_service(&variable[PREFIX.len()..], "1"), "{variable}");
        }
    }
}
