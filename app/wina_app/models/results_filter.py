"""The filter line of the Results page: words that must all occur, each in any column or in a named one."""

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from wina_core.errors import WinaError


@dataclass(frozen=True)
class Term:
    """A text to find, without regard to case; `column` is empty for "any"."""

    text: str
    column: str = ""


def parse_filter(text: str, columns: Iterable[str]) -> tuple[Term, ...]:
    """`wina task:demo "per head"` -> three terms. A word before a colon must be a column's name.

    Raises WinaError for an unknown column. An unfinished quotation, as while typing, is taken to end with the line.
    """
    known = set(columns)
    terms = []
    for word in _words(text):
        head, colon, rest = word.partition(":")
        if not colon:
            terms.append(Term(word.casefold()))
        elif head.casefold() in known:
            terms.append(Term(rest.casefold(), head.casefold()))
        else:
            raise WinaError(f'There is no column "{head}" to filter by; use one of {", ".join(sorted(known))}.')
    return tuple(terms)


def matches(terms: Iterable[Term], cells: Mapping[str, str]) -> bool:
    """Whether a row, given as column name -> casefolded text, has all terms."""
    return all(
        term.text in cells[term.column] if term.column else any(term.text in cell for cell in cells.values())
        for term in terms
    )


def _words(text: str) -> list[str]:
    splitter = shlex.shlex(text, posix=True)
    splitter.whitespace_split = True
    splitter.commenters = splitter.escape = ""
    splitter.quotes = '"'
    words: list[str] = []
    try:
        words.extend(splitter)
    except ValueError:  # no closing quotation yet
        return _words(text + '"')
    return words
