//! Denies system calls to a thread, as containers do, to test that the crate lives without them.

use std::io;
use std::thread;

/// Runs `body` on a thread of its own to which the kernel answers these calls with `errno`. `None` where the kernel
/// lets no such filter be set.
pub(crate) fn without_calls<T: Send>(calls: &[libc::c_long], errno: i32, body: impl FnOnce() -> T + Send) -> Option<T> {
    thread::scope(|scope| {
        let thread = scope.spawn(|| match deny(calls, errno) {
            Ok(()) => Some(body()),
            Err(error) => {
                eprintln!("skipped: no system call filter can be set here: {error}");
                None
            }
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Installs a seccomp filter for the calling thread only.
fn deny(calls: &[libc::c_long], errno: i32) -> io::Result<()> {
    let statement = |code: u32, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k };
    // The call's number is the first word of what the filter sees.
    let mut program = vec![statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0)];
    for &call in calls {
        let code = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
        program.push(libc::sock_filter { code, jt: 0, jf: 1, k: call as u32 });
        program.push(statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | errno as u32));
    }
    program.push(statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW));
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the flag concerns this thread only and takes no memory.
    let done = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    if done != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel copies the `len` instructions that `filter` points to; both outlive the call.
    let done = unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
