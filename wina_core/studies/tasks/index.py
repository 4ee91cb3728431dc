"""The names of all stock lm-eval tasks, in a file, and a search in milliseconds.

`python -m wina_core.compute.evaluation.index` writes the file in some 20 s, for one version of lm-eval.
"""

import json
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import TypeAdapter, ValidationError

from wina_core.errors import WinaError
from wina_core.files.paths import cache_folder
from wina_core.files.tables import write_atomically
from wina_core.files.user_file import read_file
from wina_core.specs.plugins import task_files
from wina_core.studies.tasks.fuzzy_search import FuzzySearch

Kind = Literal["task", "group", "tag"]


class TaskEntry(NamedTuple):
    """One name that an evaluation can request."""

    name: str
    kind: Kind
    output_type: str
    """"multiple_choice", "loglikelihood", "loglikelihood_rolling" or "generate_until"; empty where only the loaded task
    has it."""
    path: str
    """Path of its file in lm-eval's folder of tasks; empty for tags and others without a file."""


_ENTRIES = TypeAdapter(tuple[TaskEntry, ...])


class TaskIndex:
    """All stock names, prepared for searching."""

    def __init__(self, entries: Iterable[TaskEntry]) -> None:
        self.entries = tuple(entries)
        """In their alphabetical order."""
        self._search = FuzzySearch([entry.name for entry in self.entries])

    def search(self, query: str, limit: int = 200) -> list[TaskEntry]:
        """Return at most `limit` entries, best first; all of them, in order, for an empty query."""
        return [self.entries[index] for index in self._search.search(query, limit)]


def index_file() -> Path:
    return cache_folder() / f"lm-eval-{version('lm-eval')}-index.json"


def load_index() -> TaskIndex | None:
    """Return the installed lm-eval's index, or None where it must be built."""
    try:
        return TaskIndex(_ENTRIES.validate_json(read_file(index_file(), "cache")))
    except (WinaError, ValidationError):
        return None


def searchable(index: TaskIndex) -> TaskIndex:
    """Return the index with the tasks of installed packages after the stock ones, whose names they do not take."""
    stock = {entry.name for entry in index.entries}
    added = [TaskEntry(name, "task", "", "") for name in sorted(task_files()) if name not in stock]
    return TaskIndex((*index.entries, *added)) if added else index


def save_index(index: TaskIndex) -> None:
    """Write the index for `load_index`; WinaError where the cache cannot be written."""
    write_atomically(index_file(), json.dumps(index.entries, separators=(",", ":")).encode())
