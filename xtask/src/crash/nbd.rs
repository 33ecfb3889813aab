//! Gives a [`Disk`] to QEMU, over a socket in the protocol of network block devices, until it is switched off.
//!
//! Protocol: NetworkBlockDevice/nbd, `doc/proto.md`: the fixed newstyle handshake with `NBD_OPT_GO`, then requests with
//! simple replies. So each write and each flush passes here, in the order in which the machine was told that it is
//! done, and no cache lies between.
//!
//! # Limits
//! One client, one export whatever its name, one request at a time; reading, writing (with force) and flushing.

use std::io::{self, ErrorKind, Read, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::disk::{BLOCK_BYTES, Disk};

const GREETING: u64 = u64::from_be_bytes(*b"NBDMAGIC");
const OPTION: u64 = u64::from_be_bytes(*b"IHAVEOPT");
const OPTION_REPLY: u64 = 0x0003_E889_0455_65A9;
const REQUEST: u32 = 0x2560_9513;
const REPLY: u32 = 0x6744_6698;

/// Fixed newstyle, without the zeros that end an old handshake.
const HANDSHAKE_FLAGS: u16 = 0b11;
const OPTION_ABORT: u32 = 2;
const OPTION_GO: u32 = 7;
const REPLY_ACK: u32 = 1;
const REPLY_INFO: u32 = 3;
const REPLY_UNSUPPORTED: u32 = 0x8000_0001;
const INFO_EXPORT: u16 = 0;
const INFO_BLOCK_SIZE: u16 = 3;
/// Has flags, can flush, can force.
const EXPORT_FLAGS: u16 = 0b1101;

const READ: u16 = 0;
const WRITE: u16 = 1;
const DISCONNECT: u16 = 2;
const FLUSH: u16 = 3;
const FORCED: u16 = 1;
const INVALID: u32 = 22;

/// An option or request that is longer is no honest one; QEMU asks for 32 MiB at most.
const LENGTH_MAX: u32 = 64 << 20;

/// A disk and its switch, which both sides hold.
#[derive(Debug)]
pub struct Plug(Mutex<Plugged>);

#[derive(Debug)]
struct Plugged {
    disk: Disk,
    /// Requests that change the disk and are answered in any case; absent: all.
    left: Option<usize>,
    off: bool,
}

impl Plug {
    /// The disk, with power.
    pub fn new(disk: Disk) -> Plug {
        Plug(Mutex::new(Plugged { disk, left: None, off: false }))
    }

    /// Lets the power go after so many more writes and flushes, or those that were said before, if they are fewer, once
    /// the next flush is asked for: then most is in the cache, and what is lost of it may also be what a power-off
    /// between two writes would have lost.
    pub fn off_after(&self, requests: usize) {
        let mut plugged = self.plugged();
        plugged.left = Some(plugged.left.map_or(requests, |left| left.min(requests)));
    }

    /// Lets the power go.
    pub fn off(&self) {
        self.plugged().off = true;
    }

    /// Whether the power is gone.
    pub fn is_off(&self) -> bool {
        self.plugged().off
    }

    /// The disk, once nobody else has it.
    pub fn into_disk(self) -> Disk {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner).disk
    }

    /// Does a request; the answer is an error of the protocol and data, or nothing where the power is gone.
    fn answer(&self, request: &Request, data: &[u8]) -> Option<(u32, Vec<u8>)> {
        let mut plugged = self.plugged();
        let forced = request.kind == WRITE && request.flags & FORCED != 0;
        plugged.off |= plugged.left == Some(0) && (forced || request.kind == FLUSH);
        if plugged.off {
            return None;
        }
        let mut read = Vec::new();
        let done = match request.kind {
            READ => {
                read.resize(request.length as usize, 0);
                plugged.disk.read_at(request.from, &mut read)
            }
            WRITE => plugged.disk.write_at(request.from, data, forced),
            FLUSH => {
                plugged.disk.flush();
                true
            }
            _ => false,
        };
        if request.kind != READ {
            plugged.left = plugged.left.map(|left| left.saturating_sub(1));
        }
        if done { Some((0, read)) } else { Some((INVALID, Vec::new())) }
    }

    fn plugged(&self) -> MutexGuard<'_, Plugged> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Request {
    flags: u16,
    kind: u16,
    handle: u64,
    from: u64,
    length: u32,
}

/// Serves a client until it goes. Without power nothing is answered, but the line stays open: a machine that is
/// switched off does not see its disk fail.
pub fn serve(mut stream: impl Read + Write, plug: &Plug) -> io::Result<()> {
    match talk(&mut stream, plug) {
        Err(error) if has_gone(&error) => Ok(()),
        ended => ended,
    }
}

