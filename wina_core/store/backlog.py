"""Backlog of results that the database refuses for now: on a full, failing or read-only disk, or a locked database."""

import glob
import hashlib
import os
import shutil
import stat
import time
import uuid
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import URL

from wina_core.errors import WinaError
from wina_core.files import paths
from wina_core.files.locks import FileLock
from wina_core.jobs import (
    CompletionFinished,
    Done,
    EvaluateJob,
    Event,
    Failed,
    Measured,
    Partial,
    Ready,
    Result,
    Submit,
    encode,
)
from wina_core.store import upgrade
from wina_core.store.connection import place_of, sqlite_file
from wina_core.store.merge import merge_database
from wina_core.store.recorder import Recorded, Recorders
from wina_core.store.refusals import UnwritableError
from wina_core.store.store import Store

RETRY_SECONDS = 5.0
"""Shortest time between two attempts to store the waiting messages."""
LARGEST_MEMORY = 2**28
"""Most bytes of waiting messages, 256 MiB."""
_PATIENCE = 2.0
"""Longest wait in seconds for another program's lock on the database while jobs run."""
_RESULTS = (Partial, Measured, CompletionFinished, Result)


class _Waiting(NamedTuple):
    """A message and the time, in seconds since 1970, at which it came."""

    message: Recorded
    at: float
    size: int
    """Bytes."""


