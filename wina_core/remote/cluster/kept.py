"""Submitted arrays of a database, kept beside it until their results are stored, so that any later start imports them.

Two files for each: the array as it was submitted, and how far it is imported. A lock keeps it with one process.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from pydantic import Field, ValidationError
from sqlalchemy import URL

from wina_core.files import paths
from wina_core.files.locks import FileLock
from wina_core.files.tables import write_atomically
from wina_core.jobs import EvaluateJob
from wina_core.jobs.message import Message
from wina_core.records import Environment
from wina_core.remote.cluster.requests import ElementStatus
from wina_core.store.connection import sqlite_file
from wina_core.store.sessions import QUEUED_ELSEWHERE


class KeptArray(Message):
    """An array as it was submitted."""

    id: str = Field(pattern=r"^[0-9a-f]{12}$")
    title: str
    machine: str
    job: str
    """Slurm's number."""
    submitted: float
    elements: tuple[EvaluateJob, ...]
    runs: dict[str, str] = Field(default_factory=dict)
    """Hash of each run here by its hash on the machine, where they differ by paths."""

    @property
    def owner(self) -> str:
        """Return the name under which it owns its runs in the database."""
        return f"{QUEUED_ELSEWHERE}{self.id}"

    @property
    def units(self) -> int:
        """Return the number of its measurements."""
        return sum(len(run.units) for element in self.elements for run in element.runs)


class ElementProgress(Message):
    """Progress of an element's import."""

    offset: int = 0
    """Bytes of its results file that are stored."""
    environment: Environment | None = None
    results: int = 0
    failed_runs: int = 0
    requeued: int = 0
    """Times that it was queued again by us."""
    status: ElementStatus = ElementStatus(state="pending")
    ended: bool = False
    """True once nothing more is imported."""
    error: str = ""
    """The reason for which it is given up."""


class ArrayProgress(Message):
    """Progress of an array's import."""

    elements: tuple[ElementProgress, ...]
    cancelled: bool = False

    @property
    def ended(self) -> bool:
        """Return whether nothing more is imported."""
        return all(element.ended for element in self.elements)

    @property
    def results(self) -> int:
        """Return the number of stored measurements."""
        return sum(element.results for element in self.elements)

    @property
    def states(self) -> str:
        """Return the numbers of elements by state, such as "5 pending, 2 running"."""
        counts = Counter(element.status.state for element in self.elements)
        return ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))

    @property
    def errors(self) -> list[str]:
        """Return the errors of elements that were given up, each once."""
        return list(dict.fromkeys(element.error for element in self.elements if element.error))


class KeptArrays:
    """The arrays that were submitted from one database."""

    def __init__(self, url: URL) -> None:
        file = sqlite_file(url)
        if file is not None:
            self._folder = file.with_name(f"{file.name}.arrays")
        else:
            name = hashlib.sha256(url.render_as_string(hide_password=True).encode()).hexdigest()[:16]
            self._folder = paths.data_folder() / f"submitted-{name}"

    def __iter__(self) -> Iterator[KeptArray]:
        """Yield the arrays in the order of their submission, without what cannot be read."""
        found = []
        for path in self._folder.glob("*.array"):
            with suppress(OSError, ValidationError):
                found.append(KeptArray.model_validate_json(path.read_bytes()))
        return iter(sorted(found, key=lambda array: array.submitted))

    def names(self) -> frozenset[str]:
        """Return the ids of all arrays, without reading them."""
        return frozenset(path.stem for path in self._folder.glob("*.array") if re.fullmatch(r"[0-9a-f]{12}", path.stem))

    def keep(self, array: KeptArray) -> None:
        """Keep a new array."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self.save(array, ArrayProgress(elements=(ElementProgress(),) * len(array.elements)))
        write_atomically(self._folder / f"{array.id}.array", array.model_dump_json().encode(), private=True)

    def progress(self, array: KeptArray) -> ArrayProgress:
        """Return how far an array is imported; not at all where that cannot be read, which changes no result."""
        with suppress(OSError, ValidationError):
            found = ArrayProgress.model_validate_json((self._folder / f"{array.id}.progress").read_bytes())
            if len(found.elements) == len(array.elements):
                return found
        return ArrayProgress(elements=(ElementProgress(),) * len(array.elements))

    def save(self, array: KeptArray, progress: ArrayProgress) -> None:
        """Keep how far an array is imported."""
        write_atomically(self._folder / f"{array.id}.progress", progress.model_dump_json().encode(), private=True)

    @contextmanager
    def held(self, array: KeptArray) -> Iterator[bool]:
        """Keep an array from other processes; yield False if another one holds it or has forgotten it."""
        lock = FileLock(self._folder / f"{array.id}.lock")
        free = lock.acquire()
        try:
            yield free and (self._folder / f"{array.id}.array").exists()
        finally:
            if free:
                lock.release()

    def forget(self, array: KeptArray) -> None:
        """Drop an array whose results are stored."""
        for kind in ("array", "progress", "lock"):
            with suppress(OSError):
                (self._folder / f"{array.id}.{kind}").unlink()
