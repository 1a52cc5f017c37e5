//! The names of the machine.

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

    #[cfg(unix)]
    #[test]
    fn this_machine_has_a_name() {
        assert!(names().contains(&host_name().unwrap()));
    }
}
