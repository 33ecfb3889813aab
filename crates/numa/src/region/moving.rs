//! Smallest local form of placing regions anew; replaced by the crate's own.
use std::ops::Range;

use crate::error::MemoryError;
use crate::policy::Policy;
use crate::region::Region;

/// What a move did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Moved {
    /// Bytes that moved.
    pub moved_bytes: u64,
    /// Bytes that were there.
    pub already_bytes: u64,
    /// Bytes that would not move.
    pub stuck_bytes: u64,
}

/// Why a move ended.
#[derive(Debug, thiserror::Error)]
pub enum MoveError {
    /// Asked to stop.
    #[error("stopped")]
    Stopped,
    /// No memory.
    #[error(transparent)]
    Memory(#[from] MemoryError),
}

/// A placement to return to.
#[derive(Debug, Clone)]
pub struct RegionPlacement(Policy);

impl Region {
    /// Whether its pages can move.
    pub fn is_movable(&self) -> bool {
        self.held_bytes() >= 64 << 10
    }

    /// Moves its pages.
    pub fn place(&self, policy: &Policy, stop: &dyn Fn() -> bool) -> Result<Moved, MoveError> {
        if stop() {
            return Err(MoveError::Stopped);
        }
        self.set_policy(policy.clone());
        Ok(Moved { already_bytes: self.held_bytes() as u64, ..Moved::default() })
    }

    /// Moves a range.
    pub fn place_range(&self, bytes: Range<usize>, _: &Policy, stop: &dyn Fn() -> bool) -> Result<Moved, MoveError> {
        if stop() {
            return Err(MoveError::Stopped);
        }
        self.set_policy(self.policy());
        Ok(Moved { already_bytes: bytes.len() as u64, ..Moved::default() })
    }

    /// Where it is.
    pub fn snapshot(&self) -> RegionPlacement {
        RegionPlacement(self.policy())
    }

    /// Back.
    pub fn restore(&self, to: &RegionPlacement) -> Moved {
        self.set_policy(to.0.clone());
        Moved::default()
    }
}

/// The node of this thread.
pub fn current_node() -> Option<crate::ids::NodeId> {
    Some(crate::ids::NodeId(0))
}
