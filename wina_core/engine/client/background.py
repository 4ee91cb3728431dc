"""Jobs in a process of their own, `wina jobs compute`, which outlives the program that starts it."""

import os
import subprocess
import threading
from typing import IO

from wina_core.errors import WinaError
from wina_core.files.own_command import own_command
from wina_core.files.paths import log_folder
from wina_core.jobs import Message, Submit, encode

START_SECONDS = 120.0
"""Time for the process to store the jobs, which waits for a database on a network."""
LOG_FILE = "background.log"
LOG_BYTES = 2**20
"""Size above which the log begins anew."""


class Handover(Message):
    """The one line that the process reads on its standard input."""

    database: str
    """SQLAlchemy URL. It may contain a password, which no argument of a process may."""
    engines: int
    """Engine processes; 0 for one on each GPU."""
    jobs: tuple[Submit, ...]


class BackgroundProcess:
    """A process that has taken over jobs in the database, and computes them once this program lets it begin."""

    def __init__(self, handover: Handover) -> None:
        """Start the process. Raises WinaError if it cannot be started, or cannot store the jobs."""
        try:
            with _log() as log:
                self._process = subprocess.Popen(
                    [*own_command("wina_core.cli"), "jobs", "compute"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    start_new_session=True,  # no signal to this program's terminal reaches it
                    creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),  # Windows: no console beside the window
                )
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            # It ends a process that hangs, and with it the wait for its answer.
            limit = threading.Timer(START_SECONDS, self._process.kill)
            limit.daemon = True
            limit.start()
            self._process.stdin.write(encode(handover).encode())
            self._process.stdin.flush()
            answer = self._process.stdout.readline().decode(errors="replace")
        except OSError as error:
            raise WinaError(f"The process for jobs in the background could not be started: {error}.") from error
        is_late = not limit.is_alive()
        limit.cancel()
        if not answer:
            code = self._process.wait()
            end = f"did not answer within {START_SECONDS:.0f} s" if is_late else f"ended with exit code {code}"
            raise WinaError(
                f"The process for jobs in the background {end}; {LOG_FILE} in the folder of logs has the cause."
            )
        if refusal := answer.strip():
            raise WinaError(refusal)

    def begin(self) -> None:
        """Let the process compute."""
        assert self._process.stdin is not None
        # It begins at the end of its input: once this program has stopped computing, or if it dies.
        self._process.stdin.close()


def start_in_background(handover: Handover) -> None:
    """Start a process that computes jobs at once. Raises WinaError as `BackgroundProcess`."""
    BackgroundProcess(handover).begin()


def _log() -> IO[bytes]:
    try:
        file = log_folder() / LOG_FILE
        grown = file.is_file() and file.stat().st_size > LOG_BYTES
        return file.open("wb" if grown else "ab", buffering=0)
    except (OSError, WinaError):  # it works without
        return open(os.devnull, "wb", buffering=0)
