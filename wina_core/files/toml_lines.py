"""The line of a field in a TOML text, which neither its parser nor pydantic reports."""

import tomllib
from collections.abc import Sequence

_DEPTH = 4
"""Nested arrays that may continue past the end of a line."""
_PATIENCE = 500_000
"""Limit of parsed characters, about a second's work: no beginning within a long quoted text is valid, and the search
would try all of them."""


def line_of(text: str, path: Sequence[str | int]) -> int | None:
    """Return the line, from 1, of `path` or its longest present beginning in valid TOML; None if absent or too slow.

    A beginning of the text, with its open arrays closed, is valid TOML too, so that bisection finds the line.
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
    """Return the number of leading parts of the path that exist."""
    for count, part in enumerate(path):
        try:
            content = content[part]  # type: ignore[index]  # caught where it is no table or array
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
