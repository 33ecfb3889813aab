//! The command line of `cargo xtask vm`, as data.

use std::path::PathBuf;
use std::time::Duration;

use super::machine::{Machine, parse_distances};

/// What the command can be told.
pub const USAGE: &str = "\
usage: cargo xtask vm [flags] -- TEST ..
       cargo xtask vm --self-check     a machine whose tests must fail, each in its way

Runs test binaries in an emulated machine of several nodes. Needs qemu-system-x86 (a Debian package of that name).

TEST is one of
  NAME[/TARGET][:FILTERS]   the tests of crates/NAME (or of one target, like sched/it); FILTERS are parts of test names,
                            separated by commas; a leading - leaves matching tests out: numa:region,-fill
  fill                      the tests that fill nodes to the brim, alone
  sql:FILE                  the program `nearside` runs the SQL of FILE
  PATH[:FILTERS]            a test binary that is built already; PATH begins with / or ./

flags:
  --nodes N           nodes, 1 to 16 [4]
  --cpuless           the last node gets no cpus
  --cpus N            cpus of each node that has some [1]
  --packages N        packages that the nodes are split over [one per node]
  --memory MIB        memory of each node [512]
  --distances ROWS    like 10,21/21,10 [made from the packages]
  --timeout S         seconds that all may take, boot included [300]
  --test-threads N    tests at a time in each binary [1: tests with threads of their own get in each other's way when \
    emulated]
  --env NAME=VALUE    set for every test
  --append WORDS      more words for the kernel's command line
  --workspace         build the whole workspace, as `cargo test --workspace` does; else only the packages of the tests
  --kernel FILE       a kernel image [Debian's or Ubuntu's kernel for clouds, fetched with apt-get, not installed]
  --nearside FILE     the program for sql: [built]
  --verbose           print all that the tests print
";

/// What to boot and what to run there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The machine.
    pub machine: Machine,
    /// In the order of the command line.
    pub tests: Vec<Test>,
    /// From the start of QEMU to its end.
    pub timeout: Duration,
    /// Tests at a time in each binary.
    pub test_threads: u32,
    /// Set for every test.
    pub environment: Vec<(String, String)>,
    /// Build everything, so that features are those of the workspace.
    pub workspace: bool,
    /// A kernel image instead of the fetched one.
    pub kernel: Option<PathBuf>,
    /// A program instead of the built one, for SQL.
    pub nearside: Option<PathBuf>,
    /// Print all output.
    pub verbose: bool,
    /// Run what must fail instead of `tests`.
    pub self_check: bool,
}

/// One TEST of the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Test {
    /// As the user wrote it.
    pub text: String,
    /// What runs.
    pub what: What,
    /// Parts of test names, one of which must match; none: all tests.
    pub filters: Vec<String>,
    /// Parts of test names that are left out.
    pub left_out: Vec<String>,
    /// Whether nodes are filled: one test at a time, and the tests are told.
    pub fill: bool,
}

/// What a test runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// Test binaries of the package in the folder of this name, or one of them.
    Package { folder: String, target: Option<String> },
    /// A test binary that is there already.
    Binary(PathBuf),
    /// A file of SQL statements.
    Sql(PathBuf),
}

impl Request {
    /// Reads the words after `vm`. The error is a sentence.
    pub fn parse(words: &[&str]) -> Result<Request, String> {
        let mut request = Request {
            machine: Machine::default(),
            tests: Vec::new(),
            timeout: Duration::from_secs(300),
            test_threads: 1,
            environment: Vec::new(),
            workspace: false,
            kernel: None,
            nearside: None,
            verbose: false,
            self_check: false,
        };
        let mut words = words.iter().copied();
        while let Some(word) = words.next() {
            match word {
                "--" => {
                    request.tests = words.by_ref().map(Test::parse).collect::<Result<_, _>>()?;
                }
                _ if word.starts_with("--") => request.flag(word, &mut || words.next())?,
                _ => return Err(format!("`{word}` is no flag; tests follow a `--`")),
            }
        }
        match (request.tests.is_empty(), request.self_check) {
            (true, false) => return Err("a test is missing; name some after a `--`".to_owned()),
            (false, true) => return Err("--self-check brings its own tests".to_owned()),
            _ => {}
        }
        request.machine.check()?;
        Ok(request)
    }

    fn flag<'a>(&mut self, flag: &str, next: &mut dyn FnMut() -> Option<&'a str>) -> Result<(), String> {
        let machine = &mut self.machine;
        match flag {
            "--cpuless" => machine.cpuless = true,
            "--workspace" => self.workspace = true,
            "--verbose" => self.verbose = true,
            "--self-check" => {
                self.self_check = true;
                // Small, since one of its tests eats all memory.
                (machine.nodes, machine.node_mib) = (2, 192);
            }
            "--nodes" | "--cpus" | "--packages" | "--memory" | "--timeout" | "--test-threads" => {
                let value = value_of(flag, next)?;
                let number: u32 = value.parse().map_err(|_| format!("{flag}: `{value}` is no whole number"))?;
                match flag {
                    "--nodes" => machine.nodes = number,
                    "--cpus" => machine.cpus_per_node = number,
                    "--packages" => machine.packages = Some(number),
                    "--memory" => machine.node_mib = number,
                    "--timeout" => self.timeout = Duration::from_secs(number.into()),
                    _ if number == 0 => return Err("--test-threads is at least 1".to_owned()),
                    _ => self.test_threads = number,
                }
            }
            "--distances" => machine.distances = Some(parse_distances(value_of(flag, next)?)?),
            "--append" => {
                machine.kernel_words.extend(value_of(flag, next)?.split_whitespace().map(str::to_owned));
            }
            "--env" => {
                let value = value_of(flag, next)?;
                let (name, value) = value.split_once('=').ok_or(format!("--env: `{value}` has no ="))?;
                self.environment.push((name.to_owned(), value.to_owned()));
            }
            "--kernel" => self.kernel = Some(value_of(flag, next)?.into()),
            "--nearside" => self.nearside = Some(value_of(flag, next)?.into()),
            _ => return Err(format!("vm knows no flag {flag}")),
        }
        Ok(())
    }
}

