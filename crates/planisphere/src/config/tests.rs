use std::collections::BTreeSet;

use super::*;
use crate::listen::named;

fn load_with(
    file: Option<&str>,
    variables: &[(&str, &str)],
    flags: &[(&str, &str)],
) -> Result<Settings, String> {
    let dir = tempfile::tempdir().unwrap();
    let path = file.map(|text| {
        let path = dir.path().join("settings.toml");
        std::fs::write(&path, text).unwrap();
        path
    });
    let variables =
        variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let flags = flags
        .iter()
        .map(|(flag, value)| {
            (KEYS.iter().find(|key| key.flag == *flag).unwrap(), (*value).to_owned())
        })
        .collect();
    load(Layers { file: path, variables, flags }).map_err(|error| format!("{error:#}"))
}

#[test]
fn the_default_file_says_what_the_defaults_are() {
    assert_eq!(load_with(None, &[], &[]), Ok(Settings::default()));
}

#[test]
fn connections_may_be_idle_for_an_hour_on_every_listener() {
    let settings = load_with(None, &[], &[("table-idle-timeout-s", "7")]).unwrap();
    let table = named("table").unwrap();
    for listener in &LISTENERS {
        let hour = Duration::from_secs(3600);
        assert_eq!(Settings::default().limits.idle_timeout(listener), hour, "{listener:?}");
        let own = if listener == table { Duration::from_secs(7) } else { hour };
        assert_eq!(settings.limits.idle_timeout(listener), own, "{listener:?}");
    }
}

#[test]
fn every_key_of_the_default_file_has_a_flag_a_variable_and_an_explanation() {
    let table: toml::Table = toml::from_str(DEFAULT_TOML).unwrap();
    let in_file: BTreeSet<String> = table
        .iter()
        .flat_map(|(section, keys)| {
            keys.as_table().unwrap().keys().map(move |key| format!("{section}.{key}"))
        })
        .collect();
    let in_list: BTreeSet<String> =
        KEYS.iter().map(|key| format!("{}.{}", key.section, key.name)).collect();
    assert_eq!(in_file, in_list);
    let flags: BTreeSet<&str> = KEYS.iter().map(|key| key.flag).collect();
    assert_eq!(flags.len(), KEYS.len(), "two keys share a flag");
    for key in KEYS {
        assert!(!explain(key).comment.is_empty(), "{} {} has no comment", key.section, key.name);
    }
}

#[test]
fn flags_beat_the_environment_which_beats_the_file_which_beats_the_defaults() {
    let file = "[listen]\nnosql_port = 1\nbind = \"127.0.0.2\"\n[limits]\nidle_timeout_s = 7\n";
    let variables = [("PLANISPHERE_LISTEN_NOSQL_PORT", "2"), ("PLANISPHERE_LISTEN_BIND", "::1")];
    let flags = [("nosql-port", "3")];
    let settings = load_with(Some(file), &variables, &flags).unwrap();
    assert_eq!(settings.listen.port_numbers["nosql"], 3);
    assert_eq!(settings.listen.bind, Bind::Address("::1".parse().unwrap()));
    assert_eq!(settings.limits.idle_timeout_s, 7);
    assert_eq!(settings.limits.head_timeout_s, Settings::default().limits.head_timeout_s);
}

