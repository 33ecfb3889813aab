//! What packages are made of fits the program.

use std::fs;
use std::path::{Path, PathBuf};

use crate::program::run;

fn packaging() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging")
}

/// The words behind `nearside serve` in a line of a file.
fn options(text: &str) -> Vec<String> {
    text.split_whitespace().filter(|word| word.starts_with("--")).map(str::to_string).collect()
}

#[test]
fn the_unit_s_command_line_is_one_of_the_program_s() {
    let unit = fs::read_to_string(packaging().join("systemd/nearside.service")).unwrap();
    let value = |name: &str| {
        let found = unit.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        found.unwrap_or_else(|| panic!("the unit says no {name}")).to_string()
    };
    let start = value("ExecStart");
    assert!(start.starts_with("/usr/bin/nearside serve --settings /etc/nearside/nearside.toml"), "{start}");
    let help = run(&["serve", "--help"]).ok();
    for option in options(&start) {
        assert!(help.contains(&option), "{option}");
    }
    // The folders of the settings are those that the unit has made.
    let settings = fs::read_to_string(packaging().join("nearside.toml")).unwrap();
    assert!(settings.contains(&format!("\"/var/lib/{}/", value("StateDirectory"))), "{settings}");
    assert!(settings.contains(&format!("\"/run/{}\"", value("RuntimeDirectory"))), "{settings}");
    for (name, is) in [("NoNewPrivileges", "yes"), ("ProtectSystem", "strict"), ("AmbientCapabilities", "")] {
        assert_eq!(value(name), is, "{name}");
    }
}

#[test]
fn what_the_packages_are_made_of_is_there() {
    let manifest = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml")).unwrap();
    let mut found = 0;
    for path in manifest.split('"').filter(|text| text.starts_with("../../")) {
        assert!(Path::new(env!("CARGO_MANIFEST_DIR")).join(path).exists(), "{path}");
        found += 1;
    }
    assert!(found >= 6, "{found}");
    let containerfile = fs::read_to_string(packaging().join("Containerfile")).unwrap();
    let copied = containerfile.lines().filter_map(|line| line.strip_prefix("COPY packaging/"));
    let copied: Vec<&str> = copied.filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(copied, ["nearside.toml"]);
    assert!(containerfile.lines().any(|line| line == "USER 10001:10001"), "it runs as root");
}
