"""The names of all stock lm-eval tasks, kept in a file and searched in milliseconds. Light: it never imports lm_eval.

`python -m wina_core.compute.evaluation.index` writes the file in some 20 s, for one version of lm-eval.
"""

import json
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Literal, NamedTuple

from wina_core.files.paths import cache_folder
from wina_core.files.tables import write_atomically
from wina_core.tasks.fuzzy_search import FuzzySearch

Kind = Literal["task", "group", "tag"]


class TaskEntry(NamedTuple):
    """One name that an evaluation can ask for."""

    name: str
    kind: Kind
    output_type: str
    """"multiple_choice", "loglikelihood", "loglikelihood_rolling" or "generate_until"; empty where it shows only once
    the task is loaded."""
    path: str
    """Of its own file in lm-eval's folder of tasks; empty where it has none, as tags."""


class TaskIndex:
    """All stock names, prepared for searching."""

    def __init__(self, entries: Iterable[TaskEntry]) -> None:
        self.entries = tuple(entries)
        """In their alphabetical order."""
        self._search = FuzzySearch([entry.name for entry in self.entries])

    def search(self, query: str, limit: int = 200) -> list[TaskEntry]:
        """Return at most `limit` entries, best first; all of them, in order, for an empty query."""
        return [self.entries[place] for place in self._search.search(query, limit)]


def index_file() -> Path:
    """Where the index of the installed lm-eval is kept."""
    return cache_folder() / f"lm-eval-{version('lm-eval')}-index.json"


def load_index() -> TaskIndex | None:
    """The index, or None where there is none of the installed lm-eval that can be read: it is to be built then."""
    try:
        rows = json.loads(index_file().read_text(encoding="utf-8"))
        return TaskIndex(tuple(TaskEntry(*map(str, row)) for row in rows))  # type: ignore[arg-type]  # kind as written
    except (OSError, ValueError, TypeError):
        return None


def save_index(index: TaskIndex) -> None:
    """Keep the index for `load_index`; WinaError where the cache cannot be written."""
    write_atomically(index_file(), json.dumps(index.entries, separators=(",", ":")).encode())
