"""Backlog of results that the database refuses for now: on a full, failing or read-only disk, or a locked database."""

import time
import uuid
from collections import deque

from wina_core.errors import WinaError
from wina_core.jobs import CompletionFinished, Done, Event, Failed, Measured, Partial, Ready, Result, Submit
from wina_core.store.recorder import Recorders
from wina_core.store.refusals import UnwritableError
from wina_core.store.spill import (
    LARGEST_SPILL,
    RECORDED,
    Recorded,
    Spill,
    find_spills,
    line_of,
    message_of,
    write_spill,
)
from wina_core.store.writer import Writer

RETRY_SECONDS = 5.0
"""Shortest time between two attempts to store what waits."""
LARGEST_MEMORY = LARGEST_SPILL // 4
"""Bytes of waiting messages in memory, 64 MiB, above which they go to a spill file."""
MOST_SPILLS = 16
"""Spill files of one process: 1 GiB of waiting messages."""
_PATIENCE = 2.0
"""Longest wait in seconds for another program's lock on the database while jobs run."""
_RESULTS = (Partial, Measured, CompletionFinished, Result)


class _Batch:
    """Lines that wait, in memory or, until their turn comes, in a spill file."""

    def __init__(self, spill: Spill | None = None, results: int = 0) -> None:
        self.lines: deque[bytes] = deque()
        self.spill = spill
        self.results = results
        """Number of results among the lines that wait."""
        self.stored = 0
        """Number of results that have been stored."""

    def store(self, recorders: Recorders) -> str:
        """Store all lines, and delete the spill file or set it aside; return why a line can never be stored.

        A line that is refused for now raises UnwritableError and stays, with those behind it.
        """
        fault = ""
        try:
            if self.spill is not None and not self.lines:
                self.lines.extend(self.spill.read())
        except WinaError as error:
            fault = str(error)
        while self.lines:
            line = self.lines.popleft()
            try:
                waiting = message_of(line)
                recorders.record(waiting.message, waiting.at)
            except UnwritableError:
                self.lines.appendleft(line)
                raise
            except WinaError as error:
                fault = fault or str(error)
            else:
                self.stored += isinstance(waiting.message, _RESULTS)
        if self.spill is not None and fault:
            fault = f"A part of {self.spill.path} cannot be stored ({fault}); it is kept as {self.spill.set_aside()}."
        elif self.spill is not None:
            self.spill.remove()
        return fault


class Backlog:
    """Recorder of all jobs of a process, which keeps in order what the store refuses for now, until it is stored.

    All methods are called on one thread, which never waits long for a disk or a lock, except at the end.
    """

    def __init__(self, store: Writer) -> None:
        self._store = store
        self._recorders = Recorders(store)
        self._ready: Ready | None = None
        self._jobs: dict[str, Submit] = {}
        """Jobs that have not ended, by their ids."""
        self._spilled: deque[_Batch] = deque()
        self._memory = _Batch()
        self._preface: list[Recorded] = []
        """Environment and jobs at the first line in memory, with which its spill file begins."""
        self._bytes = 0
        self._spills = 0
        self._name = uuid.uuid4().hex
        self._tried = 0.0
        self.refusal = ""
        """Sentence on why messages wait; empty while none does."""

    @property
    def waiting(self) -> int:
        """Number of results that wait."""
        return sum(batch.results - batch.stored for batch in (*self._spilled, self._memory))

    def record(self, message: Submit | Event) -> None:
        """Store what a message brings, or keep it with its time behind what waits already.

        A job's Submit comes before its events, and Ready, the environment of the numbers, before both; they may come
        again. Raises WinaError for what can never be stored, and when neither memory nor a spill file takes more.
        """
        if not isinstance(message, RECORDED):
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
            if self.refusal or not self._take(message):
                self._keep(message)
        finally:
            if isinstance(message, Done | Failed):
                self._jobs.pop(message.job_id, None)

    def retry(self) -> None:
        """Store what waits if the last attempt is RETRY_SECONDS ago. Raises as `flush`."""
        if self.refusal and time.monotonic() - self._tried >= RETRY_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Store what waits, as far as the database takes it now. Raises WinaError for what can never be stored."""
        if fault := self._store_waiting(_PATIENCE):
            raise WinaError(fault)

    def close(self) -> str:
        """Store what waits or leave it in spill files for the next start; return a sentence on what was not stored.

        Raises WinaError if no folder takes a spill file: what waits is lost.
        """
        fault = self._store_waiting(None) if self.refusal else ""
        if not self.refusal:
            return fault
        if self._memory.lines:
            self._spill()
        left = [batch.spill for batch in self._spilled if batch.spill is not None]
        for spill in left:
            spill.release()
        places = " and ".join(str(spill.path) for spill in left)
        return f"{_results(self.waiting)} could not be stored; the next start stores them from {places}. {self.refusal}"

    def _store_waiting(self, patience: float | None) -> str:
        """Store what waits, with so many seconds for a lock; return why a message can never be stored."""
        faults: list[str] = []
        self._tried = time.monotonic()
        self._store.patience = patience
        try:
            while self._spilled:
                faults.append(self._spilled[0].store(self._recorders))
                self._spilled.popleft()
            faults.append(self._memory.store(self._recorders))
            self._memory, self._bytes = _Batch(), 0
        except UnwritableError as error:
            self.refusal = str(error)
        else:
            self.refusal = ""
        finally:
            self._store.patience = None
        return next(filter(None, faults), "")

    def _take(self, message: Recorded) -> bool:
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

    def _keep(self, message: Recorded) -> None:
        line = line_of(message, time.time())
        if not self._memory.lines:
            self._preface = [*([self._ready] if self._ready else []), *self._jobs.values()]
        self._memory.lines.append(line)
        self._bytes += len(line)
        self._memory.results += isinstance(message, _RESULTS)
        if self._bytes > LARGEST_MEMORY:
            self._spill()

    def _spill(self) -> None:
        """Move what waits in memory to a spill file."""
        if self._spills == MOST_SPILLS:
            raise WinaError(f"No more than {MOST_SPILLS} files of results can wait to be stored. {self.refusal}")
        name = f"{self._name}-{self._spills:04}"
        now = time.time()
        preface = [line_of(message, now) for message in self._preface]
        spill = write_spill(self._store.url, name, [*preface, *self._memory.lines])
        self._spilled.append(_Batch(spill, self._memory.results - self._memory.stored))
        self._spills += 1
        self._memory, self._bytes = _Batch(), 0


def store_spills(store: Writer) -> list[str]:
    """Store what ended programs left in spill files of this database; return a sentence on each file.

    A file that the database refuses for now stays.
    """
    remarks: list[str] = []
    for spill in find_spills(store.url):
        batch, recorders = _Batch(spill), Recorders(store)
        try:
            fault = batch.store(recorders)
            recorders.end_all()
        except UnwritableError:
            spill.release()
            return remarks
        remarks.append(fault or f"Stored {_results(batch.stored)} that waited in {spill.path}.")
    return remarks


def _results(count: int) -> str:
    return "1 result" if count == 1 else f"{count} results"
