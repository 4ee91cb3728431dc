"""Runs of a time without BOS and with originals in 16 bits: kept, shown with a warning, and never reused."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.wina_core.samples import unit
from tests.wina_core.tiny import tiny_folder, tiny_tokenizer
from wina_core.model_info.resolve import resolve
from wina_core.specs import FIDELITY, ORIGINAL, Configuration, EvaluationSpec, ModelSource, TextSpec
from wina_core.specs.studies import StudySpec
from wina_core.store import MetricFilter, Store
from wina_core.studies.expand import expand

TEXT = TextSpec(source="demo:heldout")


def old_run(file: Path, source: ModelSource, evaluation: EvaluationSpec, unit_name: str) -> None:
    """Store a run as the program before did."""
    study = StudySpec(name="old", models=(source,), configurations=(Configuration(),), evaluation=evaluation)
    (run,) = expand(study)
    run = run.model_copy(update={"model": run.model.model_copy(update={"bos": False})})
    with Store(file) as store:
        store.save_study(study, [run])
        store.record_unit(unit(run, unit_name, value=0.5))
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("UPDATE wina_schema_version SET version_num = '0015'")
        connection.commit()


@pytest.mark.parametrize(
    ("bos", "dtype", "measured", "reason"),
    [
        (True, "float32", FIDELITY, "lacked the BOS token"),
        (True, "float32", ORIGINAL, "lacked the BOS token"),
        (True, "float32", "task", ""),
        (False, "float32", FIDELITY, ""),
        (False, "float32", ORIGINAL, ""),
        (False, "bfloat16", FIDELITY, ""),
        (False, "bfloat16", ORIGINAL, "the original was computed in 16 bits"),
    ],
)
def test_what_was_measured_wrongly_is_superseded(
    tmp_path: Path, bos: bool, dtype: str, measured: str, reason: str
) -> None:
    folder, file = tiny_folder(tmp_path / "model"), tmp_path / "results.sqlite"
    tiny_tokenizer(bos=bos).save_pretrained(folder)
    source = ModelSource(location=str(folder), dtype=dtype)
    evaluation = EvaluationSpec(
        tasks=("task",) if measured == "task" else (),
        fidelity=TEXT if measured == FIDELITY else None,
        original=TEXT if measured == ORIGINAL else None,
    )
    old_run(file, source, evaluation, measured)
    study = StudySpec(name="new", models=(source,), configurations=(Configuration(),), evaluation=evaluation)
    (run,) = expand(study)
    with Store(file) as store:
        (row,) = store.metric_rows(MetricFilter())
        assert row.value == 0.5
        assert (reason in row.warning) if reason else not row.warning
        assert row.model_hash == resolve(source).content_hash()  # listed with the new ones
        assert [each.units for each in store.pending([run])] == ([(measured,)] if reason else [])
