//! What can be set at the start, changed while a scheduler runs, and overridden per statement.
//!
//! Invariants: a [`Settings`] is plain data that fits into one word, so that a change is seen whole or not at all; a
//! change holds for tasks that are submitted after it. Names are those of `SET nearside.*` and of the papers.
//!
//! # Limits
//! `parallelism` is kept by `parallel_for` and by the concurrency hint, per operation; single tasks and batches are not
//! counted.
//!
//! Source: Psaroudakis et al., VLDB 2015, section 6 (OS, Target, Bound); Greinsmark 2020, section 2.5 (stealing off,
//! neighbour, any, bulk; binding none, preferred, opportunistic, always).

use std::fmt;
use std::str::FromStr;

/// A text that is no value of a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingError {
    setting: &'static str,
    given: String,
    allowed: String,
}

impl fmt::Display for SettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} cannot be '{}': choose one of {}", self.setting, self.given, self.allowed)
    }
}

impl std::error::Error for SettingError {}

/// A setting as a few bits of a word.
trait BitField {
    fn packed(self) -> u64;
    fn unpacked(word: u64) -> Self;
}

/// Declares a setting with a fixed list of values and their names.
macro_rules! setting {
    (
        $(#[$doc:meta])* $name:ident, $setting:literal
        { $($(#[$value_doc:meta])* $value:ident = $text:literal),+ $(,)? }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$value_doc])* $value),+ }

        impl $name {
            /// Every value, in order.
            pub const ALL: &[$name] = &[$($name::$value),+];

            /// The value's name, as `SET` takes and views show it.
            pub fn name(self) -> &'static str {
                match self { $($name::$value => $text),+ }
            }

        }

        impl BitField for $name {
            fn packed(self) -> u64 {
                self as u64
            }
            fn unpacked(word: u64) -> $name {
                $name::ALL[(word as usize).min($name::ALL.len() - 1)]
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }

        impl FromStr for $name {
            type Err = SettingError;
            fn from_str(text: &str) -> Result<$name, SettingError> {
                let found = $name::ALL.iter().copied().find(|value| value.name().eq_ignore_ascii_case(text.trim()));
                found.ok_or_else(|| SettingError {
                    setting: $setting,
                    given: text.trim().to_owned(),
                    allowed: $name::ALL.iter().map(|value| value.name()).collect::<Vec<_>>().join(", "),
                })
            }
        }
    };
}

setting! {
    /// Whom an idle worker may steal from. Groups of its own node it always helps, and hard tasks nobody ever steals.
    #[derive(Default)]
    Stealing, "stealing" {
        /// No node helps another one.
        Off = "off",
        /// The other nodes of its package; where it has none, the nearest nodes.
        #[default]
        Neighbour = "neighbour",
        /// Every node, the nearest first.
        Any = "any",
    }
}

setting! {
    /// How much a thief takes.
    #[derive(Default)]
    StealAmount, "steal" {
        /// One task.
        #[default]
        One = "one",
        /// Up to half of what the victim has of its most urgent statement.
        Bulk = "bulk",
    }
}

setting! {
    /// When worker threads are pinned to the cpus of their thread group.
    #[derive(Default)]
    Binding, "binding" {
        /// Never: the operating system places them.
        None = "none",
        /// While they run a task with an affinity.
        Preferred = "preferred",
        /// As preferred, and also while they run the direct children of a task with an affinity.
        #[default]
        Opportunistic = "opportunistic",
        /// From their start to their end.
        Always = "always",
    }
}

setting! {
    /// What becomes of the affinities that tasks ask for. A slot's private tasks always go to their slot.
    #[derive(Default)]
    Affinities, "affinities" {
        /// Nothing: every task may run anywhere.
        Ignored = "ignored",
        /// All are soft.
        Soft = "soft",
        /// As asked for; soft ones whose hint says that they are memory-intensive become hard.
        #[default]
        Weighed = "weighed",
        /// All are hard.
        Hard = "hard",
    }
}

setting! {
    /// The three strategies of VLDB 2015, section 6.
    Preset, "scheduling" {
        /// No affinities, no binding: the operating system places the threads.
        Os = "os",
        /// Soft affinities: tasks go to their data and may be stolen from there.
        Target = "target",
        /// Hard affinities: tasks never leave their data.
        Bound = "bound",
    }
}

/// Everything that can be changed while a scheduler runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// What becomes of affinities.
    pub affinities: Affinities,
    /// Whom an idle worker may steal from.
    pub stealing: Stealing,
    /// How much a thief takes.
    pub steal: StealAmount,
    /// When workers are pinned.
    pub binding: Binding,
    /// The most tasks of one operation at a time; 0 is no limit, 1 switches parallelism within a statement off. At most
    /// 65,535.
    pub parallelism: u16,
    /// From how many bytes per microsecond of cpu time a task is memory-intensive; 0 is never. See
    /// [`crate::Calibration`]. At most 2^31 - 1.
    pub memory_intensive_bytes_per_us: u32,
}

impl Settings {
    /// The settings of a strategy.
    pub fn preset(preset: Preset) -> Settings {
        let settings = Settings::default();
        match preset {
            Preset::Os => Settings {
                affinities: Affinities::Ignored,
                stealing: Stealing::Any,
                binding: Binding::None,
                ..settings
            },
            Preset::Target => Settings { affinities: Affinities::Soft, stealing: Stealing::Any, ..settings },
            Preset::Bound => Settings { affinities: Affinities::Hard, stealing: Stealing::Any, ..settings },
        }
    }

    /// Which strategy these settings are, apart from parallelism and the threshold.
    pub fn strategy(&self) -> Option<Preset> {
        let like = |preset: &Preset| {
            let Settings { affinities, stealing, steal, binding, .. } = Settings::preset(*preset);
            (affinities, stealing, steal, binding) == (self.affinities, self.stealing, self.steal, self.binding)
        };
        Preset::ALL.iter().copied().find(like)
    }

    /// All of it in one word; never 0.
    pub(crate) fn to_word(self) -> u64 {
        let memory = u64::from(self.memory_intensive_bytes_per_us).min((1 << 31) - 1);
        1 | self.affinities.packed() << 1
            | self.stealing.packed() << 4
            | self.steal.packed() << 7
            | self.binding.packed() << 9
            | u64::from(self.parallelism) << 12
            | memory << 28
    }

    /// The settings in a word, or `None` for 0.
    pub(crate) fn from_word(word: u64) -> Option<Settings> {
        (word != 0).then(|| Settings {
            affinities: Affinities::unpacked(word >> 1 & 7),
            stealing: Stealing::unpacked(word >> 4 & 7),
            steal: StealAmount::unpacked(word >> 7 & 3),
            binding: Binding::unpacked(word >> 9 & 7),
            parallelism: (word >> 12) as u16,
            memory_intensive_bytes_per_us: (word >> 28 & ((1 << 31) - 1)) as u32,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_fits_a_word_and_comes_back() {
        for affinities in Affinities::ALL {
            for stealing in Stealing::ALL {
                for steal in StealAmount::ALL {
                    for binding in Binding::ALL {
                        for (parallelism, memory) in [(0, 0), (1, 7), (u16::MAX, (1 << 31) - 1)] {
                            let settings = Settings {
                                affinities: *affinities,
                                stealing: *stealing,
                                steal: *steal,
                                binding: *binding,
                                parallelism,
                                memory_intensive_bytes_per_us: memory,
                            };
                            assert_eq!(Settings::from_word(settings.to_word()), Some(settings));
                        }
                    }
                }
            }
        }
        assert_eq!(Settings::from_word(0), None);
    }

    #[test]
    fn names_are_read_back_and_a_wrong_one_says_what_is_right() {
        for preset in Preset::ALL {
            assert_eq!(preset.name().to_uppercase().parse(), Ok(*preset));
            assert_eq!(Settings::preset(*preset).strategy(), Some(*preset));
        }
        assert_eq!(Settings::default().strategy(), None);
        let error = "some".parse::<Stealing>().unwrap_err().to_string();
        assert_eq!(error, "stealing cannot be 'some': choose one of off, neighbour, any");
    }
}
