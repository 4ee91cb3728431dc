"""The language of filters, on a table of four rows."""

import contextlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wina_core.analysis.results import filter as filtering
from wina_core.analysis.results.columns import COLUMNS
from wina_core.analysis.results.filter import common, parse_filter, passing
from wina_core.analysis.results.table import MetricResults
from wina_core.errors import WinaError
from wina_core.store import MetricRow, RunDetails
from wina_core.store.metric_frames import details_frame, metrics_frame

BLANK: dict[str, Any] = dict.fromkeys(MetricRow._fields, "") | dict.fromkeys(
    ("target_sparsity", "gated_sparsity", "net_sparsity", "value", "finished", "seconds"), 0.0
)
UNKNOWN = dict.fromkeys(("n", "stderr", "higher_is_better", "num_fewshot", "truncated", "version"))
DETAILS = RunDetails("", "", False, 7, "a processor", "demo", "")


def frame(*rows: dict[str, Any], **details: RunDetails) -> MetricResults:
    """Rows with these fields, each of a run of its own, which is called by its number."""
    made = [MetricRow(**{**BLANK, **UNKNOWN, "run": f"r{at}", **row}) for at, row in enumerate(rows)]
    of_runs = {row.run: details.get(row.run, DETAILS) for row in made}
    return MetricResults(metrics_frame(made), details_frame(of_runs), COLUMNS)


FOUR = frame(
    {"method": "wina", "task": "demo_ppl", "value": 0.25, "target_sparsity": 0.5, "n": 100, "finished": 1.0},
    {"method": "WINA (shared masks)", "task": "demo_choice", "value": 0.5, "target_sparsity": 0.65, "n": None},
    {"method": "teal", "task": "demo:heldout", "value": float("nan"), "target_sparsity": 0.25, "n": 100},
    {"method": "dense", "task": "wina", "rotation": "global + heads", "value": -1.0, "n": 7},
    r1=DETAILS._replace(tags="best, per head", note="look again", pinned=True),
)


@pytest.mark.parametrize(
    ("line", "rows"),
    [
        ("", [0, 1, 2, 3]),
        ("WINA", [0, 1, 3]),
        ("method:wina", [0, 1]),
        ("method=wina", [0]),
        ("-method:wina", [2, 3]),
        ("wina demo_choice", [1]),
        ('"global + heads"', [3]),
        ('"demo:heldout"', [2]),
        ("target>=50 value<0.5", [0]),
        ("target<=25%", [2, 3]),
        ("value<=\N{MINUS SIGN}1", [3]),
        ("n!=100", [3]),
        ("/^demo_(ppl|choice)$/", [0, 1]),
        ("task:/demo.(ppl|held out)", [0]),
        ("task:/a b/", []),
        ("seed=7 hardware:processor study:demo", [0, 1, 2, 3]),
        ("-", [0, 1, 2, 3]),
        ('method: value> "', [0, 1, 2, 3]),
        ('method:"te', [2]),
    ],
)
def test_a_line_passes_the_rows_that_have_all_its_terms(line: str, rows: list[int]) -> None:
    assert np.flatnonzero(passing(parse_filter(line, COLUMNS), FOUR)).tolist() == rows


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("methd:wina", 'no column "methd" to filter by; use one of model, method'),
        ("value>high", '"value" holds numbers, but "high" is none; write for example value>0.5'),
        ("task:/(/", r"expression /\(/ cannot be read .*correct it"),
        ("/(?V0)(?V1)a/", r"cannot be read \(VERSION0 and VERSION1.*correct it"),
        pytest.param(f"/{'(' * 450}a{')' * 450}/", "cannot be read .*correct it", id="parentheses in parentheses"),
        pytest.param(f"/{'a|' * 501}/", "has 1,002 characters, and at most 1,000 are read; shorten it", id="long"),
    ],
)
def test_impossible_settings_are_refused(line: str, sentence: str) -> None:
    with pytest.raises(WinaError, match=sentence):
        parse_filter(line, COLUMNS)


@settings(max_examples=40)
@given(st.text(alphabet="ab \"\\'#:/>=-(", max_size=12))
def test_whatever_is_typed_is_read_or_refused_in_words(line: str) -> None:
    with contextlib.suppress(WinaError):
        passing(parse_filter(line, COLUMNS), FOUR)


def test_an_expression_that_would_never_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filtering, "_LONGEST", 0.02)
    slow = frame({"settings": "a" * 40 + "b"})
    with pytest.raises(WinaError, match="takes too long on what is stored; avoid repetitions"):
        passing(parse_filter(r"settings:/^(a|aa)+$/", COLUMNS), slow)


def test_many_texts_are_not_gone_through_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filtering, "PATIENCE_SECONDS", -1.0)
    with pytest.raises(WinaError, match="takes too long"):
        passing(parse_filter("/a/", COLUMNS), FOUR)


def test_rows_of_runs_that_are_gone_are_left_out() -> None:
    results = MetricResults(FOUR.metrics, details_frame({"r2": DETAILS}), COLUMNS)
    assert [results["hash"].text(row) for row in range(len(results))] == ["r2"]


def test_what_rows_have_in_common_is_told_as_it_reads() -> None:
    common_texts = common(FOUR, passing(parse_filter("method:wina", COLUMNS), FOUR))
    assert common_texts["seed"] == "7"
    assert "method" not in common_texts
    assert common(FOUR, np.zeros(4, np.bool_)) == {}


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ((0.5, 0.5000000001), "0.5000"),
        ((0.5, 0.6), None),
        ((0.5, float("nan")), None),
        ((float("nan"), float("nan")), "nan"),
    ],
)
def test_numbers_that_read_alike_are_common(values: tuple[float, ...], text: str | None) -> None:
    table = frame(*({"value": value} for value in values))
    assert common(table, np.ones(len(values), np.bool_)).get("value") == text


@pytest.mark.parametrize(("line", "rows"), [("0.25", [0]), ("value:nan", [2]), ("value:/^0/", [0, 1])])
def test_numbers_are_found_by_their_texts(line: str, rows: list[int]) -> None:
    assert np.flatnonzero(passing(parse_filter(line, COLUMNS), FOUR)).tolist() == rows
