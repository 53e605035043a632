"""What a process may not do any more, once it says so of itself: system calls by seccomp, files by Landlock, amounts by limits.

It needs no root and no package, and is loaded alone, by its path, in a process that runs somebody else's code (`confined.py`).
What this machine lacks is an `OSError` that says so; nothing is confined by halves.
"""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import signal
import struct
from collections.abc import Sequence

_PDEATHSIG, _SECCOMP, _NO_NEW_PRIVILEGES, _FILTER = 1, 22, 38, 2
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF, _PATH_BENEATH = 444, 445, 446, 1
_EXECUTE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 2, 1 << 3
_RIGHTS = (0, 1 << 13, 1 << 14, 1 << 15, 1 << 15, 1 << 16, 1 << 16)
"""Rights to files that version i of Landlock knows are those below this bit."""
_AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_PLAIN = {
    "x86_64": {
        "read": 0, "write": 1, "close": 3, "stat": 4, "fstat": 5, "lstat": 6, "poll": 7, "lseek": 8, "mmap": 9, "mprotect": 10,
        "munmap": 11, "brk": 12, "rt_sigaction": 13, "rt_sigprocmask": 14, "rt_sigreturn": 15, "pread64": 17, "readv": 19,
        "writev": 20, "access": 21, "select": 23, "sched_yield": 24, "mremap": 25, "madvise": 28, "dup": 32, "nanosleep": 35,
        "getpid": 39, "exit": 60, "uname": 63, "getcwd": 79, "readlink": 89, "gettimeofday": 96, "getrlimit": 97,
        "getrusage": 98, "sysinfo": 99, "times": 100, "getuid": 102, "getgid": 104, "geteuid": 107, "getegid": 108,
        "sigaltstack": 131, "gettid": 186, "time": 201, "futex": 202, "sched_getaffinity": 204, "getdents64": 217,
        "restart_syscall": 219, "clock_gettime": 228, "clock_getres": 229, "clock_nanosleep": 230, "exit_group": 231,
        "newfstatat": 262, "readlinkat": 267, "faccessat": 269, "pselect6": 270, "ppoll": 271, "getrandom": 318,
        "membarrier": 324, "statx": 332, "rseq": 334, "faccessat2": 439,
    },
    "aarch64": {
        "getcwd": 17, "dup": 23, "faccessat": 48, "close": 57, "getdents64": 61, "lseek": 62, "read": 63,
        "write": 64, "readv": 65, "writev": 66, "pread64": 67, "pselect6": 72, "ppoll": 73, "readlinkat": 78, "newfstatat": 79,
        "fstat": 80, "exit": 93, "exit_group": 94, "futex": 98, "nanosleep": 101, "clock_gettime": 113, "clock_getres": 114,
        "clock_nanosleep": 115, "sched_getaffinity": 123, "sched_yield": 124, "restart_syscall": 128, "sigaltstack": 132,
        "rt_sigaction": 134, "rt_sigprocmask": 135, "rt_sigreturn": 139, "times": 153, "uname": 160, "getrlimit": 163,
        "getrusage": 165, "gettimeofday": 169, "getpid": 172, "getuid": 174, "geteuid": 175, "getgid": 176, "getegid": 177,
        "gettid": 178, "sysinfo": 179, "brk": 214, "munmap": 215, "mremap": 216, "mmap": 222, "mprotect": 226, "madvise": 233,
        "getrandom": 278, "membarrier": 283, "statx": 291, "rseq": 293, "faccessat2": 439,
    },
}  # fmt: skip
"""System calls that stay, whatever is given to them; every other fails as not permitted (EPERM)."""
_OPENS = {"x86_64": {2: 1, 257: 2}, "aarch64": {56: 2}}
"""open and openat, and which argument says how: to read alone."""
_PRLIMIT = {"x86_64": 302, "aarch64": 261}
"""prlimit64, which stays where it only asks."""
_FCNTL = {"x86_64": 72, "aarch64": 25}
_COMMANDS = (0, 1, 2, 3, 1030)
"""What fcntl may be asked: F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_DUPFD_CLOEXEC; others send signals when a file is read."""
_IOCTL = {"x86_64": 16, "aarch64": 29}
"""ioctl fails as on what is no terminal, which Python asks of every file."""
_WRITES = 0o1 | 0o2 | 0o100 | 0o1000 | 0o2000 | 0o20000000
"""Bits of opening that create or change: O_WRONLY, O_RDWR, O_CREAT, O_TRUNC, O_APPEND, and that of O_TMPFILE."""
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_EPERM, _EACCES, _ENOTTY = 1, 13, 25
_LOAD, _EQUAL, _ANY_BIT, _RETURN = 0x20, 0x15, 0x45, 0x06
_NUMBER_AT, _MACHINE_AT, _ARGUMENTS_AT = 0, 4, 16


