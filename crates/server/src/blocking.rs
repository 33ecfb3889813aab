//! What a session does for somebody who may go away meanwhile: on a thread for such work, and cancelled with him.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nearside::{CancelHandle, Session};

use crate::fault::{Fault, codes};
use crate::shared::Shared;

/// How often who has gone asks for the end of what runs for him, until it has ended.
const AGAIN: Duration = Duration::from_millis(10);

/// Cancels what a session runs when nobody waits for it any more.
struct Waiting {
    handle: CancelHandle,
    is_over: Arc<AtomicBool>,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if self.is_over.load(Ordering::Acquire) {
            return;
        }
        let (handle, is_over) = (self.handle.clone(), Arc::clone(&self.is_over));
        // The session may not have the statement yet: it is cancelled again until it is over.
        tokio::spawn(async move {
            while !is_over.load(Ordering::Acquire) {
                handle.cancel();
                tokio::time::sleep(AGAIN).await;
            }
        });
    }
}

/// Says that something is over, however it ends.
struct Over(Arc<AtomicBool>);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Has a session do something that may block; the future's end is that of what runs. Outside of a transaction it takes
/// one of the turns for such work; in one it does not wait, since others may wait for the transaction's locks.
///
/// # Errors
/// What the work says; a panic.
pub async fn blocking<T: Send + 'static>(
    session: &Session,
    shared: &Shared,
    work: impl FnOnce(&Session) -> Result<T, Fault> + Send + 'static,
) -> Result<T, Fault> {
    let session = session.part();
    let turn = match session.transaction() {
        Some(_) => None,
        None => Arc::clone(&shared.turns).acquire_owned().await.ok(),
    };
    let is_over = Arc::new(AtomicBool::new(false));
    let _waiting = Waiting { handle: session.cancel_handle(), is_over: Arc::clone(&is_over) };
    let over = Over(is_over);
    let done = tokio::task::spawn_blocking(move || {
        let _over = over;
        let done = work(&session);
        drop(turn);
        done
    });
    done.await.unwrap_or_else(|_| Err(panicked()))
}

/// A thread that ran a statement is gone.
pub fn panicked() -> Fault {
    Fault::new(codes::INTERNAL_ERROR, "internal error (please report it): a statement panicked")
}
