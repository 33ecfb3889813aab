//! What tasks say about the memory that they touched.

use numa::NodeId;

use crate::runtime::here;
use crate::statement::Statement;

/// Says that a task of `statement`, on the calling thread, touched `n` bytes that lie on `node`, as the page map
/// tells. They are counted as local or remote for its worker, its node and its statement. Does nothing on a thread that
/// is no worker.
pub fn report_bytes(statement: &Statement, node: NodeId, bytes: u64) {
    let Some(here) = here() else { return };
    let local = here.shared.layout.group(here.worker.group).node == node;
    here.worker.meter.count_bytes(local, bytes);
    statement.tally().bytes(local, bytes);
}
