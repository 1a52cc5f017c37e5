//! Tests of opening listeners.

use std::collections::BTreeSet;

use super::*;
use crate::config::Settings;
use crate::listen::named;

fn listen(ports: Ports, first: u16, second: u16) -> Listen {
    let defaults = Settings::default().listen;
    let port = |listener: &Listener| match listener.name {
        "nosql" => first,
        "nosql_second" => second,
        _ => 0,
    };
    let port_numbers = LISTENERS.iter().map(|listener| (listener.name, port(listener)));
    let is_chosen = |(name, port): &(&str, u16)| match *name {
        "nosql" | "nosql_second" => defaults.port_numbers[name] != *port,
        name => name == "admin",
    };
    let chosen_ports = port_numbers.clone().filter(is_chosen).map(|(name, _)| name);
    let (port_numbers, chosen_ports) = (port_numbers.collect(), chosen_ports.collect());
    Listen { ports, chosen_ports, port_numbers, ..defaults }
}

fn set(listen: &mut Listen, name: &'static str, port: u16) {
    listen.port_numbers.insert(name, port);
}

/// A socket on a free port, and the port.
fn taken() -> (TcpListener, u16) {
    let taken = bind_socket("127.0.0.1:0".parse().unwrap()).unwrap();
    let port = taken.local_addr().unwrap().port();
    (taken, port)
}

fn bind_error(listen: &Listen) -> String {
    bind(listen).err().unwrap().to_string()
}

#[test]
fn the_second_port_belongs_to_the_default_ports_unless_chosen() {
    let second_port = |listen: &Listen| {
        let second = Wanted::new(named("nosql_second").unwrap(), listen);
        second.and_then(|second| second.port)
    };
    let second = |ports, first, second| second_port(&listen(ports, first, second));
    assert_eq!(second(Ports::Fixed, 8081, 8903), Some(8903));
    assert_eq!(second(Ports::Fixed, 9000, 8903), None);
    assert_eq!(second(Ports::Auto, 8081, 8903), None);
    assert_eq!(second(Ports::Fixed, 9000, 9001), Some(9001));
    assert_eq!(second(Ports::Auto, 8081, 9001), Some(9001));
    assert_eq!(second(Ports::Fixed, 8081, 0), None);
    let moved = Listen { port_offset: 7, ..listen(Ports::Fixed, 8088, 8910) };
    assert_eq!(second_port(&moved), Some(8910));
}

#[test]
fn clients_are_told_an_address_they_can_reach() {
    let told = |text: &str| reachable(text.parse().unwrap()).to_string();
    assert_eq!(told("0.0.0.0:1"), "127.0.0.1:1");
    assert_eq!(told("[::]:1"), "[::1]:1");
    assert_eq!(told("10.0.0.7:1"), "10.0.0.7:1");
}

#[tokio::test]
async fn a_free_port_is_free_on_both_loopback_addresses() {
    let sockets = bind_free(Bind::Localhost, false).unwrap();
    let ports: Vec<u16> =
        sockets.iter().map(|socket| socket.local_addr().unwrap().port()).collect();
    assert!(ports.iter().all(|port| *port == ports[0] && *port != 0));
}

#[tokio::test]
async fn a_taken_port_is_explained_with_its_flag() {
    let (_taken, port) = taken();
    let error = bind_error(&listen(Ports::Fixed, port, 0));
    for part in [&port.to_string(), "--nosql-port", "--port-offset", "--ports auto"] {
        assert!(error.contains(part), "{part}: {error}");
    }
    let mut listen = listen(Ports::Auto, 8081, 0);
    set(&mut listen, "admin", port);
    let error = bind_error(&listen);
    assert!(error.contains(&port.to_string()) && error.contains("--admin-port"), "{error}");
    assert!(error.contains("--ports auto"), "{error}");
}

