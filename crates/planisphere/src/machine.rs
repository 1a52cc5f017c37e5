//! The names of the machine.

/// What the machine calls itself.
#[cfg(unix)]
pub(crate) fn host_name() -> Option<String> {
    rustix::system::uname().nodename().to_str().ok().map(str::to_owned)
}

/// What the machine calls itself.
#[cfg(not(unix))]
pub(crate) fn host_name() -> Option<String> {
    std::env::var("COMPUTERNAME").ok()
}

/// All names by which others may know the machine, the fully qualified one included: what its own
/// files say, since asking a name server would keep the start waiting, and trust its answer.
pub(crate) fn names() -> Vec<String> {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    host_name()
        .map(|name| names_of(&name, &read("/etc/hosts"), &read("/etc/resolv.conf")))
        .unwrap_or_default()
}

/// The names of the machine `name`, given what the two files say.
fn names_of(name: &str, hosts: &str, resolver: &str) -> Vec<String> {
    let label = name.split('.').next().unwrap_or(name);
    let mut names = vec![name.to_owned(), label.to_owned(), format!("{label}.local")];
    for line in hosts.lines() {
        let mut words = words_of(line).skip(1);
        let is_it =
            |word: &str| word.eq_ignore_ascii_case(name) || word.eq_ignore_ascii_case(label);
        if words.clone().any(is_it) {
            // Other names of the address are this machine's only if they begin like its own.
            names.extend(words.by_ref().filter(|word| begins_with(word, label)).map(str::to_owned));
        }
    }
    // Who decides about the search list must not decide what every machine without a name is called.
    let resolver = if label.eq_ignore_ascii_case("localhost") { "" } else { resolver };
    for line in resolver.lines() {
        let mut words = words_of(line);
        if matches!(words.next(), Some("search" | "domain")) {
            let domains = words.map(|domain| domain.trim_matches('.'));
            names.extend(
                domains
                    .filter(|domain| !domain.is_empty())
                    .map(|domain| format!("{label}.{domain}")),
            );
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
        let resolver = "nameserver 10.0.0.1\nsearch lab.example.\toffice.example ; x.example\n";
        let names = names_of("db1", hosts, resolver);
        let known = |name: &str| names.iter().any(|known| known == name);
        for name in
            ["db1", "db1.local", "db1.corp.example", "db1.lab.example", "db1.office.example"]
        {
            assert!(known(name), "{name} in {names:?}");
        }
        for name in ["backup", "localhost", "db2", "db1.evil.example", "db1.x.example", "db1."] {
            assert!(!known(name), "{name} in {names:?}");
        }
        assert!(!names_of("localhost", "", resolver).contains(&"localhost.lab.example".to_owned()));
        assert!(names_of("Db1.corp.example", "", "").contains(&"Db1".to_owned()));
    }

    #[cfg(unix)]
    #[test]
    fn this_machine_has_a_name() {
        assert!(names().contains(&host_name().unwrap()));
    }
}