#[test]
fn errors_name_the_layer_and_the_reason() {
    let cases: &[(Result<Settings, String>, &[&str])] = &[
        (
            load_with(Some("[listen]\nnosql_prt = 1"), &[], &[]),
            &["settings.toml", "no key `nosql_prt`", "did you mean `nosql_port`?"],
        ),
        (
            load_with(Some("[storage]\nbind = \"::1\""), &[], &[]),
            &["settings.toml", "no key `bind`", "did you mean `bind` in [listen]?"],
        ),
        (
            load_with(Some("[listn]\nport = 1"), &[], &[]),
            &["settings.toml", "no section [listn]", "did you mean [listen]?"],
        ),
        (
            load_with(Some("[listen]\nbind = \"::1\"\nnosql_port = 70000"), &[], &[]),
            &["settings.toml", "listen.nosql_port", "`70000`", "0 to 65535"],
        ),
        (
            load_with(Some("[listen]\nnosql_port = \"x\""), &[], &[]),
            &["listen.nosql_port", "string \"x\" is not a whole number"],
        ),
        (load_with(Some("listen = 1"), &[], &[]), &["settings.toml", "is a section"]),
        (
            load_with(Some("[storage]\ndurability = \"no\""), &[], &[]),
            &["settings.toml", "relaxed"],
        ),
        (load_with(Some("# 1\nnot toml"), &[], &[]), &["settings.toml", "line 2"]),
        (
            load_with(None, &[("PLANISPHERE_LISTEN_NOSQL_PORT", "x")], &[]),
            &["PLANISPHERE_LISTEN_NOSQL_PORT", "whole number"],
        ),
        (load_with(None, &[("PLANISPHERE_LISTEN_PORTS", "all")], &[]), &["`fixed` or `auto`"]),
        (
            load_with(None, &[("PLANISPHERE_ENGINE_THROTLING", "off")], &[]),
            &["PLANISPHERE_ENGINE_THROTLING", "did you mean PLANISPHERE_ENGINE_THROTTLING?"],
        ),
        (
            load_with(None, &[], &[("nosql-port", "65536")]),
            &["--nosql-port: `65536` is out of range; it can be 0 to 65535"],
        ),
        (load_with(None, &[], &[("nosql-port", "-1")]), &["`-1` is out of range"]),
        (load_with(None, &[], &[("cache-bytes", "-1")]), &["--cache-bytes", "0 or more"]),
        (load_with(None, &[], &[("cache-bytes", "99999999999999999999")]), &["is too large"]),
        (load_with(None, &[], &[("bind", "example.org")]), &["--bind", "example.org"]),
        (load_with(None, &[], &[("throttling", "maybe")]), &["--throttling", "`off`"]),
        (load_with(None, &[], &[("limits", "documents")]), &["--limits", "`documents-2018`"]),
        (load_with(None, &[], &[("consistency", "Session")]), &["--consistency", "`session`"]),
        (load_with(None, &[], &[("region", "West_US")]), &["account.region", "`West_US`"]),
        (load_with(None, &[], &[("region", "")]), &["account.region", "West US"]),
        (load_with(None, &[], &[("memory", "perhaps")]), &["--memory", "neither true nor false"]),
        (load_with(None, &[], &[("idle-timeout-s", "0")]), &["idle_timeout_s", "out of range"]),
        (load_with(None, &[], &[("admin-idle-timeout-s", "86401")]), &["admin_idle", "86400"]),
        (load_with(None, &[], &[("public-endpoint", "db:1")]), &["public_endpoint", "URL"]),
        (load_with(None, &[], &[("direct", "on")]), &["--direct", "`on`", "`auto`", "`off`"]),
        (load_with(None, &[], &[("direct", "0")]), &["--direct", "`off` turns Direct mode off"]),
        (load_with(None, &[], &[("direct", "65536")]), &["--direct", "1 to 65535"]),
        (
            load_with(Some("[listen]\ndirect = -1"), &[], &[]),
            &["listen.direct", "`-1`", "1 to 65535"],
        ),
        (load_with(Some("[listen]\ndirect = true"), &[], &[]), &["listen.direct", "expected"]),
        (load_with(None, &[], &[("allow-host", "db,http://x/")]), &["allow_host", "`http://x/`"]),
    ];
    for (outcome, parts) in cases {
        let message = outcome.as_ref().unwrap_err();
        for part in *parts {
            assert!(message.contains(part), "{message:?} does not mention {part:?}");
        }
    }
}

#[test]
fn addresses_are_read_with_and_without_brackets() {
    let bind = |text: &str| Bind::try_from(text.to_owned());
    assert_eq!(bind("LOCALHOST"), Ok(Bind::Localhost));
    assert_eq!(bind("[::1]"), Ok(Bind::Address("::1".parse().unwrap())));
    assert!(bind("0.0.0.0").is_ok_and(|bind| !bind.is_loopback()));
    assert!(bind("127.1.2.3").is_ok_and(Bind::is_loopback));
}