#[tokio::test]
async fn a_taken_default_port_of_a_further_api_turns_that_api_off() {
    let (_taken, port) = taken();
    let first = named("nosql").unwrap().port;
    let (free, nosql) = loop {
        let (free, nosql) = taken();
        if nosql >= first {
            break (free, nosql);
        }
    };
    drop(free);
    for name in ["nosql_second", "table", "table_storage", "admin"] {
        let mut listen = listen(Ports::Fixed, nosql, 0);
        // All ports are moved together, so that the second port is among the defaults.
        (listen.port_offset, listen.chosen_ports) = (nosql - first, BTreeSet::new());
        set(&mut listen, name, port);
        let bound = bind(&listen).unwrap();
        let flag = format!("--{}-port N", name.replace('_', "-"));
        let [off] = bound.off.as_slice() else { panic!("{name}: {:?}", bound.off) };
        assert_eq!(off.listener.name, name);
        assert!(off.reason.contains(&port.to_string()), "{}", off.reason);
        assert!(off.reason.contains(&flag), "{}", off.reason);
        let open: Vec<&str> = bound.addresses.iter().map(|(row, _)| row.name).collect();
        assert_eq!(open, ["nosql"]);
        drop(bound);

        listen.chosen_ports = LISTENERS.iter().map(|listener| listener.name).collect();
        assert!(bind_error(&listen).contains(&flag), "{name}");
    }
}

#[tokio::test]
async fn a_default_port_gives_way_to_one_that_was_asked_for() {
    let (taken, port) = taken();
    drop(taken);
    let mut listen = listen(Ports::Fixed, 0, 0);
    set(&mut listen, "table", port);
    set(&mut listen, "admin", port);
    let bound = bind(&listen).unwrap();
    assert_eq!(bound.address("admin").map(|address| address.port()), Some(port));
    assert_eq!(bound.off[0].listener.name, "table");
    assert!(bound.off[0].reason.contains("--admin-port of this server"), "{:?}", bound.off);
}

#[tokio::test]
async fn the_admin_port_has_an_address_unless_it_is_turned_off() {
    let mut listen = listen(Ports::Auto, 8081, 0);
    assert_eq!(bind(&listen).unwrap().address("admin"), None);
    set(&mut listen, "admin", 8085);
    listen.chosen_ports.remove("admin");
    let bound = bind(&listen).unwrap();
    let admin = bound.address("admin").unwrap();
    assert!(admin.ip().is_loopback() && admin.port() != bound.address("nosql").unwrap().port());
}

#[tokio::test]
async fn each_flavour_of_tables_has_an_address_unless_it_is_turned_off() {
    let mut listen = listen(Ports::Auto, 8081, 0);
    set(&mut listen, "table_storage", 10002);
    let bound = bind(&listen).unwrap();
    let storage = bound.address("table_storage").unwrap();
    assert!(storage.ip().is_loopback() && storage.port() != bound.address("nosql").unwrap().port());
    assert_eq!((bound.address("table"), bound.off), (None, Vec::new()));

    let (_taken, port) = taken();
    set(&mut listen, "table", port);
    listen.chosen_ports.insert("table");
    assert!(bind_error(&listen).contains("--table-port"));
}

#[tokio::test]
async fn the_second_port_of_mongodb_is_the_one_after_the_first() {
    let port = |bound: &OpenListeners, name| bound.address(name).map(|address| address.port());
    let mut listen = listen(Ports::Auto, 8081, 0);
    set(&mut listen, "mongo", 27017);
    set(&mut listen, "mongo_second", 27018);
    let bound = bind(&listen).unwrap();
    let first = port(&bound, "mongo").unwrap();
    assert_eq!(port(&bound, "mongo_second"), first.checked_add(1));
    drop(bound);

    let (_taken, other) = taken();
    listen.chosen_ports.insert("mongo");
    set(&mut listen, "mongo", other - 1);
    // The port before may be another's, too; then nothing can be said.
    if let Ok(bound) = bind(&listen) {
        assert_eq!(port(&bound, "mongo"), Some(other - 1));
        assert_eq!(port(&bound, "mongo_second"), None);
        assert!(bound.off[0].reason.contains("--mongo-second-port N"), "{:?}", bound.off);
    }
    set(&mut listen, "mongo", 0);
    let bound = bind(&listen).unwrap();
    assert_eq!((port(&bound, "mongo"), port(&bound, "mongo_second")), (None, None));
    assert_eq!(bound.off, Vec::new());
}
