//! The names and addresses of the machine.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// Addresses of the documentation (RFC 5737, RFC 3849), which are elsewhere for every machine.
const ELSEWHERE: [(IpAddr, IpAddr); 2] = [
    (IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1))),
    (IpAddr::V6(Ipv6Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1))),
];

/// The addresses from which the machine would reach others, where it has any. A datagram socket is
/// only asked for its address: nothing is sent.
pub(crate) fn addresses() -> Vec<IpAddr> {
    let from = |(any, elsewhere): (IpAddr, IpAddr)| {
        let socket = UdpSocket::bind(SocketAddr::new(any, 0)).ok()?;
        socket.connect(SocketAddr::new(elsewhere, 9)).ok()?;
        Some(socket.local_addr().ok()?.ip())
    };
    let found = ELSEWHERE.into_iter().filter_map(from);
    found.filter(|address| !address.is_unspecified()).collect()
}

/// The host name of the machine.
#[cfg(unix)]
pub(crate) fn host_name() -> Option<String> {
    rustix::system::uname().nodename().to_str().ok().map(str::to_owned)
}

/// The host name of the machine.
#[cfg(not(unix))]
pub(crate) fn host_name() -> Option<String> {
    std::env::var("COMPUTERNAME").ok()
}

/// The memory of the machine in bytes.
#[cfg(target_os = "linux")]
pub(crate) fn memory_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes << 10)
}

/// The memory of the machine in bytes, where that is known.
#[cfg(not(target_os = "linux"))]
pub(crate) fn memory_bytes() -> Option<u64> {
    None
}

/// All names of the machine in its own files. A query to a name server would delay the start and
/// trust the server's answer. The resolver's search list depends on the network the machine is in,
/// whose owner could answer for its names too.
pub(crate) fn names() -> Vec<String> {
    let hosts = std::fs::read_to_string("/etc/hosts").unwrap_or_default();
    host_name().map(|name| names_of(&name, &hosts)).unwrap_or_default()
}

/// The names of the machine `name`, given the text of `/etc/hosts`.
fn names_of(name: &str, hosts: &str) -> Vec<String> {
    let label = name.split('.').next().unwrap_or(name);
    let mut names = vec![name.to_owned(), label.to_owned()];
    // A machine without its own name has none on its network either.
    if !label.eq_ignore_ascii_case("localhost") {
        names.push(format!("{label}.local"));
    }
    for line in hosts.lines() {
        let mut words = words_of(line).skip(1);
        let is_it =
            |word: &str| word.eq_ignore_ascii_case(name) || word.eq_ignore_ascii_case(label);
        if words.clone().any(is_it) {
            // Other names of the address belong to this machine only if they begin with its own.
            names.extend(words.by_ref().filter(|word| begins_with(word, label)).map(str::to_owned));
        }
    }
    names
}

fn words_of(line: &str) -> std::str::SplitWhitespace<'_> {
    line.split(['#', ';']).next().unwrap_or_default().split_whitespace()
}

fn begins_with(name: &str, label: &str) -> bool {
    name.split('.').next().is_some_and(|first| first.eq_ignore_ascii_case(label))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_known_by_what_its_files_say() {
        let hosts = "127.0.0.1 localhost\n\
                     10.0.0.7 db1.corp.example db1 backup # db1.evil.example\n\
                     10.0.0.8 db2.corp.example db2\n";
        let names = names_of("db1", hosts);
        let known = |name: &str| names.iter().any(|known| known == name);
        for name in ["db1", "db1.local", "db1.corp.example"] {
            assert!(known(name), "{name} in {names:?}");
        }
        for name in ["backup", "localhost", "db2", "db1.evil.example", "db1."] {
            assert!(!known(name), "{name} in {names:?}");
        }
        assert!(names_of("Db1.corp.example", "").contains(&"Db1".to_owned()));
    }

    #[test]
    fn a_machine_without_a_name_has_none_on_its_network() {
        let hosts = "127.0.0.1 localhost localhost.localdomain\n";
        assert_eq!(names_of("localhost", hosts)[2..], ["localhost", "localhost.localdomain"]);
        assert!(!names_of("Localhost.corp.example", "").contains(&"Localhost.local".to_owned()));
    }

    #[test]
    fn addresses_are_of_this_machine() {
        for address in addresses() {
            assert!(UdpSocket::bind(SocketAddr::new(address, 0)).is_ok(), "{address}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn this_machine_has_a_name() {
        assert!(names().contains(&host_name().unwrap()));
    }
}