def confine(seconds: float, memory: int, readable: Sequence[str]) -> None:
    """From here on this process has no network, no other process, no signals to others, no file to write, none to read but
    those below `readable`, so many seconds of a processor, and so many bytes. `OSError` says what the machine lacks."""
    machine = platform.machine()
    if machine not in _AUDIT:
        raise OSError(f"system calls are known of {' and '.join(_AUDIT)}, and this machine is {machine}")
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    _prctl(libc, "PR_SET_PDEATHSIG", _PDEATHSIG, signal.SIGKILL)
    _prctl(libc, "PR_SET_NO_NEW_PRIVS", _NO_NEW_PRIVILEGES, 1)
    _restrict_files(libc, readable)
    _limit(seconds, memory)
    program = b"".join(_filter(machine))
    code = ctypes.create_string_buffer(program, len(program))
    header = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(program) // 8, ctypes.addressof(code)), 16)
    _prctl(libc, "PR_SET_SECCOMP", _SECCOMP, _FILTER, ctypes.addressof(header))


def _prctl(libc: ctypes.CDLL, name: str, *arguments: int) -> None:
    if libc.prctl(*map(ctypes.c_ulong, (*arguments, 0, 0, 0, 0)[:5])):
        raise OSError(f"prctl({name}) fails: {os.strerror(ctypes.get_errno())}")


def _restrict_files(libc: ctypes.CDLL, readable: Sequence[str]) -> None:
    """No file but those below `readable`, and of these to read alone."""
    version = libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), 1)
    if version < 1:
        raise OSError(f"this kernel has no Landlock (Linux 5.13, in the list of `lsm=`): {os.strerror(ctypes.get_errno())}")
    handled = _RIGHTS[min(version, len(_RIGHTS) - 1)] - 1
    # Where it knows them, too: TCP (version 4), and signals and sockets by name outside itself (version 6).
    attributes = struct.pack("QQQ", handled, 3, 3)[: 24 if version >= 6 else 16 if version >= 4 else 8]
    ruleset = libc.syscall(_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0)
    if ruleset < 0:
        raise OSError(f"landlock_create_ruleset fails: {os.strerror(ctypes.get_errno())}")
    for path in readable:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        rights = _EXECUTE | _READ_FILE | (_READ_DIR if os.path.isdir(path) else 0)
        if libc.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, struct.pack("=Qi", rights, place), 0):
            raise OSError(f"landlock_add_rule({path}) fails: {os.strerror(ctypes.get_errno())}")
        os.close(place)
    if libc.syscall(_RESTRICT_SELF, ruleset, 0):
        raise OSError(f"landlock_restrict_self fails: {os.strerror(ctypes.get_errno())}")
    os.close(ruleset)


def _limit(seconds: float, memory: int) -> None:
    whole = max(1, -int(-seconds // 1))
    resource.setrlimit(resource.RLIMIT_CPU, (whole, whole + 1))
    for limit, most in (
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NOFILE, 64),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(limit, (most, most))


def _filter(machine: str) -> list[bytes]:
    """The program that decides on a system call (classic BPF, seccomp(2))."""

    def step(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
        return struct.pack("=HBBI", code, yes, no, value)

    refused = [step(_RETURN, _ERRNO | _EPERM)]
    program = [step(_LOAD, _MACHINE_AT), step(_EQUAL, _AUDIT[machine], 1, 0), *refused, step(_LOAD, _NUMBER_AT)]
    for number, argument in _OPENS[machine].items():
        ways = [
            step(_LOAD, _ARGUMENTS_AT + 8 * argument), step(_ANY_BIT, _WRITES, 0, 1),
            step(_RETURN, _ERRNO | _EACCES), step(_RETURN, _ALLOW),
        ]  # fmt: skip
        program += [step(_EQUAL, number, 0, len(ways)), *ways]
    asks = [
        step(_LOAD, _ARGUMENTS_AT + 16), step(_EQUAL, 0, 0, 3), step(_LOAD, _ARGUMENTS_AT + 20), step(_EQUAL, 0, 0, 1),
        step(_RETURN, _ALLOW), *refused,
    ]  # fmt: skip
    program += [step(_EQUAL, _PRLIMIT[machine], 0, len(asks)), *asks]
    commands = [step(_EQUAL, command, len(_COMMANDS) - place, 0) for place, command in enumerate(_COMMANDS)]
    program += [step(_EQUAL, _FCNTL[machine], 0, len(commands) + 3), step(_LOAD, _ARGUMENTS_AT + 8), *commands]
    program += [*refused, step(_RETURN, _ALLOW)]
    program += [step(_EQUAL, _IOCTL[machine], 0, 1), step(_RETURN, _ERRNO | _ENOTTY)]
    for number in _PLAIN[machine].values():
        program += [step(_EQUAL, number, 0, 1), step(_RETURN, _ALLOW)]
    return program + refused
