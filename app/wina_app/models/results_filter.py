"""The filter line of the Results page: words that must all occur, each in any column or in a named one."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from wina_core.errors import WinaError


@dataclass(frozen=True)
class Term:
    """A text to find, without regard to case, in the column with this index or in any."""

    text: str
    column: int | None = None


def parse_filter(text: str, columns: Mapping[str, int]) -> tuple[Term, ...]:
    """`wina task:demo "per head"` -> three terms; `columns` maps names to indices.

    A word before a colon must be a column's name, else WinaError is raised. A quotation that is not closed yet, as
    while typing, ends with the line.
    """
    terms = []
    for word in _words(text):
        head, colon, rest = word.partition(":")
        if not colon:
            terms.append(Term(word.casefold()))
        elif head.casefold() in columns:
            terms.append(Term(rest.casefold(), columns[head.casefold()]))
        else:
            raise WinaError(f'There is no column "{head}" to filter by; use one of {", ".join(columns)}.')
    return tuple(terms)


def matches(terms: Sequence[Term], cells: Sequence[str]) -> bool:
    """Whether a row's casefolded texts have all terms."""
    return all(
        any(term.text in cell for cell in cells) if term.column is None else term.text in cells[term.column]
        for term in terms
    )


def _words(text: str) -> list[str]:
    splitter = shlex.shlex(text if text.count('"') % 2 == 0 else text + '"', posix=True)
    splitter.whitespace_split = True
    splitter.commenters = splitter.escape = ""
    splitter.quotes = '"'
    return list(splitter)
