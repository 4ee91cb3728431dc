"""The rights that a confined process gives up before it runs anything.

In order: time, memory, file sizes and processes by resource limits (setrlimit(2)); all files except those that Python
reads by Landlock (landlock(7)); all system calls that computing does not need by a seccomp filter (seccomp(2)). `check`
then tests all of this.
"""

import _socket
import ctypes
import errno
import os
import resource
import signal
import struct
import sys
from collections.abc import Callable, Iterable
from typing import Any

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_ASK_VERSION, _BENEATH_PATH = 1, 1
_WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 1, 1 << 2, 1 << 3
_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15}
"""Landlock's version: its number of rights on files (16 from the fifth on); all are given up."""

_SET_PARENT_DEATH_SIGNAL, _NO_NEW_PRIVILEGES, _SET_SECCOMP, _FILTER = 1, 38, 22, 2
_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _REFUSE, _KILL = 0x7FFF0000, 0x00050000 | errno.EPERM, 0x80000000
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
"""Offsets in struct seccomp_data."""

MACHINES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
"""{machine: (its AUDIT_ARCH number, its column in the tables below)}."""
CALLS: dict[str, tuple[int | None, int | None]] = {
    "read": (0, 63),
    "write": (1, 64),
    "readv": (19, 65),
    "writev": (20, 66),
    "pread64": (17, 67),
    "lseek": (8, 62),
    "open": (2, None),
    "openat": (257, 56),
    "close": (3, 57),
    "stat": (4, None),
    "lstat": (6, None),
    "fstat": (5, 80),
    "newfstatat": (262, 79),
    "statx": (332, 291),
    "access": (21, None),
    "faccessat": (269, 48),
    "faccessat2": (439, 439),
    "readlink": (89, None),
    "readlinkat": (267, 78),
    "getdents64": (217, 61),
    "getcwd": (79, 17),
    "dup": (32, 23),
    "dup2": (33, None),
    "dup3": (292, 24),
    "select": (23, None),
    "pselect6": (270, 72),
    "poll": (7, None),
    "ppoll": (271, 73),
    "mmap": (9, 222),
    "mprotect": (10, 226),
    "munmap": (11, 215),
    "mremap": (25, 216),
    "madvise": (28, 233),
    "brk": (12, 214),
    "futex": (202, 98),
    "rseq": (334, 293),
    "sched_yield": (24, 124),
    "sched_getaffinity": (204, 123),
    "getrandom": (318, 278),
    "clock_gettime": (228, 113),
    "clock_getres": (229, 114),
    "clock_nanosleep": (230, 115),
    "nanosleep": (35, 101),
    "gettimeofday": (96, 169),
    "time": (201, None),
    "times": (100, 153),
    "getrusage": (98, 165),
    "setitimer": (38, 103),
    "getitimer": (36, 102),
    "alarm": (37, None),
    "pause": (34, None),
    "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "rt_sigpending": (127, 136),
    "sigaltstack": (131, 132),
    "restart_syscall": (219, 128),
    "getpid": (39, 172),
    "getppid": (110, 173),
    "gettid": (186, 178),
    "getuid": (102, 174),
    "geteuid": (107, 175),
    "getgid": (104, 176),
    "getegid": (108, 177),
    "uname": (63, 160),
    "sysinfo": (99, 179),
    "exit": (60, 93),
    "exit_group": (231, 94),
}
"""Allowed system calls: their numbers on x86-64 and aarch64."""
CHECKED_CALLS: dict[str, tuple[tuple[int, int], int, tuple[int, ...]]] = {
    "fcntl": ((72, 25), 1, (0, 1, 2, 3, 1030)),  # duplicating and flags, but no signals to an owner
    "ioctl": ((16, 29), 1, (0x5401, 0x5413, 0x5450, 0x5451)),  # is it a terminal, how wide; close on exec
    "prlimit64": ((302, 261), 2, (0,)),  # reading limits
}
"""System calls allowed with some values of one argument: (their numbers, the argument's index, its values)."""

_libc = ctypes.CDLL(None, use_errno=True)


def die_with(parent: int) -> None:
    """End this process when the runner's ends; raise OSError if it has ended already."""
    if _libc.prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0) or os.getppid() != parent:
        raise OSError(errno.ESRCH, "the program that asked has ended")


def limit(limits: dict[str, int]) -> None:
    """Set resource limits: seconds of processor time, bytes of address space; no files, processes or core dumps."""
    seconds = limits["seconds"]
    for which, most in {
        resource.RLIMIT_CPU: (seconds, seconds + 1),
        resource.RLIMIT_AS: (limits["memory"], limits["memory"]),
        resource.RLIMIT_FSIZE: (0, 0),
        resource.RLIMIT_NPROC: (0, 0),
        resource.RLIMIT_NOFILE: (64, 64),
        resource.RLIMIT_CORE: (0, 0),
    }.items():
        resource.setrlimit(which, most)


