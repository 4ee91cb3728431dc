"""`wina results`: filters, tags, notes, pins, and runs that are deleted and come back."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.wina_core.samples import EVALUATION, run, study, unit
from wina_core import cli
from wina_core.specs import MethodSpec
from wina_core.store import Store

RUNS = (run(0.5), run(0.25), run(0.25, method=MethodSpec(name="teal")))
HASHES = [spec.content_hash() for spec in RUNS]
Wina = Callable[..., tuple[int, str, str]]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    with Store(tmp_path / "results.sqlite") as store:
        store.save_study(study(), RUNS)
        for each in RUNS:
            for name in EVALUATION.units:
                store.record_unit(unit(each, name))
    return tmp_path / "results.sqlite"


@pytest.fixture
def wina(file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Wina:
    def call(*args: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["wina", *args, "--database", str(file)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        out, err = capsys.readouterr()
        return (ended.value.code if isinstance(ended.value.code, int) else 0), out, err

    return call


def listed(wina: Wina, *args: str) -> list[dict[str, object]]:
    code, out, err = wina("results", "--annotations", "--json", *args)
    assert code == 0, err
    rows: list[dict[str, object]] = json.loads(out)
    return rows


def test_a_line_filters_what_is_printed_and_written(wina: Wina, tmp_path: Path) -> None:
    assert [row["run"] for row in listed(wina)] == HASHES
    assert [row["run"] for row in listed(wina, "--filter", "method:wina target<30")] == HASHES[1:2]
    code, _, err = wina("results", "--filter", "methd:wina")
    assert (code, "no column" in err) == (1, True)
    assert wina("export", str(tmp_path / "out.tsv"), "--filter", "method:teal")[0] == 0
    assert len((tmp_path / "out.tsv").read_text().splitlines()) == 1 + 2


def test_tags_notes_and_pins_are_written_on_runs(wina: Wina, file: Path) -> None:
    assert wina("results", "tag", HASHES[0][:6], HASHES[1], "--add", "best, report") == (0, "", "2 runs marked.\n")
    assert wina("results", "tag", "--filter", "tags:best target=50", "--remove", "report")[0] == 0
    assert wina("results", "note", "as in the paper", HASHES[2])[0] == 0
    assert wina("results", "pin", HASHES[2])[0] == 0
    found = {row["run"]: (row["tags"], row["note"]) for row in listed(wina)}
    assert list(found.values()) == [("best", ""), ("best, report", ""), ("", "as in the paper")]
    with Store(file) as store:
        assert [details.pinned for details in store.run_details().values()] == [False, False, True]
    assert wina("results", "pin", "--off", "--filter", "pin:pinned")[2] == "1 run marked.\n"


def test_deleted_runs_are_listed_restored_and_erased(wina: Wina) -> None:
    code, _, err = wina("results", "delete", "--filter", "method:wina")
    assert (code, err.startswith("2 runs deleted; bring back with: wina results restore ")) == (0, True)
    assert [row["run"] for row in listed(wina)] == HASHES[2:]
    gone = json.loads(wina("results", "deleted", "--json")[1])
    assert {row["run"] for row in gone} == set(HASHES[:2])
    assert wina("results", "restore", HASHES[0])[2] == "1 run restored.\n"
    assert [row["run"] for row in listed(wina)] == [HASHES[0], HASHES[2]]
    assert wina("results", "purge", "--yes")[2] == "1 run erased.\n"
    assert wina("results", "restore", "--all")[2] == "0 runs restored.\n"


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (("delete",), "No run is named; give beginnings of hashes, or a --filter."),
        (("delete", "nothing"), 'No run begins with "nothing"'),
        (("delete", ""), 'More than one (3) run begins with ""'),
        (("delete", "--filter", "method:cats"), 'No stored run passes the filter "method:cats".'),
        (("restore",), "No deleted run is named"),
        (("tag", HASHES[0]), "No tag is named"),
    ],
)
def test_what_is_not_clear_is_refused_in_a_sentence(wina: Wina, args: tuple[str, ...], sentence: str) -> None:
    code, _, err = wina("results", *args)
    assert code == 1
    assert sentence in err
    assert len(listed(wina)) == 3, "and nothing is changed"
