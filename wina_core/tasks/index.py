"""The names of all stock lm-eval tasks, in a file, and a search in milliseconds.

`python -m wina_core.compute.evaluation.index` writes the file in some 20 s, for one version of lm-eval.
"""

import json
from collections.abc import Iterable, Iterator
from importlib.metadata import version
from itertools import chain, islice
from pathlib import Path
from typing import Literal, NamedTuple

from rapidfuzz import fuzz, process

from wina_core.files.paths import cache_folder
from wina_core.files.tables import write_atomically

FEW = 20
"""Number of matches below which less literal ones are searched, too."""
_SIMILAR = 70
"""Least similarity of a name to the query, in percent."""
_SEPARATORS = str.maketrans("_-./,", "     ")


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


class TaskIndex:
    """All stock names, prepared for searching; the preparation takes a tenth of a second."""

    def __init__(self, entries: Iterable[TaskEntry]) -> None:
        self.entries = tuple(entries)
        """In alphabetical order."""
        self._by_length = sorted(self.entries, key=lambda entry: len(entry.name))
        self._spaced = [" " + entry.name.lower().translate(_SEPARATORS) for entry in self._by_length]
        """The names in that order, with a space before every word."""
        self._joined = [name.replace(" ", "") for name in self._spaced]

    def search(self, query: str, limit: int = 200) -> list[TaskEntry]:
        """Return at most `limit` entries, the best first; the first ones in order for an empty query.

        Names that begin with the query come first, then those with words that begin with each of its words, then those
        that contain each word. Where these are few, names similar to the query follow. Shorter names come first.
        """
        words = query.lower().translate(_SEPARATORS).split()
        if not words:
            return list(self.entries[:limit])
        found = dict.fromkeys(islice(self._literal(words), limit))
        if len(found) < FEW:
            found |= dict.fromkeys(self._similar("".join(words)))
        return [self._by_length[place] for place in islice(found, limit)]

    def _literal(self, words: list[str]) -> Iterator[int]:
        places: Iterable[int] = range(len(self._spaced))
        for word in words:
            places = [place for place in places if word in self._spaced[place]]
        beginning, begun = " " + " ".join(words), [" " + word for word in words]
        tiers: tuple[list[int], ...] = ([], [], [])
        for place in places:
            name = self._spaced[place]
            tiers[0 if name.startswith(beginning) else 1 if all(word in name for word in begun) else 2].append(place)
        return chain(*tiers)

    def _similar(self, letters: str) -> list[int]:
        best: dict[int, float] = {}
        for scorer in (fuzz.partial_ratio, fuzz.ratio):
            found = process.extract(letters, self._joined, scorer=scorer, score_cutoff=_SIMILAR, limit=None)
            for _, score, place in found:
                best[place] = max(score, best.get(place, 0.0))
        return sorted(best, key=lambda place: (-best[place], place))


def index_file() -> Path:
    """Return the file of the installed lm-eval's index."""
    return cache_folder() / f"lm-eval-{version('lm-eval')}-index.json"


def load_index() -> TaskIndex | None:
    """Return the installed lm-eval's index, or None where it must be built."""
    try:
        rows = json.loads(index_file().read_text(encoding="utf-8"))
        return TaskIndex(tuple(TaskEntry(*map(str, row)) for row in rows))  # type: ignore[arg-type]  # kind as written
    except (OSError, ValueError, TypeError):
        return None


def save_index(index: TaskIndex) -> None:
    """Write the index for `load_index`; WinaError where the cache cannot be written."""
    write_atomically(index_file(), json.dumps(index.entries, separators=(",", ":")).encode())