def confine_files(readable: Iterable[str]) -> None:
    """Restrict reading to these paths and writing to /dev/null."""
    version = _call(_CREATE_RULESET, None, 0, _ASK_VERSION, doing="Landlock")
    given_up = (1 << _RIGHTS.get(version, 16)) - 1
    ruleset = _call(_CREATE_RULESET, struct.pack("=Q", given_up), 8, 0, doing="Landlock")
    for path in readable:
        if not os.path.exists(path):
            continue
        rights = _READ_FILE | (_READ_DIR if os.path.isdir(path) else 0)
        rights |= _WRITE_FILE if path == os.devnull else 0
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        rule = struct.pack("=Qi", rights, descriptor)
        _call(_ADD_RULE, ruleset, _BENEATH_PATH, rule, 0, doing=f"Landlock, for {path}")
        os.close(descriptor)
    _no_new_privileges()
    _call(_RESTRICT_SELF, ruleset, 0, doing="Landlock")
    os.close(ruleset)


def confine_calls(machine: str) -> None:
    """Restrict system calls to the tables; all others fail with EPERM."""
    program = seccomp_filter(machine)
    buffer = ctypes.create_string_buffer(program, len(program))

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))

    given = Program(len(program) // 8, ctypes.addressof(buffer))
    _no_new_privileges()
    if _libc.prctl(_SET_SECCOMP, _FILTER, ctypes.byref(given), 0, 0):
        raise OSError(ctypes.get_errno(), "the kernel has no seccomp filters")


def seccomp_filter(machine: str) -> bytes:
    """Return the filter in classic BPF, 8 bytes an instruction; KeyError for a machine of other system calls."""
    architecture, column = MACHINES[machine]
    code = [_load(_ARCHITECTURE), _jump(architecture, 1, 0), _return(_KILL), _load(_NUMBER)]
    for numbers in CALLS.values():
        number = numbers[column]
        if number is not None:
            code += [_jump(number, 0, 1), _return(_ALLOW)]
    for checked, argument, values in CHECKED_CALLS.values():
        low = _ARGUMENTS + 8 * argument  # both machines are little-endian
        body = [_load(low + 4), _jump(0, 1, 0), _return(_REFUSE), _load(low)]
        for value in values:
            body += [_jump(value, 0, 1), _return(_ALLOW)]
        body.append(_return(_REFUSE))
        code += [_jump(checked[column], 0, len(body)), *body]
    return b"".join([*code, _return(_REFUSE)])


def _load(offset: int) -> bytes:
    return struct.pack("=HBBI", _LOAD, 0, 0, offset)


def _jump(value: int, if_equal: int, if_not: int) -> bytes:
    return struct.pack("=HBBI", _EQUAL, if_equal, if_not, value)


def _return(action: int) -> bytes:
    return struct.pack("=HBBI", _RETURN, 0, 0, action)


def check(canary: str) -> None:
    """Try what must be refused, and raise OSError naming what was not. `canary` is a file that must be out of reach."""
    forbidden: dict[str, Callable[[], Any]] = {
        "the network can be reached": lambda: _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM),
        "files can be read": lambda: os.open(canary, os.O_RDONLY),
        "files can be written": lambda: os.open(f"{canary}-written", os.O_WRONLY | os.O_CREAT, 0o600),
        "files can be changed": lambda: os.truncate(canary, 0),
        "programs can be started": lambda: os.execv(sys.executable, [sys.executable, "-c", ""]),
        "processes can be signalled": lambda: os.kill(os.getppid(), 0),
        "limits can be lifted": lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32)),
    }
    for what, attempt in forbidden.items():
        try:
            attempt()
        except OSError as error:
            if error.errno in (errno.EPERM, errno.EACCES):
                continue
        except ValueError:  # setrlimit's EPERM
            continue
        raise OSError(errno.EPERM, what)
    _check_fork()


def _check_fork() -> None:
    try:
        child = os.fork()
    except OSError:
        return
    if child == 0:
        os._exit(0)
    raise OSError(errno.EPERM, "processes can be started")


def _no_new_privileges() -> None:
    if _libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "the kernel refuses to drop privileges")


def _call(number: int, *arguments: object, doing: str) -> int:
    result: int = _libc.syscall(number, *arguments)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"the kernel refuses {doing}: {os.strerror(code)}")
    return result