fn talk(stream: &mut (impl Read + Write), plug: &Plug) -> io::Result<()> {
    if !shake_hands(stream, plug.plugged().disk.bytes())? {
        return Ok(());
    }
    loop {
        let request = read_request(stream)?;
        let mut data = vec![0; if request.kind == WRITE { request.length as usize } else { 0 }];
        stream.read_exact(&mut data)?;
        if request.kind == DISCONNECT {
            return Ok(());
        }
        let Some((error, read)) = plug.answer(&request, &data) else { continue };
        let head = [&REPLY.to_be_bytes()[..], &error.to_be_bytes(), &request.handle.to_be_bytes()].concat();
        stream.write_all(&[head, read].concat())?;
    }
}

/// A client that was killed.
fn has_gone(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe | ErrorKind::ConnectionReset)
}

/// Agrees on the disk; false where the client wants none.
fn shake_hands(stream: &mut (impl Read + Write), bytes: u64) -> io::Result<bool> {
    stream.write_all(&[&GREETING.to_be_bytes()[..], &OPTION.to_be_bytes(), &HANDSHAKE_FLAGS.to_be_bytes()].concat())?;
    // The client's flags: it can do the same.
    read_u32(stream)?;
    loop {
        if read_u64(stream)? != OPTION {
            return Err(invalid("an option that is none"));
        }
        let (option, length) = (read_u32(stream)?, read_u32(stream)?);
        stream.read_exact(&mut vec![0; checked(length)?])?;
        let mut reply = |kind: u32, data: &[u8]| {
            let head = [&OPTION_REPLY.to_be_bytes()[..], &option.to_be_bytes(), &kind.to_be_bytes()].concat();
            stream.write_all(&[&head, &(data.len() as u32).to_be_bytes()[..], data].concat())
        };
        match option {
            OPTION_GO => {
                let export = [&INFO_EXPORT.to_be_bytes()[..], &bytes.to_be_bytes(), &EXPORT_FLAGS.to_be_bytes()];
                reply(REPLY_INFO, &export.concat())?;
                let block = (BLOCK_BYTES as u32).to_be_bytes();
                let sizes = [&INFO_BLOCK_SIZE.to_be_bytes()[..], &block, &block, &(LENGTH_MAX / 2).to_be_bytes()];
                reply(REPLY_INFO, &sizes.concat())?;
                reply(REPLY_ACK, &[])?;
                return Ok(true);
            }
            OPTION_ABORT => {
                reply(REPLY_ACK, &[])?;
                return Ok(false);
            }
            _ => reply(REPLY_UNSUPPORTED, &[])?,
        }
    }
}

fn read_request(stream: &mut impl Read) -> io::Result<Request> {
    if read_u32(stream)? != REQUEST {
        return Err(invalid("a request that is none"));
    }
    let (flags, kind) = (read_u16(stream)?, read_u16(stream)?);
    let (handle, from, length) = (read_u64(stream)?, read_u64(stream)?, read_u32(stream)?);
    checked(length)?;
    Ok(Request { flags, kind, handle, from, length })
}

fn checked(length: u32) -> io::Result<usize> {
    if length > LENGTH_MAX { Err(invalid("more than was agreed on")) } else { Ok(length as usize) }
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, format!("the emulator's disk was sent {what}"))
}

fn read_u16(stream: &mut impl Read) -> io::Result<u16> {
    let mut bytes = [0; 2];
    stream.read_exact(&mut bytes)?;
    Ok(u16::from_be_bytes(bytes))
}

fn read_u32(stream: &mut impl Read) -> io::Result<u32> {
    let mut bytes = [0; 4];
    stream.read_exact(&mut bytes)?;
    Ok(u32::from_be_bytes(bytes))
}

