"""Fuzzy search over names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wina_core.studies.tasks.fuzzy_search import FuzzySearch

COMMANDS = ["Results", "Reset layout", "New results database", "Open recent", "Export table", "Cancel all jobs"]


def found(query: str) -> list[str]:
    return [COMMANDS[index] for index in FuzzySearch(COMMANDS).search(query)]


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("rl", "Reset layout"),
        ("res", "Results"),
        ("nrd", "New results database"),
        ("RES LAY", "Reset layout"),
        ("rst", "Results"),
        ("exprot", "Export table"),
    ],
)
def test_beginnings_initials_mistakes_and_gaps_find_a_command(query: str, first: str) -> None:
    assert found(query)[0] == first


@given(st.text(alphabet="abcXY ", max_size=8), st.lists(st.text(alphabet="abcXY -", max_size=12), max_size=8))
def test_every_text_with_the_letters_in_order_is_found_once(query: str, texts: list[str]) -> None:
    def has_letters(text: str) -> bool:
        letters = iter(text.casefold())
        return all(letter in letters for letter in query.casefold().replace(" ", ""))

    indices = FuzzySearch(texts).search(query)
    assert len(set(indices)) == len(indices)
    assert {index for index, text in enumerate(texts) if has_letters(text)} <= set(indices)