impl Test {
    /// Reads one TEST.
    pub fn parse(text: &str) -> Result<Test, String> {
        let fill = text == "fill";
        let (what, filters) = match text {
            "fill" => ("numa", Some("fill")),
            _ => text.split_once(':').map_or((text, None), |(what, filters)| (what, Some(filters))),
        };
        let mut test = Test {
            text: text.to_owned(),
            what: What::Package { folder: what.to_owned(), target: None },
            filters: Vec::new(),
            left_out: Vec::new(),
            fill,
        };
        if what == "sql" {
            let file = filters.filter(|file| !file.is_empty()).ok_or("sql: names no file; write sql:FILE")?;
            test.what = What::Sql(file.into());
            return Ok(test);
        }
        for filter in filters.iter().flat_map(|filters| filters.split(',')) {
            let (list, filter) = match filter.strip_prefix('-') {
                Some(filter) => (&mut test.left_out, filter),
                None => (&mut test.filters, filter),
            };
            if filter.is_empty() {
                return Err(format!("`{text}` has an empty filter"));
            }
            list.push(filter.to_owned());
        }
        if what.starts_with('/') || what.starts_with("./") {
            test.what = What::Binary(what.into());
        } else if let Some((folder, target)) = what.split_once('/') {
            test.what = What::Package { folder: folder.to_owned(), target: Some(target.to_owned()) };
        } else if what.is_empty() {
            return Err(format!("`{text}` names no test"));
        }
        Ok(test)
    }

    /// The arguments for libtest, but for how many tests run at a time.
    pub fn libtest_arguments(&self) -> Vec<String> {
        let mut arguments: Vec<String> = ["--color", "never", "--show-output"].map(str::to_owned).into();
        for name in &self.left_out {
            arguments.extend(["--skip".to_owned(), name.clone()]);
        }
        arguments.extend(self.filters.iter().cloned());
        arguments
    }
}

fn value_of<'a>(flag: &str, next: &mut dyn FnMut() -> Option<&'a str>) -> Result<&'a str, String> {
    next().filter(|value| *value != "--").ok_or_else(|| format!("{flag} needs a value"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_and_tests_are_read() {
        let request = Request::parse(&[
            "--nodes",
            "3",
            "--cpuless",
            "--memory",
            "640",
            "--env",
            "A=b=c",
            "--append",
            "x=1 y",
            "--",
            "numa:region,-fill",
            "sched/it",
            "fill",
            "sql:a/b.sql",
            "./t:x",
        ])
        .unwrap();
        assert_eq!((request.machine.nodes, request.machine.cpuless, request.machine.node_mib), (3, true, 640));
        assert_eq!(request.environment, [("A".to_owned(), "b=c".to_owned())]);
        assert_eq!(request.machine.kernel_words, ["x=1", "y"]);
        let package = |folder: &str, target: Option<&str>| What::Package {
            folder: folder.into(),
            target: target.map(Into::into),
        };
        let whats: Vec<&What> = request.tests.iter().map(|test| &test.what).collect();
        assert_eq!(
            whats,
            [
                &package("numa", None),
                &package("sched", Some("it")),
                &package("numa", None),
                &What::Sql("a/b.sql".into()),
                &What::Binary("./t".into())
            ]
        );
        assert_eq!(
            request.tests[0].libtest_arguments(),
            ["--color", "never", "--show-output", "--skip", "fill", "region"]
        );
        assert!(request.tests[2].fill && !request.tests[0].fill);
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (words, says) in [
            (&[][..], "a test is missing"),
            (&["--"], "a test is missing"),
            (&["numa"], "follow a `--`"),
            (&["--nodes", "--", "numa"], "--nodes needs a value"),
            (&["--nodes", "many", "--", "numa"], "`many`"),
            (&["--nodes", "99", "--", "numa"], "--nodes is 99"),
            (&["--node", "9", "--", "numa"], "no flag --node"),
            (&["--env", "A", "--", "numa"], "no ="),
            (&["--", "sql:"], "no file"),
            (&["--", "numa:a,,b"], "empty filter"),
            (&["--", ":a"], "names no test"),
            (&["--self-check", "--", "numa"], "its own tests"),
        ] {
            let problem = Request::parse(words).unwrap_err();
            assert!(problem.contains(says), "{words:?}: {problem}");
        }
    }
}
