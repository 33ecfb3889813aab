//! What a process listens to here: signals, and addresses that no other machine reaches.

use std::io;
use std::net::SocketAddr;

/// Waits for SIGTERM or SIGINT.
pub async fn told_to_end() -> io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}

/// Fails for an address that other machines reach where nothing is encrypted.
pub fn is_of_this_machine(address: &SocketAddr) -> io::Result<()> {
    match address.ip().is_loopback() {
        true => Ok(()),
        false => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!(
                "{address} can be reached by other machines, and nothing would be encrypted there: give a certificate \
                 and its key, or listen on an address of this machine alone, like 127.0.0.1:8080"
            ),
        )),
    }
}
