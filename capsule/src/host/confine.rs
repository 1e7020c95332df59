//! What the isolate process gives up before it runs anything of a model's.
//!
//! A block has no way to a system call to begin with. These layers are for the day on which one finds a fault in the
//! engine: then it is in a process that can open no file, make no socket and run no program.

use rustix::process::{Resource, Rlimit, Signal, setrlimit};

/// A layer's name and how it stands: `on`, or why it is not.
pub type Layer = (String, String);

const ON: &str = "on";

/// Drops what it can, and says of each layer whether it is in force. To be called while the process has one thread:
/// threads inherit what it gives up.
pub fn confine(channel: i32) -> Vec<Layer> {
    let closed = system::close_all_but(channel);
    let prepared = prepare_event_loops();
    let layers: [(&str, Result<(), String>); 6] = [
        ("diesWithParent", rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).map_err(said)),
        ("coreDumpsOff", setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) }).map_err(said)),
        ("descriptorsClosed", closed),
        ("noNewPrivileges", system::no_new_privileges()),
        ("landlock", system::landlock()),
        // Without them no block could run.
        ("seccomp", prepared.and_then(|()| system::seccomp())),
    ];
    let mut layers: Vec<Layer> = layers
        .into_iter()
        .map(|(name, result)| (name.to_owned(), result.err().unwrap_or_else(|| ON.to_owned())))
        .collect();
    let environment = match std::env::vars_os().map(|(name, _)| name).find(|name| name != "TZ") {
        None => ON.to_owned(),
        Some(name) => format!("{} is set", name.display()),
    };
    layers.push(("environmentCleared".to_owned(), environment));
    layers
}

/// The first event loop makes a pair of sockets that all later ones share.
fn prepare_event_loops() -> Result<(), String> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().map(drop).map_err(said)
}

fn said(error: impl std::fmt::Display) -> String {
    format!("off: {error}")
}

#[cfg(target_os = "linux")]
mod system {
    use std::collections::BTreeMap;

    use landlock::{
        ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetStatus, Scope,
    };
    use seccompiler::{
        BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    };

    use super::said;

    /// The first descriptor after the standard ones.
    const FIRST: libc::c_uint = 3;

    pub fn close_all_but(channel: i32) -> Result<(), String> {
        let channel = libc::c_uint::try_from(channel).map_err(said)?;
        for (from, to) in [(FIRST, channel.saturating_sub(1)), (channel + 1, libc::c_uint::MAX)] {
            // SAFETY: the process has one thread, and nothing that it still uses has a descriptor in these ranges.
            if from <= to && unsafe { libc::syscall(libc::SYS_close_range, from, to, 0) } != 0 {
                return Err(said(std::io::Error::last_os_error()));
            }
        }
        Ok(())
    }

    pub fn no_new_privileges() -> Result<(), String> {
        rustix::thread::set_no_new_privs(true).map_err(said)
    }

