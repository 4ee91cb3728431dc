"""The names of all stock lm-eval tasks, in a file, and a search in milliseconds.

`python -m wina_core.compute.evaluation.index` writes the file in some 20 s, for one version of lm-eval.
"""

import json
from collections.abc import Iterable, Iterator
from importlib.metadata import version
from itertools import chain, islice
from pathlib import Path
from typing import Literal, NamedTuple

from wina_core.files.paths import cache_folder
from wina_core.files.tables import write_atomically

FEW = 20
"""Number of matches below which less literal ones are searched, too."""
_SHORTEST = 4
"""Shortest query that may have a wrong letter."""
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
        self._bits = [_bits(name) for name in self._joined]

    def search(self, query: str, limit: int = 200) -> list[TaskEntry]:
        """Return at most `limit` entries, the best first; the first ones in order for an empty query.

        Names that begin with the query come first, then those with words that begin with each of its words, then those
        that contain each word. Where these are few, names follow that contain the query but for one letter that is
        wrong, extra or swapped with the next, and then those with its letters in order. Shorter names come first.
        """
        words = query.lower().translate(_SEPARATORS).split()
        if not words:
            return list(self.entries[:limit])
        found = dict.fromkeys(islice(self._literal(words), limit))
        for others in (self._mistyped, self._in_order):
            if len(found) >= FEW:
                break
            found |= dict.fromkeys(others("".join(words)))
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

    def _mistyped(self, letters: str) -> list[int]:
        if len(letters) < _SHORTEST:
            return []
        # A mistake touches two adjacent letters at most, so one third of the query is correct.
        third = len(letters) // 3
        first, second, last = letters[:third], letters[third : 2 * third], letters[2 * third :]
        names = enumerate(self._joined)
        places = [place for place, name in names if first in name or second in name or last in name]
        found: set[int] = set()
        for end in range(len(letters)):
            head, wrong, rest = letters[:end], letters[end], letters[end + 1 :]
            swapped = head + rest[:1] + wrong + rest[1:]
            places = [place for place in places if head in self._joined[place]]
            for place in (place for place in places if rest[1:] in self._joined[place]):
                name = self._joined[place]
                if swapped in name or (rest in name and (head + rest in name or _one_apart(name, head, rest))):
                    found.add(place)
        return sorted(found)

    def _in_order(self, letters: str) -> list[int]:
        wanted = _bits(letters)
        places = [place for place, own in enumerate(self._bits) if own & wanted == wanted]
        return [place for place in places if _has_in_order(self._joined[place], letters)]


def _bits(text: str) -> int:
    """Return an integer with a bit for each letter of the text."""
    bits = 0
    for letter in set(text):
        bits |= 1 << (ord(letter) & 63)
    return bits


def _has_in_order(name: str, letters: str) -> bool:
    place = 0
    for letter in letters:
        place = name.find(letter, place) + 1
        if not place:
            return False
    return True


def _one_apart(name: str, head: str, rest: str) -> bool:
    """Return whether the name has both with one letter in between."""
    start = name.find(head)
    while start >= 0:
        if name.startswith(rest, start + len(head) + 1):
            return True
        start = name.find(head, start + 1)
    return False


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
