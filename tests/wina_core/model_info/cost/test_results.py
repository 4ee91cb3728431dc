"""Stored results whose rotation costs more than it saves, or that saw the text of the evaluation, say so wherever they
are listed."""

import csv
import json

import pytest

from tests.wina_core.conftest import Wina
from tests.wina_core.samples import run, study, unit
from wina_core.model_info.cost.warning import sparsity_warning
from wina_core.specs import (
    AS_RELEASED_ROTATION,
    DENSE,
    AllocatedSparsity,
    AllocatorSpec,
    CalibrationSpec,
    EvaluationSpec,
    MethodSpec,
    RotationSpec,
    RunSpec,
    TextSpec,
)
from wina_core.store import Store
from wina_core.store.columns import chosen_on_evaluation

FREE = run()
HELDOUT = TextSpec(source="demo:heldout")
OWN = TextSpec(source="/texts/own.txt", fingerprint="0123456789abcdef")
ALLOCATED = AllocatedSparsity(sparsity=0.5, allocator=AllocatorSpec(name="curves", text=HELDOUT))
SEEN = CalibrationSpec(text=HELDOUT.model_copy(update={"tokens": 1024}))
THRESHOLD = MethodSpec(name="wina", selection="threshold")


@pytest.mark.parametrize(
    ("changes", "seen"),
    [
        ({}, ""),
        ({"rotation": RotationSpec(text=HELDOUT)}, "rotation"),
        ({"rotation": RotationSpec(text=HELDOUT), "method": DENSE}, ""),  # exact: nothing to flatter
        ({"rotation": AS_RELEASED_ROTATION.model_copy(update={"text": HELDOUT})}, ""),  # reads no text
        ({"calibration": SEEN}, "calibration"),  # top k has one where its allocator searched by thresholds
        ({"method": THRESHOLD, "calibration": SEEN}, "calibration"),
        ({"method": THRESHOLD, "calibration": SEEN, "plan": ALLOCATED}, "allocator and calibration"),
        ({"rotation": RotationSpec(text=OWN), "evaluation": EvaluationSpec(fidelity=OWN)}, "rotation"),
        ({"rotation": RotationSpec(text=HELDOUT), "evaluation": EvaluationSpec(fidelity=OWN)}, ""),
    ],
)
def test_a_run_knows_what_of_it_saw_the_text_of_its_evaluation(changes, seen):
    assert chosen_on_evaluation(FREE.model_copy(update=changes)) == seen


def store_units(store: Store, *runs: RunSpec, **changes: object) -> None:
    """Store both units of runs, with these fields."""
    store.save_study(study(), runs)
    for spec in runs:
        for name in spec.evaluation.units:
            store.record_unit(unit(spec, name).model_copy(update=changes))


def listed(wina: Wina, *words: object) -> dict[str, str]:
    """Return the warnings that `wina results` lists by rotation."""
    return {row["rotation"]: row.get("warning") for row in json.loads(wina.succeeds("results", "--json", *words))}


def test_results_have_a_warning_where_one_is_due_and_exports_its_column_always(store, wina, tmp_path):
    paid = run(rotation=AS_RELEASED_ROTATION)
    store_units(store, paid, gated_sparsity=0.15, net_sparsity=-0.03)
    store_units(store, FREE, gated_sparsity=0.15, net_sparsity=0.15)
    expected = {paid.rotation.label: sparsity_warning(0.15, -0.03), "none": ""}
    database = ("--database", store.url.database)
    assert listed(wina, *database) == expected
    assert listed(wina, *database, "--rotation", "none") == {"none": None}
    wina.succeeds("export", tmp_path / "results.csv", *database)
    with (tmp_path / "results.csv").open(encoding="utf-8", newline="") as lines:
        assert {row["rotation"]: row["warning"] for row in csv.DictReader(lines)} == expected
