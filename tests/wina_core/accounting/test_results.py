"""Stored results whose rotation costs more than it saves, or that saw the text of the evaluation, say so wherever they
are listed."""

import csv
import json
import sys
from pathlib import Path

import pytest

from tests.wina_core.samples import ENVIRONMENT, run, study, unit
from wina_core import cli
from wina_core.accounting.warning import sparsity_warning
from wina_core.specs import (
    AS_RELEASED_ROTATION,
    DENSE,
    FIDELITY,
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

PAID, FREE = run(rotation=AS_RELEASED_ROTATION), run()
WARNING = sparsity_warning(0.15, -0.03)


@pytest.fixture
def database(tmp_path: Path) -> str:
    """A run that pays more for its shortcuts than it saves, and one that has none."""
    url = f"sqlite:///{tmp_path / 'results.sqlite'}"
    with Store(url) as store:
        store.save_study(study(), (PAID, FREE))
        for spec, full in ((PAID, -0.03), (FREE, 0.15)):
            store.begin_run(spec.content_hash(), ENVIRONMENT)
            changes = {"gated_sparsity": 0.15, "net_sparsity": full}
            store.record_unit(unit(spec).model_copy(update=changes))
    return url


def wina(monkeypatch: pytest.MonkeyPatch, *args: str) -> None:
    monkeypatch.setattr(sys, "argv", ["wina", *args])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert not ended.value.code


def test_results_have_a_warning_where_one_is_due_and_exports_its_column_always(database, monkeypatch, capsys, tmp_path):
    wina(monkeypatch, "results", "--database", database, "--json")
    found = {row["rotation"]: row["warning"] for row in json.loads(capsys.readouterr().out)}
    assert found == {AS_RELEASED_ROTATION.label: WARNING, "none": ""}
    wina(monkeypatch, "results", "--database", database, "--rotation", "none", "--json")
    (row,) = json.loads(capsys.readouterr().out)
    assert "warning" not in row
    file = tmp_path / "results.csv"
    wina(monkeypatch, "export", str(file), "--database", database)
    with file.open(encoding="utf-8", newline="") as lines:
        found = {row["rotation"]: row["warning"] for row in csv.DictReader(lines)}
    assert found == {AS_RELEASED_ROTATION.label: WARNING, "none": ""}


HELDOUT = TextSpec(source="demo:heldout")
OWN = TextSpec(source="/texts/own.txt", fingerprint="0123456789abcdef")
ALLOCATED = AllocatedSparsity(sparsity=0.5, allocator=AllocatorSpec(name="curves", text=HELDOUT))
SEEN = CalibrationSpec(text=HELDOUT.model_copy(update={"tokens": 1024}))
THRESHOLD = MethodSpec(name="wina", selection="threshold")


def variant_of_free(**changes: object) -> RunSpec:
    return FREE.model_copy(update=changes)


@pytest.mark.parametrize(
    ("spec", "seen"),
    [
        (FREE, ""),
        (variant_of_free(rotation=RotationSpec()), ""),
        (variant_of_free(rotation=RotationSpec(text=HELDOUT)), "rotation"),
        (variant_of_free(rotation=RotationSpec(text=HELDOUT), method=DENSE), ""),  # exact: nothing to flatter
        (variant_of_free(rotation=AS_RELEASED_ROTATION.model_copy(update={"text": HELDOUT})), ""),  # reads no text
        (variant_of_free(plan=ALLOCATED), "allocator"),
        (variant_of_free(calibration=SEEN), "calibration"),  # top k has one where its allocator searched by thresholds
        (variant_of_free(method=THRESHOLD, calibration=SEEN), "calibration"),
        (variant_of_free(method=THRESHOLD, calibration=SEEN, plan=ALLOCATED), "allocator and calibration"),
        (variant_of_free(rotation=RotationSpec(text=OWN), evaluation=EvaluationSpec(fidelity=OWN)), "rotation"),
        (variant_of_free(rotation=RotationSpec(text=HELDOUT), evaluation=EvaluationSpec(fidelity=OWN)), ""),
        (variant_of_free(rotation=RotationSpec(text=HELDOUT), evaluation=EvaluationSpec(fidelity=None)), ""),
    ],
)
def test_a_run_knows_what_of_it_saw_the_text_of_its_evaluation(spec, seen):
    assert chosen_on_evaluation(spec) == seen


def test_the_list_warns_of_a_choice_on_the_text_of_the_evaluation(tmp_path, monkeypatch, capsys):
    database = f"sqlite:///{tmp_path / 'seen.sqlite'}"
    seen = variant_of_free(rotation=RotationSpec(text=HELDOUT))
    with Store(database) as store:
        store.save_study(study(), (seen, FREE))
        for spec in (seen, FREE):
            store.begin_run(spec.content_hash(), ENVIRONMENT)
            for name in (FIDELITY, "choice"):
                store.record_unit(unit(spec, name))
        warnings = {(row.run, row.task): row.warning for row in store.metric_rows()}
    wina(monkeypatch, "results", "--database", database, "--json")
    listed = {row["rotation"]: row["warning"] for row in json.loads(capsys.readouterr().out)}
    sentence = (
        "The text of this evaluation is also that of its rotation, so its numbers may flatter; choose another text for "
        "one of them."
    )
    assert listed == {seen.rotation.label: sentence, "none": ""}
    assert {key for key, warning in warnings.items() if warning} == {(seen.content_hash(), FIDELITY)}
