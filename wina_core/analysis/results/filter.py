"""Filter language: terms that must all hold, each in any column or in a named one.

wina                      a word in any column, without regard to case
"per head"                words together
method:wina               in the column of this name
method=wina  n!=100       the whole cell
gated>50  value<=0.3      comparisons, of numbers as the column shows them
/^demo_.*ppl/  task:/ppl/ regular expressions
-method:teal              not
"""

import operator
import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from wina_core.analysis.results.columns import ResultColumn
from wina_core.analysis.results.table import Mask, MetricResults, TableColumn
from wina_core.errors import WinaError

PATIENCE_SECONDS = 2.0
"""Time limit of a filter's regular expressions, on all rows together."""
_LONGEST = 0.25
"""Seconds that one expression may take on one text."""
_LONGEST_PATTERN = 1_000
"""Characters of an expression: compiling cannot be timed out, and takes seconds for a hundred thousand."""

_TERM = re.compile(
    r"""(?P<minus>-?)
    (?:(?P<column>[^\W\d]\w*)(?P<relation>:|>=|<=|!=|=|>|<))?
    (?:"(?P<quoted>[^"]*)(?:"|$) | /(?P<pattern>.*?)(?:/(?=\s|$)|$) | (?P<word>\S*))""",
    re.VERBOSE,
)
_RELATIONS: dict[str, Callable[[Any, Any], Any]] = {
    ">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le, "=": operator.eq, "!=": operator.ne,
}  # fmt: skip


@dataclass(frozen=True)
class FilterTerm:
    """A condition on rows. `relation` is ":" for a part of the cell, "/" for a match of a regular expression, or a
    comparison, of which `text` is the right-hand side."""

    relation: str
    text: str
    column: str | None = None
    """Key; None for any."""
    negated: bool = False


Terms = tuple[FilterTerm, ...]


def parse_filter(text: str, columns: Collection[ResultColumn]) -> Terms:
    """Parse a filter line, for example `wina task:demo "per head" -gated>50` (four terms; see the module).

    Raises WinaError for a column that is not among `columns`, a comparison of numbers with a word, and an expression
    that cannot be read. What is not finished yet, as while typing, is left out, or ends with the line.
    """
    by_key = {column.key: column for column in columns}
    terms = []
    for match in _TERM.finditer(text.strip()):
        groups = match.groupdict()
        key, relation = groups["column"] and groups["column"].casefold(), groups["relation"] or ":"
        if key and key not in by_key:
            raise WinaError(
                f'There is no column "{groups["column"]}" to filter by; use one of {", ".join(by_key)}, or put the '
                "text in quotes to find it anywhere."
            )
        operand = next(group for group in (groups["quoted"], groups["pattern"], groups["word"]) if group is not None)
        if not operand:
            continue
        if groups["pattern"] is not None:
            _compiled(operand)
            relation = "/"
        elif relation != ":" and by_key[key].numeric:
            _number(operand, by_key[key])
        terms.append(FilterTerm(relation, operand, key, bool(groups["minus"])))
    return tuple(terms)


def passing(terms: Iterable[FilterTerm], table: MetricResults) -> Mask:
    """Return which rows have all terms, shape [rows]. Raises WinaError for an expression that takes too long."""
    mask = np.ones(len(table), np.bool_)
    deadline = time.monotonic() + PATIENCE_SECONDS
    for term in terms:
        matching = np.zeros(len(table), np.bool_)
        for cells in table.cells:
            if term.column in (None, cells.column.key):
                hits = _hits(term, cells, deadline)
                if hits.any():
                    matching |= cells.rows_of(hits)
        mask &= ~matching if term.negated else matching
    return mask


def _hits(term: FilterTerm, cells: TableColumn, deadline: float) -> Mask:
    """Return a mask of the column's categories that meet the term."""
    if term.relation == ":":
        return cells.containing(term.text.casefold())
    if term.relation == "/":
        return _matches(term.text, cells, deadline)
    compare = _RELATIONS[term.relation]
    if cells.column.numeric:
        is_number = ~np.isnan(cells.numbers)
        return np.asarray(compare(cells.numbers, _number(term.text, cells.column)) & is_number, np.bool_)
    return compare(cells.folded, term.text.casefold()).to_numpy(np.bool_)


def _matches(pattern: str, cells: TableColumn, deadline: float) -> Mask:
    search = _compiled(pattern).search
    hits = np.zeros(len(cells.folded), np.bool_)
    try:
        for index, text in enumerate(cells.folded):
            hits[index] = search(text, timeout=_LONGEST) is not None
            if time.monotonic() > deadline:
                raise TimeoutError
    except TimeoutError as error:
        raise WinaError(
            f"The expression /{pattern}/ takes too long on what is stored; avoid repetitions within repetitions, or "
            "name a column before it, as in task:/.../."
        ) from error
    return hits


@cache
def _compiled(pattern: str) -> Any:
    import regex  # unlike re, it can be timed out, and lets other threads run

    if len(pattern) > _LONGEST_PATTERN:
        raise WinaError(
            f"The expression has {len(pattern):,} characters, and at most {_LONGEST_PATTERN:,} are read; shorten it."
        )
    try:
        return regex.compile(pattern, regex.IGNORECASE)
    except (regex.error, ValueError, RecursionError) as error:  # of flags that contradict, of parentheses too deep
        raise WinaError(
            f"The expression /{pattern}/ cannot be read ({error}); correct it, or put the text in quotes to find it "
            "literally."
        ) from error


def _number(text: str, column: ResultColumn) -> float:
    try:
        return float(text.rstrip("%").replace("\N{MINUS SIGN}", "-"))
    except ValueError as error:
        raise WinaError(
            f'The column "{column.key}" holds numbers, but "{text}" is none; write for example {column.key}>0.5.'
        ) from error


def common(table: MetricResults, mask: Mask) -> Mapping[str, str]:
    """Return the texts of columns that read alike in all rows of the mask, by key; empty without rows."""
    if not mask.any():
        return {}
    rows = slice(None) if mask.all() else mask
    texts = {cells.column.key: cells.common_text(rows) for cells in table.cells}
    return {key: text for key, text in texts.items() if text is not None}