class Backlog:
    """Recorder of all jobs of a process, with a queue of the messages that the store refuses for now.

    What still waits at the end goes to a database of its own, which the next backlog merges. All methods are called on
    one thread, which never waits long for a disk or a lock, except at the beginning and at the end.
    """

    def __init__(self, store: Store) -> None:
        self.remarks = _merge_waiting(store)
        """Sentences on results that waited for space since earlier programs."""
        self._store = store
        self._recorders = Recorders(store)
        self._ready: Ready | None = None
        self._jobs: dict[str, Submit] = {}
        """Jobs that have not ended, by their ids."""
        self._waiting: deque[_Waiting] = deque()
        self._preface: tuple[Recorded, ...] = ()
        """Environment and jobs at the first message that waits."""
        self._bytes = 0
        self._tried = 0.0
        self.refusal = ""
        """Sentence on why messages wait; empty while none does."""

    @property
    def waiting(self) -> int:
        return sum(isinstance(entry.message, _RESULTS) for entry in self._waiting)

    def record(self, message: Submit | Event) -> None:
        """Store a message's content, or append the message with its time to those that wait.

        A job's Submit comes before its events, and Ready, the environment of the numbers, before both; they may come
        again. Raises WinaError for a message that can never be stored, and if more than LARGEST_MEMORY waits.
        """
        if not isinstance(message, Recorded):
            return
        if isinstance(message, Ready):
            if message == self._ready:
                return
            self._ready = message
        elif isinstance(message, Submit):
            if message.job_id in self._jobs:
                return
            self._jobs[message.job_id] = message
        try:
            self.retry()
            # While others wait, it queues behind them: a job's events are stored in their order.
            if self.refusal or not self._try_to_store(message):
                self._enqueue(message)
        finally:
            if isinstance(message, Done | Failed):
                self._jobs.pop(message.job_id, None)

    def retry(self) -> None:
        """Store what waits if the last attempt is RETRY_SECONDS ago. Raises WinaError as `flush`."""
        if self.refusal and time.monotonic() - self._tried >= RETRY_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Store what waits, as far as the database takes it now. Raises WinaError for what can never be stored."""
        if fault := self._store_waiting(_PATIENCE):
            raise WinaError(fault)

    def close(self) -> str:
        """Store what waits, else in a database of its own; return a sentence on what is not in place.

        Raises WinaError if no folder takes that database: what waits is lost.
        """
        fault = self._store_waiting(None) if self.refusal else ""
        if not self.refusal or not self.waiting:
            return fault
        count, file = self.waiting, self._spill()
        results = "1 result" if count == 1 else f"{count} results"
        return f"{results} could not be stored; the next start stores them from {file}. {self.refusal}"

    def _store_waiting(self, patience: float | None) -> str:
        """Store what waits, with so many seconds for a lock; return why a message can never be stored."""
        fault, self._tried = "", time.monotonic()
        self._store.patience = patience
        try:
            while self._waiting:
                try:
                    self._recorders.record(self._waiting[0].message, self._waiting[0].at)
                except UnwritableError:
                    raise
                except WinaError as error:
                    fault = fault or str(error)
                # A message that the database refuses for now stays the first in the queue.
                self._bytes -= self._waiting.popleft().size
        except UnwritableError as error:
            self.refusal = str(error)
        else:
            self.refusal = ""
        finally:
            self._store.patience = None
        return fault

    def _try_to_store(self, message: Recorded) -> bool:
        """Store a message unless the database refuses it for now; return whether it is stored."""
        self._store.patience = _PATIENCE
        try:
            self._recorders.record(message)
        except UnwritableError as error:
            self.refusal, self._tried = str(error), time.monotonic()
            return False
        finally:
            self._store.patience = None
        return True

    def _enqueue(self, message: Recorded) -> None:
        if not self._waiting:
            # A database of its own needs the environment and the jobs of what waits, too.
            self._preface = (*([self._ready] if self._ready else []), *self._jobs.values())
        # A refused message must not count, or smaller ones would be refused after it.
        size = len(encode(message))
        if self._bytes + size > LARGEST_MEMORY:
            raise WinaError(f"No more than {LARGEST_MEMORY // 2**20} MiB of results can wait. {self.refusal}")
        self._bytes += size
        self._waiting.append(_Waiting(message, time.time(), size))

    def _spill(self) -> Path:
        """Store what waits in a new database in the first folder that takes it, and return its file."""
        refusal = self.refusal
        for folder, prefix in _spill_folders(self._store.url):
            file = folder / f"{prefix}{uuid.uuid4().hex}.sqlite"
            partial = file.with_suffix(".partial")
            try:
                folder.mkdir(parents=True, exist_ok=True)
                # Made before SQLite opens it, which would let other users read it.
                partial.touch(mode=0o600)
                # Shared: without a write-ahead log, so that one file is all to rename.
                with Store(partial, shared=True) as aside:
                    self._copy_to(aside)
                # Only a whole database gets the name that the next start looks for.
                partial.rename(file)
                _remove(partial)  # its sessions have kept the name
            except (WinaError, OSError) as error:
                refusal = str(error)
                _remove(partial)
            else:
                return file
        raise WinaError(f"What could not be stored is lost, since no folder takes it: {refusal}")

    def _copy_to(self, aside: Store) -> None:
        now = time.time()
        recorders = Recorders(aside)
        preface = [(message, now) for message in self._preface]
        for message, at in (*preface, *((entry.message, entry.at) for entry in self._waiting)):
            if isinstance(message, Submit) and isinstance(message.job, EvaluateJob):
                # No unit can be recorded of a run that has no row.
                aside.add_runs([run.spec for run in message.job.runs])
            try:
                recorders.record(message, at)
            except UnwritableError:
                raise
            except WinaError:  # it can never be stored, as was reported when it came
                continue
        recorders.end_all()


def _merge_waiting(store: Store) -> list[str]:
    """Merge the databases with what waited at the end of earlier programs; return a sentence on each.

    One that the store refuses for now stays; one that cannot be read is set aside.
    """
    remarks: list[str] = []
    for folder, prefix in _spill_folders(store.url):
        for file in sorted(folder.glob(f"{glob.escape(prefix)}*.sqlite")):
            lock = FileLock(file.with_suffix(".lock"))
            with suppress(OSError):  # another program has merged it meanwhile, or the folder is read-only
                if not (_is_own(file) and lock.acquire()):
                    continue
                try:
                    # Another program may have merged it before the lock was free.
                    if file.exists():
                        remarks.append(_merge(file, store))
                except UnwritableError:  # which would refuse the others, too
                    return remarks
                finally:
                    lock.release()
                    lock.path.unlink(missing_ok=True)
    return remarks


def _merge(file: Path, store: Store) -> str:
    """Merge a database and remove it, or set it aside if it cannot be read; return a sentence on the outcome."""
    try:
        upgrade.upgrade_file(file)
        merge_database(file, store, newer=True)
    except UnwritableError:
        raise
    except WinaError as error:
        aside = file.with_suffix(".damaged")
        file.rename(aside)
        return f"Results that waited cannot be stored ({error}); they are kept as {aside}."
    _remove(file)
    return f"Stored the results that waited in {file}."


def _spill_folders(url: URL) -> Iterator[tuple[Path, str]]:
    """Yield folders for the databases of what waits for a database, and the prefix of their names."""
    if file := sqlite_file(url):
        yield file.parent, f"{file.name}.waiting-"
    digest = hashlib.sha256(place_of(url).encode()).hexdigest()[:16]
    for folder in paths.fallback_folders():
        yield folder, f"results-{digest}.waiting-"


def _is_own(file: Path) -> bool:
    # In a shared folder other users could leave files for us, or links.
    status = file.lstat()
    return stat.S_ISREG(status.st_mode) and (os.name == "nt" or status.st_uid == os.geteuid())


def _remove(database: Path) -> None:
    """Delete a database if it exists, its backups, and the folder of its sessions."""
    database.unlink(missing_ok=True)
    for copy in database.parent.glob(f"{glob.escape(database.name)}.backup-*"):
        copy.unlink()
    shutil.rmtree(database.with_name(f"{database.name}.sessions"), ignore_errors=True)