#[test]
fn direct_mode_is_served_where_the_setting_says() {
    let listen = |file, flags: &[(&str, &str)]| load_with(file, &[], flags).unwrap().listen;
    let wires = |listen: &Listen, name| listen.wires_over_tls(named(name).unwrap());
    let auto = listen(None, &[]);
    assert_eq!(auto.direct, DirectMode::Auto);
    assert!(wires(&auto, "nosql").contains(&Wire::Rntbd));
    assert!(wires(&auto, "nosql_second").contains(&Wire::Rntbd));
    assert!(!wires(&auto, "table").contains(&Wire::Rntbd));
    assert_eq!(auto.port(named("direct").unwrap()), 0);

    let off = listen(None, &[("direct", "off")]);
    assert!(LISTENERS[..2].iter().all(|row| !off.wires_over_tls(row).contains(&Wire::Rntbd)));
    assert_eq!(off.port(named("direct").unwrap()), 0);

    for own in [
        listen(None, &[("direct", "10250"), ("port-offset", "5")]),
        listen(Some("[listen]\ndirect = 10250"), &[]),
        listen(Some("[listen]\ndirect = \"10250\""), &[]),
    ] {
        assert_eq!(own.port(named("direct").unwrap()), 10250);
        assert!(own.is_chosen(named("direct").unwrap()));
        assert!(!wires(&own, "nosql").contains(&Wire::Rntbd));
        assert_eq!(wires(&own, "direct"), [Wire::Rntbd]);
    }
}

#[test]
fn a_port_is_chosen_even_when_it_is_the_default() {
    let chosen = |file, variables, flags| {
        let listen = load_with(file, variables, flags).unwrap().listen;
        (listen.chosen_ports.contains("nosql"), listen.chosen_ports.contains("nosql_second"))
    };
    assert_eq!(chosen(None, &[], &[("ports", "auto")]), (false, false));
    assert_eq!(chosen(None, &[], &[("nosql-port", "8081")]), (true, false));
    assert_eq!(chosen(None, &[("PLANISPHERE_LISTEN_NOSQL_PORT", "8081")], &[]), (true, false));
    assert_eq!(chosen(None, &[], &[("nosql-second-port", "8903")]), (false, true));
    assert_eq!(chosen(Some("[listen]\nnosql_port = 9000"), &[], &[]), (true, false));
    assert_eq!(chosen(Some(DEFAULT_TOML), &[], &[]), (false, false));
}

#[test]
fn an_offset_moves_the_ports_that_were_left_at_their_defaults() {
    let ports = |flags| {
        let listen = load_with(None, &[], flags).unwrap().listen;
        let port = |name| listen.port_numbers[name];
        (port("nosql"), port("nosql_second"), (port("table"), port("table_storage")), port("admin"))
    };
    assert_eq!(ports(&[("port-offset", "100")]), (8181, 9003, (9002, 10102), 8185));
    let some = [("port-offset", "1"), ("nosql-port", "8081"), ("table-port", "0")];
    assert_eq!(ports(&some), (8081, 8904, (0, 10003), 8086));
    let error = load_with(None, &[], &[("port-offset", "38518")]).unwrap_err();
    assert!(error.contains("port_offset") && error.contains("0 to 38517"), "{error}");
}

#[test]
fn addresses_of_services_in_our_variables_are_not_settings() {
    let variables = [("PLANISPHERE_LISTEN_NOSQL_PORT", "tcp://10.0.0.1:8081")];
    let settings = load_with(None, &variables, &[]).unwrap();
    let nosql = named("nosql").unwrap();
    assert_eq!((settings.listen.port(nosql), settings.listen.is_chosen(nosql)), (8081, false));
    assert_eq!(settings.other_variables, ["PLANISPHERE_LISTEN_NOSQL_PORT"]);
}

#[test]
fn secrets_do_not_print() {
    let settings = load_with(None, &[], &[("key", "c2VjcmV0")]).unwrap();
    assert!(!format!("{settings:?}").contains("c2VjcmV0"));
    for line in ["key = c2VjcmV0", "key = \"c2VjcmV0", "key = \"a\"\nkey = \"c2VjcmV0\""] {
        let error = load_with(Some(&format!("[account]\n{line}\n")), &[], &[]).unwrap_err();
        assert!(!error.contains("c2VjcmV0"), "{error}");
    }
}
