"""`wina import`: check, store, list, export and remove results of other tools."""

import csv
import json
from pathlib import Path

import pytest

DATA = Path(__file__).parents[1] / "store" / "imported" / "data"


def listed(wina):
    return json.loads(wina.succeeds("import", "--list", "--json"))


def test_files_are_imported_listed_written_and_removed(wina, tmp_path):
    code, _, err = wina("import", DATA / "bench.json", DATA / "kl.log", "--model", "demo")
    assert code == 0
    assert "bench.json: 2 points of llama-bench imported as number 1." in err
    assert "1 test of a prompt and generation together left out" in err
    four, *_ = (row for row in listed(wina) if row["import"] == 1)
    assert (four["name"], four["model"], four["file"], four["date"]) == (
        "demo-Q4_0.gguf", "demo", "bench.json", "2026-11-20",
    )  # fmt: skip
    assert four["imported"] is True
    assert (four["tokens_per_s"], four["kl"]) == (1310.25, None)
    wina.succeeds("import", "--list", "--output-path", tmp_path / "peers.csv")
    rows = list(csv.DictReader((tmp_path / "peers.csv").open()))
    assert [row["imported"] for row in rows] == ["True"] * 3
    wina.succeeds("import", "--remove", "1")
    assert [row["file"] for row in listed(wina)] == ["kl.log"]
    assert "There is no import number 1; stored ones: 2" in wina.fails(1, "import", "--remove", "1")


def test_a_faulty_file_and_a_dry_run_store_nothing(wina, tmp_path):
    faulty = tmp_path / "faulty.csv"
    faulty.write_text("name,kl\na,nan\n")
    assert "line 2: kl is nan" in wina.fails(1, "import", DATA / "kl.log", faulty, "--model", "demo")
    assert "0.02952" in wina.succeeds("import", DATA / "kl.log", "--model", "demo", "--dry-run")
    assert "bytes per token" in wina.succeeds("import", "--columns")
    assert listed(wina) == []


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "Name a file to import"),
        ((DATA / "kl.log",), "Name the workbench's model that was measured with --model"),
        ((DATA / "kl.log", DATA / "kl.log", "--model", "demo"), "is named twice"),
        (("--remove", "1", "--model", "demo"), "--remove takes numbers alone"),
        (("--output-path", "x.csv", "--remove", "1"), "add --list"),
    ],
)
def test_requests_that_make_no_sense_are_refused(wina, words, sentence):
    assert sentence in wina.fails(1, "import", *words)
