"""Comparison of a run with a run of another database, which is only read."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.wina_core.analysis.comparison.test_comparison import STUDY, TEAL, WINA, choice
from tests.wina_core.conftest import Wina
from tests.wina_core.report.report_study import named
from wina_core.store import Store


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """A database with TEAL, and WINA with other answers."""
    with Store(tmp_path / "other.sqlite") as store:
        store.save_study(STUDY, named(STUDY))
        store.record_unit(choice(TEAL))
        wrong = choice(TEAL).model_copy(update={"run": WINA.content_hash()})
        store.record_unit(wrong)
        store.end_runs([TEAL.content_hash(), WINA.content_hash()], "cancelled")
    return tmp_path / "other.sqlite"


@pytest.fixture
def store(store: Store) -> Store:
    store.save_study(STUDY, named(STUDY))
    store.record_unit(choice(WINA))
    return store


def test_runs_of_two_databases_are_paired_by_document(
    store: Store, other: Path, compare: Callable[..., list[dict[str, Any]]]
) -> None:
    before = other.read_bytes()
    across = compare(WINA.content_hash()[:8], TEAL.content_hash()[:8], "--with", other)
    assert other.read_bytes() == before
    store.record_unit(choice(TEAL))
    assert across == compare(WINA.content_hash()[:8], TEAL.content_hash()[:8]), "as in one database"


def test_one_named_run_is_compared_with_itself_in_the_other_database(
    other: Path, compare: Callable[..., list[dict[str, Any]]]
) -> None:
    (found,) = compare(WINA.content_hash(), "--with", other)
    assert (found["task"], found["first"], found["second"]) == ("choice", 0.8, 0.3)


def test_a_run_that_the_other_database_lacks_and_a_study_are_refused(store: Store, wina: Wina, tmp_path: Path) -> None:
    empty = tmp_path / "empty.sqlite"
    Store(empty).close()
    hashes = WINA.content_hash(), TEAL.content_hash()
    where = "--database", store.url.database

    def refusal(*words: object) -> str:
        return wina.fails(1, "compare", *words, *where)

    assert f'No stored run\'s hash begins with "{hashes[1]}"' in wina.fails(
        1, "compare", *hashes, "--with", empty, *where
    )
    assert "merge the databases first" in refusal("--study", STUDY.name, "--with", empty)
    assert "There is no results database" in refusal(*hashes, "--with", tmp_path / "none")