fn read_u64(stream: &mut impl Read) -> io::Result<u64> {
    let mut bytes = [0; 8];
    stream.read_exact(&mut bytes)?;
    Ok(u64::from_be_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    use random::Random;

    use super::super::disk::{Loss, tests::empty};
    use super::*;

    /// A client of the other end.
    struct Client(UnixStream);

    impl Client {
        fn option(&mut self, option: u32, data: &[u8]) -> (u32, Vec<u8>) {
            let head = [&OPTION.to_be_bytes()[..], &option.to_be_bytes(), &(data.len() as u32).to_be_bytes()].concat();
            self.0.write_all(&[&head, data].concat()).unwrap();
            self.option_reply(option)
        }

        fn option_reply(&mut self, option: u32) -> (u32, Vec<u8>) {
            assert_eq!(read_u64(&mut self.0).unwrap(), OPTION_REPLY);
            assert_eq!(read_u32(&mut self.0).unwrap(), option);
            let kind = read_u32(&mut self.0).unwrap();
            let mut data = vec![0; read_u32(&mut self.0).unwrap() as usize];
            self.0.read_exact(&mut data).unwrap();
            (kind, data)
        }

        fn ask(&mut self, flags: u16, kind: u16, from: u64, length: u32, data: &[u8]) {
            let head = [&REQUEST.to_be_bytes()[..], &flags.to_be_bytes(), &kind.to_be_bytes()].concat();
            let rest = [&77u64.to_be_bytes()[..], &from.to_be_bytes(), &length.to_be_bytes(), data].concat();
            self.0.write_all(&[head, rest].concat()).unwrap();
        }

        fn reply(&mut self, length: usize) -> (u32, Vec<u8>) {
            assert_eq!(read_u32(&mut self.0).unwrap(), REPLY);
            let error = read_u32(&mut self.0).unwrap();
            assert_eq!(read_u64(&mut self.0).unwrap(), 77);
            let mut data = vec![0; if error == 0 { length } else { 0 }];
            self.0.read_exact(&mut data).unwrap();
            (error, data)
        }

        fn is_not_answered(&mut self) {
            self.0.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
            let error = self.0.read(&mut [0]).unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{error}");
        }

        fn write(&mut self, flags: u16, block: u64, value: u8) -> u32 {
            self.ask(flags, WRITE, block * 4096, 4096, &[value; 4096]);
            self.reply(0).0
        }
    }

    /// A conversation behind the handshake, and the disk that is left.
    fn conversation(blocks: u64, with: impl FnOnce(&mut Client, &Plug)) -> Disk {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let plug = Plug::new(empty(blocks));
        std::thread::scope(|scope| {
            let server = scope.spawn(|| serve(theirs, &plug));
            ours.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            let mut client = Client(ours);
            assert_eq!(read_u64(&mut client.0).unwrap(), GREETING);
            assert_eq!(read_u64(&mut client.0).unwrap(), OPTION);
            assert_eq!(read_u16(&mut client.0).unwrap(), 3);
            client.0.write_all(&3u32.to_be_bytes()).unwrap();
            // Structured replies.
            assert_eq!(client.option(8, &[]).0, REPLY_UNSUPPORTED);
            let (kind, export) = client.option(OPTION_GO, &[0, 0, 0, 1, b'x', 0, 0]);
            assert_eq!((kind, &export[..2]), (REPLY_INFO, &[0, 0][..]));
            assert_eq!(export[2..10], (blocks * 4096).to_be_bytes());
            assert_eq!(export[10..], [0, 13]);
            assert_eq!(client.option_reply(OPTION_GO).1[..6], [0, 3, 0, 0, 16, 0]);
            assert_eq!(client.option_reply(OPTION_GO).0, REPLY_ACK);
            with(&mut client, &plug);
            drop(client);
            server.join().unwrap().unwrap();
        });
        plug.into_disk()
    }

    #[test]
    fn what_is_flushed_or_forced_stays() {
        let mut disk = conversation(4, |client, _| {
            assert_eq!(client.write(0, 0, 1), 0);
            client.ask(0, FLUSH, 0, 0, &[]);
            assert_eq!(client.reply(0).0, 0);
            assert_eq!(client.write(0, 1, 2), 0);
            assert_eq!(client.write(FORCED, 2, 3), 0);
            client.ask(0, READ, 4095, 2, &[]);
            assert_eq!(client.reply(2), (0, vec![1, 2]));
            assert_eq!(client.write(0, 4, 1), INVALID);
            client.ask(0, 9, 0, 0, &[]);
            assert_eq!(client.reply(0).0, INVALID);
        });
        disk.switch_off(Loss::All, &mut Random::new(1));
        let first = |block: u64| {
            let mut byte = [9];
            assert!(disk.read_at(block * 4096, &mut byte));
            byte[0]
        };
        assert_eq!([0, 1, 2, 3].map(first), [1, 0, 3, 0]);
    }

    #[test]
    fn without_power_nothing_is_done() {
        for (flags, kind, data) in [(0, FLUSH, &[][..]), (FORCED, WRITE, &[1; 4096])] {
            let disk = conversation(3, |client, plug| {
                plug.off_after(1);
                plug.off_after(5);
                assert_eq!(client.write(0, 0, 1), 0);
                assert_eq!(client.write(0, 1, 2), 0);
                assert!(!plug.is_off());
                client.ask(flags, kind, 8192, data.len() as u32, data);
                client.ask(0, READ, 0, 1, &[]);
                client.is_not_answered();
                assert!(plug.is_off());
            });
            let mut off = disk.clone();
            assert_eq!(off.switch_off(Loss::All, &mut Random::new(1)).lost, 2);
            let mut bytes = [9; 8193];
            assert!(disk.read_at(0, &mut bytes));
            assert_eq!([bytes[0], bytes[4096], bytes[8192]], [1, 2, 0]);
        }
    }

    #[test]
    fn the_power_can_go_at_once() {
        conversation(1, |client, plug| {
            plug.off();
            client.ask(0, READ, 0, 1, &[]);
            client.is_not_answered();
        });
    }
}
