"""On which line of a TOML text a field is: its parser does not tell. Light."""

import tomllib
from collections.abc import Sequence

_DEPTH = 4
"""Arrays in arrays that may run on over the end of a line."""
_PATIENCE = 500_000
"""Characters parsed in search of a line, about a second's work: within a long text in quotes no beginning is valid, and
all of them would be tried."""


def line_of(text: str, path: Sequence[str | int]) -> int | None:
    """The line, counted from 1, with which `path` or the longest part of it that is there comes to be in the text,
    which must be valid TOML; None for an empty path, where not even its beginning is there, and where the search would
    take long.

    A beginning of the text, with its open arrays closed, is valid TOML too, and has the field or has not: the line is
    found by halving.
    """
    lines = text.splitlines()
    whole = tomllib.loads(text)
    path = path[: _known(whole, path)]
    if not path:
        return None
    patience = _PATIENCE
    low, high = 0, len(lines)  # the field is not in the first `low` lines, and is in the first `high`
    while high - low > 1:
        middle = (low + high) // 2
        begun: dict[str, object] = {}
        for end in range(middle, low, -1):
            patience -= sum(map(len, lines[:end]))
            if patience < 0:
                return None
            if parsed := _parsed(lines[:end]):
                begun = parsed
                break
        if _known(begun, path) == len(path):
            high = middle
        else:
            low = middle
    return high


def _known(content: object, path: Sequence[str | int]) -> int:
    """How many parts of the path lead somewhere."""
    for count, part in enumerate(path):
        try:
            content = content[part]  # type: ignore[index]  # what is no table or array is refused as it should be
        except (KeyError, IndexError, TypeError):
            return count
    return len(path)


def _parsed(lines: Sequence[str]) -> dict[str, object] | None:
    beginning = "\n".join(lines)
    for depth in range(_DEPTH + 1):
        try:
            return tomllib.loads(beginning + "\n" + "]" * depth)
        except tomllib.TOMLDecodeError:
            continue
    return None
