"""`wina results`: filters, tags, notes, pins, and runs that are deleted and come back."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.wina_core.conftest import Wina
from tests.wina_core.samples import EVALUATION, run, study, unit
from wina_core.specs import MethodSpec
from wina_core.store import Store

RUNS = (run(0.5), run(0.25), run(0.25, method=MethodSpec(name="teal")))
HASHES = [spec.content_hash() for spec in RUNS]
Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def results(store: Store, wina: Wina, monkeypatch: pytest.MonkeyPatch) -> Call:
    """`wina results` on three runs."""
    store.save_study(study(), RUNS)
    for each in RUNS:
        for name in EVALUATION.units:
            store.record_unit(unit(each, name))
    monkeypatch.setenv("WINA_DATABASE", str(store.url.database))
    return partial(wina, "results")


def listed(results: Call, *args: str) -> list[dict[str, object]]:
    code, out, err = results("--annotations", "--json", *args)
    assert code == 0, err
    rows: list[dict[str, object]] = json.loads(out)
    return rows


def test_a_line_filters_what_is_printed_and_written(results: Call, wina: Wina, tmp_path: Path) -> None:
    assert [row["run"] for row in listed(results)] == HASHES
    assert [row["run"] for row in listed(results, "--filter", "method:wina target<30")] == HASHES[1:2]
    wina.succeeds("export", tmp_path / "out.tsv", "--filter", "method:teal")
    assert len((tmp_path / "out.tsv").read_text().splitlines()) == 1 + 2


def test_tags_notes_and_pins_are_written_on_runs(results: Call, store: Store) -> None:
    assert results("tag", HASHES[0][:6], HASHES[1], "--add", "best, report") == (0, "", "2 runs marked.\n")
    assert results("tag", "--filter", "tags:best target=50", "--remove", "report")[0] == 0
    assert results("note", "as in the paper", HASHES[2])[0] == 0
    assert results("pin", HASHES[2])[0] == 0
    found = {row["run"]: (row["tags"], row["note"]) for row in listed(results)}
    assert list(found.values()) == [("best", ""), ("best, report", ""), ("", "as in the paper")]
    assert [details.pinned for details in store.run_details().values()] == [False, False, True]
    assert results("pin", "--off", "--filter", "pin:pinned")[2] == "1 run marked.\n"


def test_deleted_runs_are_listed_restored_and_erased(results: Call) -> None:
    code, _, err = results("delete", "--filter", "method:wina")
    assert (code, err.startswith("2 runs deleted; bring back with: wina results restore ")) == (0, True)
    assert [row["run"] for row in listed(results)] == HASHES[2:]
    gone = json.loads(results("deleted", "--json")[1])
    assert {row["run"] for row in gone} == set(HASHES[:2])
    assert results("restore", HASHES[0])[2] == "1 run restored.\n"
    assert [row["run"] for row in listed(results)] == [HASHES[0], HASHES[2]]
    assert results("purge", "--yes")[2] == "1 run erased.\n"
    assert results("restore", "--all")[2] == "0 runs restored.\n"


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (("delete",), "No run is named; give beginnings of hashes, or a --filter."),
        (("delete", "nothing"), 'No run begins with "nothing"'),
        (("delete", "--filter", "method:cats"), 'No stored run passes the filter "method:cats".'),
        (("restore",), "No deleted run is named"),
        (("tag", HASHES[0]), "No tag is named"),
    ],
)
def test_what_is_not_clear_is_refused_in_a_sentence(results: Call, args: tuple[str, ...], sentence: str) -> None:
    code, _, err = results(*args)
    assert code == 1
    assert sentence in err
    assert len(listed(results)) == 3, "and nothing is changed"
