//! The command line of `cargo xtask crash`, as data.

use std::path::PathBuf;

/// What `--help` prints.
pub const USAGE: &str = "\
usage: cargo xtask crash [--kills N] [--seed S] [--program FILE]
       cargo xtask crash --power [--kills N] [--seed S] [--program FILE]
       cargo xtask crash --power --self-check [--program FILE]

Kills `nearside sql --database` while it writes, N times over one folder, and checks what is there. With --power it
writes in an emulated machine that is switched off, so what was not flushed to the disk is lost. Exit code 1 when
something that was acknowledged is missing, or something is there in part.

  --kills N       how often (1000; with --power 20)
  --seed S        of what is written and when it is killed (from the clock; it is printed)
  --program FILE  the program (`nearside` of the debug build)
  --power         switch a machine off in place of killing a process; needs the packages qemu-system-x86, e2fsprogs and
                  binutils, and the network for a kernel the first time
  --self-check    a disk that forgets what it was asked to flush, and commits that do not wait for it: what is missing
                  must be seen to be
";

/// How often a process is killed, or a machine switched off, where nothing is said.
const KILLS: usize = 1000;
const POWER_OFFS: usize = 20;

/// What was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// How often.
    pub kills: usize,
    /// Of everything that is drawn.
    pub seed: u64,
    /// The program, where it is not the debug build's.
    pub program: Option<PathBuf>,
    /// A machine is switched off.
    pub power: bool,
    /// Planted faults must be seen.
    pub self_check: bool,
}

impl Request {
    /// Reads the words after `crash`. The error is a sentence.
    pub fn parse(words: &[&str], seed: u64) -> Result<Request, String> {
        let mut request = Request { kills: 0, seed, program: None, power: false, self_check: false };
        let mut kills = None;
        let mut words = words.iter().copied();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
            match word {
                "--kills" => kills = Some(number(word, value()?)? as usize),
                "--seed" => request.seed = number(word, value()?)?,
                "--program" => request.program = Some(PathBuf::from(value()?)),
                "--power" => request.power = true,
                "--self-check" => request.self_check = true,
                _ => return Err(format!("there is no flag {word}")),
            }
        }
        if request.self_check && !request.power {
            return Err("--self-check belongs to --power".to_owned());
        }
        if request.self_check && kills.is_some() {
            return Err("--self-check switches off as often as it needs to, so it takes no --kills".to_owned());
        }
        request.kills = kills.unwrap_or(if request.power { POWER_OFFS } else { KILLS });
        Ok(request)
    }
}

fn number(flag: &str, value: &str) -> Result<u64, String> {
    value.parse().map_err(|_| format!("{flag} {value}: not a number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read() {
        let request = |words: &[&str]| Request::parse(words, 7);
        let usual = Request { kills: 1000, seed: 7, program: None, power: false, self_check: false };
        assert_eq!(request(&[]), Ok(usual.clone()));
        let all = request(&["--kills", "25", "--seed", "3", "--program", "p"]).unwrap();
        assert_eq!(all, Request { kills: 25, seed: 3, program: Some("p".into()), ..usual.clone() });
        assert_eq!(request(&["--power"]), Ok(Request { kills: 20, power: true, ..usual.clone() }));
        let all = request(&["--kills", "2", "--power"]).unwrap();
        assert_eq!(all, Request { kills: 2, power: true, ..usual });
        assert!(request(&["--power", "--self-check"]).unwrap().self_check);
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (words, says) in [
            (&["--kills"][..], "--kills needs a value"),
            (&["--kills", "x"], "--kills x: not a number"),
            (&["--kill", "1"], "there is no flag --kill"),
            (&["--self-check"], "belongs to --power"),
            (&["--power", "--self-check", "--kills", "3"], "takes no --kills"),
        ] {
            let problem = Request::parse(words, 7).unwrap_err();
            assert!(problem.contains(says), "{words:?}: {problem}");
        }
    }
}
