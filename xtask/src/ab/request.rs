//! What the command line of `cargo xtask ab` asks for.

use std::path::PathBuf;

/// Told where the command was used wrongly.
pub const USAGE: &str = "\
usage: cargo xtask ab A B [--bench NAME] [--rounds N] [--json FILE] [--fail-above PERCENT] [--target FOLDER] [-- \
ARGUMENTS]

  A, B                  revisions (any name that git knows), or programs that are built already
  --bench NAME          tpch (default), scan, kernels, point, plan, load or queries
  --rounds N            runs of each, by turns (default 12; fewer than 6 can never tell a difference)
  --json FILE           write what was found
  --fail-above PERCENT  end with 1 when B is slower by more, beyond chance
  --target FOLDER       where cargo builds (default target/ab/build); one that holds the dependencies already saves \
    minutes
  -- ARGUMENTS          for the benchmark, for example: -- --data sf1/ --runs 1

Revisions are built in one work tree, target/ab/tree, and the programs kept in target/ab/bin, so that dependencies are
built once and each revision once.
";

/// The benchmarks whose figures are known.
const BENCHES: [&str; 7] = ["tpch", "scan", "kernels", "point", "plan", "load", "queries"];

/// A request.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Two revisions or programs.
    pub revisions: [String; 2],
    /// The benchmark.
    pub bench: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Runs of each revision.
    pub rounds: usize,
    /// Where to write what was found.
    pub json: Option<PathBuf>,
    /// The per cent that B may be slower.
    pub fail_above: Option<f64>,
    /// Where cargo builds.
    pub target: Option<PathBuf>,
}

impl Request {
    /// Reads the words after `ab`; the error says what is wrong with them.
    pub fn parse(words: &[&str]) -> Result<Request, String> {
        let (words, arguments) = match words.iter().position(|word| *word == "--") {
            Some(at) => (&words[..at], words[at + 1..].iter().map(|word| word.to_string()).collect()),
            None => (words, Vec::new()),
        };
        let mut request = Request {
            revisions: Default::default(),
            bench: "tpch".into(),
            arguments,
            rounds: 12,
            json: None,
            fail_above: None,
            target: None,
        };
        let mut revisions: Vec<&str> = Vec::new();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            if !word.starts_with("--") {
                revisions.push(word);
                continue;
            }
            let mut value = || words.next().copied().ok_or_else(|| format!("{word} needs a value"));
            match *word {
                "--bench" => request.bench = value()?.to_string(),
                "--rounds" => request.rounds = number(word, value()?, |n: &usize| (1..=10_000).contains(n))?,
                "--json" => request.json = Some(value()?.into()),
                "--fail-above" => request.fail_above = Some(number(word, value()?, |p: &f64| *p >= 0.0)?),
                "--target" => request.target = Some(value()?.into()),
                _ => return Err(format!("there is no flag {word}")),
            }
        }
        let [a, b] = revisions.as_slice() else {
            return Err(format!("two revisions are compared, and {} are given", revisions.len()));
        };
        request.revisions = [a.to_string(), b.to_string()];
        if !BENCHES.contains(&request.bench.as_str()) {
            return Err(format!("there is no benchmark {}; known are {}", request.bench, BENCHES.join(", ")));
        }
        Ok(request)
    }
}

fn number<T: std::str::FromStr>(flag: &str, text: &str, fits: impl Fn(&T) -> bool) -> Result<T, String> {
    text.parse().ok().filter(fits).ok_or_else(|| format!("{flag} {text}: that is no number it can take"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_and_mistakes_told() {
        let request = Request::parse(&[
            "main",
            "--rounds",
            "20",
            "HEAD",
            "--bench",
            "scan",
            "--fail-above",
            "5",
            "--",
            "--rows",
            "1000",
        ]);
        let request = request.expect("a request");
        assert_eq!(request.revisions, ["main", "HEAD"]);
        assert_eq!((request.bench.as_str(), request.rounds, request.fail_above), ("scan", 20, Some(5.0)));
        assert_eq!(request.arguments, ["--rows", "1000"]);
        for (words, piece) in [
            (&["main"][..], "two revisions"),
            (&["a", "b", "c"], "3 are given"),
            (&["a", "b", "--rounds"], "needs a value"),
            (&["a", "b", "--rounds", "0"], "--rounds 0"),
            (&["a", "b", "--fail-above", "-3"], "--fail-above -3"),
            (&["a", "b", "--bench", "sched"], "no benchmark sched"),
            (&["a", "b", "--quick"], "no flag --quick"),
        ] {
            let problem = Request::parse(words).expect_err(piece);
            assert!(problem.contains(piece), "{problem}");
        }
    }
}
