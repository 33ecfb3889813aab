//! Wrapped ids of the machine's pieces, so that a cpu number is never taken for a node number.
//!
//! The numbers are the kernel's own and may be sparse: an id is a name, not an index. Each serializes as a plain
//! number.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u32);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl From<u32> for $name {
            fn from(id: u32) -> Self {
                $name(id)
            }
        }
    };
}

id! {
    /// A NUMA node as the OS numbers it.
    NodeId
}
id! {
    /// A cpu (hardware thread) as the OS numbers it.
    CpuId
}
id! {
    /// A package (physical socket) as the OS numbers it.
    PackageId
}
