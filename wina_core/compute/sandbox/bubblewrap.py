"""The isolation of a Python process by bubblewrap: namespaces, read-only folders and a filter of system calls."""

import errno
import os
import platform
import shutil
import struct
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from wina_core.errors import WinaError
from wina_core.files.own_command import is_bundle

_SYSTEM_LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache")
_DEVICES = (os.devnull, "/dev/urandom")
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
"""All of the environment; NumPy must start no threads."""

_MACHINES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
"""{machine: (its AUDIT_ARCH number, its column below)}."""
_REFUSED_CALLS: dict[str, tuple[int | None, int | None]] = {
    # Limits of time and memory are those of one process.
    "clone": (56, 220),
    "fork": (57, None),
    "vfork": (58, None),
    "clone3": (435, 435),
    # Memory that no limit counts.
    "memfd_create": (319, 279),
    "shmget": (29, 194),
    "msgget": (68, 186),
    "semget": (64, 190),
    # Not in a namespace, as the sockets of a virtual machine's host, or a large part of the kernel.
    "socket": (41, 198),
    "socketpair": (53, 199),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "unshare": (272, 97),
    "setns": (308, 268),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
}
"""Numbers on x86-64 and aarch64 of the system calls that fail with EPERM."""
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _REFUSE, _KILL = 0x7FFF0000, 0x00050000 | errno.EPERM, 0x80000000
_NUMBER, _ARCHITECTURE = 0, 4
"""Offsets in struct seccomp_data."""
_X32 = 0x40000000
"""The first number of x86-64's second set of system calls, all of which are refused."""


@contextmanager
def confined_python(
    code: str, *, readable: Iterable[str] = (), descriptors: Iterable[int] = ()
) -> Iterator["subprocess.Popen[bytes]"]:
    """Yield a confined process of this Python that runs `code`, with pipes on all three streams, and end it.

    It has no network, no process beside it, an empty environment, and reads only Python, its packages, the system's
    libraries and the `readable` paths. The kernel ends it when this thread ends. Packages are not on its `sys.path`.

    Raises:
        WinaError: if bubblewrap is not installed, or has no filter for this machine.
    """
    command = _command(["-I", "-S", "-c", code], readable)
    filter_end, writes = os.pipe()
    with os.fdopen(writes, "wb") as pipe:
        pipe.write(seccomp_filter(platform.machine()))
    try:
        process = subprocess.Popen(
            [command[0], "--seccomp", str(filter_end), *command[1:]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=_ONE_THREAD,
            start_new_session=True,
            pass_fds=[filter_end, *descriptors],
        )
    finally:
        os.close(filter_end)
    with process:
        try:
            yield process
        finally:
            process.kill()


def package_folders() -> list[str]:
    """Return the folders of this Python's installed packages."""
    paths = sysconfig.get_paths()
    return list(dict.fromkeys((paths["purelib"], paths["platlib"])))


def unavailable(reason: str) -> WinaError:
    """Return the error for a system that cannot confine programs."""
    return WinaError(
        f"Programs that the model writes run only in a sandbox, which is not available here ({reason}); "
        "run this task on Linux with bubblewrap, on x86-64 or aarch64, or leave it out."
    )


def seccomp_filter(machine: str) -> bytes:
    """Return the filter in classic BPF, 8 bytes an instruction. Raises WinaError for other machines."""
    if machine not in _MACHINES:
        raise unavailable(f"its filter of system calls does not know {machine}")
    architecture, column = _MACHINES[machine]
    numbers = [call[column] for call in _REFUSED_CALLS.values() if call[column] is not None]
    code = [_instruction(_LOAD, _ARCHITECTURE), _instruction(_EQUAL, architecture, 1), _instruction(_RETURN, _KILL)]
    code += [_instruction(_LOAD, _NUMBER), _instruction(_AT_LEAST, _X32, len(numbers) + 1)]
    # A jump skips the numbers after it and the return that allows.
    code += [_instruction(_EQUAL, number or 0, len(numbers) - index) for index, number in enumerate(numbers)]
    return b"".join([*code, _instruction(_RETURN, _ALLOW), _instruction(_RETURN, _REFUSE)])


def _instruction(code: int, value: int, jump: int = 0) -> bytes:
    return struct.pack("=HBBI", code, jump, 0, value)


def _command(arguments: list[str], readable: Iterable[str]) -> list[str]:
    if is_bundle():
        raise unavailable("a bundle has no Python for them; install the workbench with pip")
    program = shutil.which("bwrap") if sys.platform == "linux" else None
    if sys.platform != "linux":
        raise unavailable(f"{platform.system() or sys.platform} has no bubblewrap")
    if program is None:
        raise unavailable("bubblewrap is not installed: apt install bubblewrap, or dnf or pacman -S")
    python, paths = str(Path(sys.executable).resolve()), sysconfig.get_paths()
    folders = [paths["stdlib"], paths["platstdlib"], str(Path(sys.base_prefix) / "lib"), *package_folders()]
    command = [program, "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    for path in dict.fromkeys([*folders, *_SYSTEM_LIBRARIES, python, *readable]):
        command += ["--ro-bind-try", path, path]
    for path in _DEVICES:
        command += ["--dev-bind", path, path]
    return [*command, "--remount-ro", "/", "--chdir", "/", "--", python, *arguments]