    /// No file by its name, no port, no signal to others.
    pub fn landlock() -> Result<(), String> {
        /// The newest that the crate describes; older kernels enforce what they know.
        const NEWEST: ABI = ABI::V6;
        let restricted = Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(NEWEST))
            .and_then(|rules| rules.handle_access(AccessNet::from_all(NEWEST)))
            .and_then(|rules| rules.scope(Scope::from_all(NEWEST)))
            .and_then(Ruleset::create)
            .and_then(|rules| rules.restrict_self())
            .map_err(said)?;
        match restricted.ruleset {
            RulesetStatus::FullyEnforced => Ok(()),
            RulesetStatus::PartiallyEnforced => Err("in part: the system's kernel knows less of it".to_owned()),
            RulesetStatus::NotEnforced => Err("off: the system's kernel does not have it".to_owned()),
        }
    }

    /// System calls that the process never needs fail from here on with `EPERM`.
    pub fn seccomp() -> Result<(), String> {
        let own = u64::from(std::process::id());
        let mut refused: BTreeMap<i64, Vec<SeccompRule>> = REFUSED.iter().map(|call| (*call, Vec::new())).collect();
        // A thread is no process.
        let not_a_thread = SeccompCmpOp::MaskedEq(libc::CLONE_THREAD as u64);
        refused.insert(libc::SYS_clone, vec![rule(0, SeccompCmpArgLen::Qword, not_a_thread, 0)?]);
        for call in [libc::SYS_kill, libc::SYS_tgkill] {
            refused.insert(call, vec![rule(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, own)?]);
        }
        // Its flags are in memory, where a filter cannot see them: the C library falls back to the older call.
        let unseen = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
        for (calls, errno) in [(unseen, libc::ENOSYS), (refused, libc::EPERM)] {
            let action = SeccompAction::Errno(u32::try_from(errno).map_err(said)?);
            let arch = std::env::consts::ARCH.try_into().map_err(said)?;
            let filter = SeccompFilter::new(calls, SeccompAction::Allow, action, arch).map_err(said)?;
            let program: BpfProgram = filter.try_into().map_err(said)?;
            seccompiler::apply_filter(&program).map_err(said)?;
        }
        Ok(())
    }

    fn rule(index: u8, length: SeccompCmpArgLen, op: SeccompCmpOp, value: u64) -> Result<SeccompRule, String> {
        SeccompCondition::new(index, length, op, value)
            .and_then(|condition| SeccompRule::new(vec![condition]))
            .map_err(said)
    }

    const REFUSED: &[i64] = &[
        // Programs.
        libc::SYS_execve,
        libc::SYS_execveat,
        libc::SYS_ptrace,
        libc::SYS_process_vm_readv,
        libc::SYS_process_vm_writev,
        libc::SYS_pidfd_open,
        libc::SYS_pidfd_getfd,
        libc::SYS_pidfd_send_signal,
        libc::SYS_tkill,
        libc::SYS_setsid,
        libc::SYS_setpgid,
        // Files.
        libc::SYS_openat,
        libc::SYS_openat2,
        libc::SYS_open_by_handle_at,
        libc::SYS_name_to_handle_at,
        libc::SYS_memfd_create,
        libc::SYS_mkdirat,
        libc::SYS_mknodat,
        libc::SYS_unlinkat,
        libc::SYS_renameat,
        libc::SYS_renameat2,
        libc::SYS_linkat,
        libc::SYS_symlinkat,
        libc::SYS_readlinkat,
        libc::SYS_fchmodat,
        libc::SYS_fchownat,
        libc::SYS_truncate,
        libc::SYS_utimensat,
        libc::SYS_setxattr,
        libc::SYS_lsetxattr,
        libc::SYS_chdir,
        libc::SYS_fchdir,
        libc::SYS_chroot,
        libc::SYS_inotify_init1,
        libc::SYS_fanotify_init,
        // Sockets.
        libc::SYS_socket,
        libc::SYS_socketpair,
        libc::SYS_bind,
        libc::SYS_connect,
        libc::SYS_listen,
        libc::SYS_accept,
        libc::SYS_accept4,
        // Shared memory and queues.
        libc::SYS_shmget,
        libc::SYS_shmat,
        libc::SYS_msgget,
        libc::SYS_semget,
        libc::SYS_mq_open,
        // The machine.
        libc::SYS_mount,
        libc::SYS_umount2,
        libc::SYS_pivot_root,
        libc::SYS_unshare,
        libc::SYS_setns,
        libc::SYS_bpf,
        libc::SYS_perf_event_open,
        libc::SYS_userfaultfd,
        libc::SYS_io_uring_setup,
        libc::SYS_io_uring_enter,
        libc::SYS_io_uring_register,
        libc::SYS_keyctl,
        libc::SYS_add_key,
        libc::SYS_request_key,
        libc::SYS_init_module,
        libc::SYS_finit_module,
        libc::SYS_delete_module,
        libc::SYS_kexec_load,
        libc::SYS_reboot,
        libc::SYS_swapon,
        libc::SYS_swapoff,
        libc::SYS_acct,
        libc::SYS_quotactl,
        libc::SYS_settimeofday,
        libc::SYS_clock_settime,
        libc::SYS_clock_adjtime,
        libc::SYS_adjtimex,
        libc::SYS_sethostname,
        libc::SYS_setdomainname,
        libc::SYS_syslog,
        // Other users.
        libc::SYS_setuid,
        libc::SYS_setgid,
        libc::SYS_setreuid,
        libc::SYS_setregid,
        libc::SYS_setresuid,
        libc::SYS_setresgid,
        libc::SYS_setgroups,
        libc::SYS_capset,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_open,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_creat,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_fork,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_vfork,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_mkdir,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_rmdir,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_unlink,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_rename,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_link,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_symlink,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_readlink,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_chmod,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_chown,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_mknod,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_inotify_init,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_ioperm,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_iopl,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_modify_ldt,
    ];
}

#[cfg(not(target_os = "linux"))]
mod system {
    const UNAVAILABLE: &str = "off: this system does not have it";

    pub fn close_all_but(_channel: i32) -> Result<(), String> {
        Err(UNAVAILABLE.to_owned())
    }

    pub fn no_new_privileges() -> Result<(), String> {
        Err(UNAVAILABLE.to_owned())
    }

    pub fn landlock() -> Result<(), String> {
        Err(UNAVAILABLE.to_owned())
    }

    pub fn seccomp() -> Result<(), String> {
        Err(UNAVAILABLE.to_owned())
    }
}
