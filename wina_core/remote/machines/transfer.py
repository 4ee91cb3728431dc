"""Fetching of files and folders from a machine: resumable, by rsync where both sides have it, else by sftp."""

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import IO

from wina_core.errors import WinaError, printable
from wina_core.files.paths import what_is_at
from wina_core.remote.machines.ssh import FAILED, client, explain_ssh, ssh_options
from wina_core.specs.machine import Machine

_PROGRESS = re.compile(rb"([\d,]+)\s+(\d+)%")
_LOOK_SECONDS = 0.2
_NO_RSYNC = (1, 126, 127)
"""Exit codes where the machine has no rsync, or this computer one of another make without these options."""
_STREAM = 12
"""Exit code of rsync where the other side's output ended before ssh had given its own code."""
_LEFT_OUT = "not a regular file"
"""The words of sftp on a link in a folder that it copies."""
_UNREADABLE = re.compile("No such file|not found|Permission denied")
"""Words of rsync and sftp on a path that they cannot read."""
_TAIL_BYTES = 4096
_MOST_STDERR = 2**20

Progress = Callable[[float, float | None], None]
"""Called with the bytes that have come and those in all, None while unknown."""


def fetch(machine: Machine, path: str, folder: Path, on_progress: Progress = lambda _done, _total: None) -> Path:
    """Copy a file or folder of a machine into a folder of this computer and return the copy.

    It appears whole or not at all: until then it is in a hidden folder beside it, from which an interrupted copy
    continues. What `on_progress` raises ends the copy. rsync follows links and compares what had come with the
    machine's files; sftp continues by length, and a folder with links is refused. Raises WinaError for a path that
    cannot be fetched, a name that exists here, and with the reason of rsync or sftp.
    """
    name = PurePosixPath(path).name
    if not (path.startswith(("/", "~/")) and name and name != ".." and "\0" not in path):
        raise WinaError(
            f"{path!r} cannot be fetched; give an absolute path of the machine, or one that begins with ~/."
        )
    target = folder.absolute() / name
    if what_is_at(target) != "nothing":
        raise WinaError(f"{target} exists already; move it away, or choose another folder.")
    digest = hashlib.sha256(f"{machine.destination}\0{path}".encode(errors="surrogateescape")).hexdigest()[:16]
    part = target.with_name(f".wina-part-{digest}")
    try:
        part.mkdir(parents=True, exist_ok=True)
        if not _by_rsync(machine, path, part, on_progress):
            _by_sftp(machine, path, part, on_progress)
        os.replace(part / name, target)
        shutil.rmtree(part)
    except OSError as error:
        raise WinaError(f"{target} cannot be written ({error.strerror}); check the folder and its disk.") from error
    finally:
        with suppress(OSError):  # some of it has come, or all
            part.rmdir()
    return target


def _by_rsync(machine: Machine, path: str, part: Path, on_progress: Progress) -> bool:
    """Copy into `part`; return False where one side has no rsync.

    rsync takes the place of the machine from a word before its own command. That word is `env`, since the machine is
    part of the ssh command already, whatever form its destination has. The path goes over stdin, where no shell and no
    pattern matching sees it.
    """
    rsync = shutil.which("rsync")
    if rsync is None:
        return False
    if "\\" in path and any(character in path for character in "*?["):
        raise WinaError(f"rsync cannot fetch {path!r}, with a backslash and one of *?[ in its name; rename it there.")
    ssh = [client("ssh"), *ssh_options(machine), "-T", "--", machine.destination]
    base, below = ("env:./", f"./{path[2:]}") if path.startswith("~/") else ("env:/", path)
    command = [
        *(rsync, "--recursive", "--times", "--copy-links", "--inplace", "--protect-args"),
        *("--no-relative", "--from0", "--files-from=-"),
        *("--no-inc-recursive", "--info=progress2", "--no-human-readable"),
        *("--rsh", " ".join(map(_quoted, ssh)), "--", base, f"{part}/"),
    ]
    code, stderr = run_watched(command, f"{below}\0", _rsync_progress, on_progress, {"LC_ALL": "C"})
    if code in _NO_RSYNC or (code == _STREAM and re.search("^env: .*rsync", stderr, re.MULTILINE)):
        return False
    _check(code, stderr, machine, path)
    return True


def _quoted(word: str) -> str:
    """Return a word of rsync's own command line of ssh, where a doubled quote stands for one."""
    return "'" + word.replace("'", "''") + "'"


def _rsync_progress(output: IO[bytes]) -> tuple[float, float | None]:
    """Return the bytes that have come and those in all, from the end of rsync's output."""
    output.seek(max(0, output.seek(0, os.SEEK_END) - _TAIL_BYTES))
    found = _PROGRESS.findall(output.read(_TAIL_BYTES))
    if not found:
        return 0.0, None
    done, percent = (float(number.replace(b",", b"")) for number in found[-1])
    return done, done / percent * 100 if percent else None


def _by_sftp(machine: Machine, path: str, part: Path, on_progress: Progress) -> None:
    if "\n" in path or "\n" in str(part):
        raise WinaError(f"sftp cannot fetch {path!r}, with a line break in its name; install rsync on both sides.")
    remote = f"./{path[2:]}" if path.startswith("~/") else path
    destination = re.sub("^ssh://", "sftp://", machine.destination)
    command = [client("sftp"), *ssh_options(machine), "-b", "-", "--", destination]
    batch = f"get -aR {_sftp_quoted(remote)} {_sftp_quoted(str(part))}\n"
    code, stderr = run_watched(command, batch, lambda _: (float(_size(part)), None), on_progress, {})
    _check(code, stderr, machine, path)
    if _LEFT_OUT in stderr:
        raise WinaError(f"{path!r} has links, which sftp leaves out; install rsync on both sides.")


def _sftp_quoted(text: str) -> str:
    """Return a quoted word of sftp's batch, in which it expands no patterns."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def run_watched(
    command: Sequence[str],
    stdin: str,
    look: Callable[[IO[bytes]], tuple[float, float | None]],
    on_progress: Progress,
    variables: Mapping[str, str],
) -> tuple[int, str]:
    """Run a program to its end and return its exit code and its stderr."""
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        given.write(stdin.encode(errors="surrogateescape"))
        given.seek(0)
        process = subprocess.Popen(command, stdin=given, stdout=out, stderr=err, env=os.environ | variables)
        try:
            while True:
                try:
                    code = process.wait(_LOOK_SECONDS)
                    break
                except subprocess.TimeoutExpired:
                    on_progress(*look(out))
                    if os.fstat(err.fileno()).st_size > _MOST_STDERR:  # a machine that never stops fills this disk
                        process.kill()
        except BaseException:
            process.terminate()
            process.wait()
            raise
        on_progress(*look(out))
        err.seek(0)
        return code, err.read(_MOST_STDERR).decode(errors="replace")


def _check(code: int, stderr: str, machine: Machine, path: str) -> None:
    if code in (FAILED, _STREAM):
        raise WinaError(explain_ssh(FAILED, stderr, machine))
    if code:
        lines = [line.strip() for line in stderr.splitlines() if line.strip() and not line.startswith("rsync error")]
        cause = printable(lines[0])[:300] if lines else f"exit code {code}"
        remedy = "what has come is kept, and the same command continues"
        if _UNREADABLE.search(cause):
            remedy = "check the path, and who may read it there"
        raise WinaError(f'{path!r} could not be fetched from the machine "{machine.name}" ({cause}); {remedy}.')
