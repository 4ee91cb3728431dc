"""Models that memory does not hold: every number equals the one of a model in memory, to the last digit."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.wina_core.compute.evaluation.task_files import write_tasks
from tests.wina_core.compute.reporters import RecordingReporter
from tests.wina_core.engine.in_process import run_errors, units_of
from tests.wina_core.tiny import EXACT_MODES, FEW_KINDS, WITH_EXPERTS, tiny_folder, tiny_text
from wina_core.compute.models.passage import Passage
from wina_core.compute.models.view import LayerView
from wina_core.compute.reporter import Reporter
from wina_core.errors import Cancelled
from wina_core.files.hardware import MEMORY_VARIABLE
from wina_core.files.paths import cache_folder
from wina_core.jobs import EvaluateJob, PendingRun
from wina_core.records import UnitRecord
from wina_core.specs import (
    DENSE,
    FIDELITY,
    NO_ROTATION,
    ORIGINAL,
    CalibrationSpec,
    EvaluationSpec,
    MethodSpec,
    ModelSource,
    Quantization,
    QuantizationSpec,
    RotationSpec,
    RunSpec,
    TextSpec,
)
from wina_core.specs.plans import UniformSparsity

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is given back on Linux alone")


@pytest.fixture
def text(tmp_path: Path) -> TextSpec:
    return TextSpec(source=tiny_text(tmp_path), tokens=128, sequence=32)


def job_of(folder: Path, text: TextSpec, mode: str, quantization: Quantization = "none") -> EvaluateJob:
    """Dense, top k at two sparsities and by threshold, rotated if the family allows it."""
    rotation = RotationSpec(mode=mode, text=text) if mode != "none" else NO_ROTATION
    evaluation = EvaluationSpec(tasks=(), fidelity=text, original=text, batch_size=2)
    methods = [
        (DENSE, 0.0),
        (MethodSpec(name="wina"), 0.4),
        (MethodSpec(name="wina"), 0.6),
        (MethodSpec(name="teal", selection="threshold"), 0.5),
    ]
    specs = [
        RunSpec(
            model=ModelSource(location=str(folder), dtype="float32", quantization=quantization),
            rotation=rotation,
            method=method,
            plan=UniformSparsity(sparsity=sparsity),
            calibration=CalibrationSpec(text=text) if method.selection == "threshold" else None,
            evaluation=evaluation,
        )
        for method, sparsity in methods
    ]
    return EvaluateJob(runs=tuple(PendingRun(spec=spec, units=(FIDELITY, ORIGINAL)) for spec in specs))


def measured(job: EvaluateJob, reporter: Reporter | None = None) -> dict[tuple[str, str], UnitRecord]:
    units = units_of(job, reporter)
    return {(unit.run, unit.unit): unit.model_copy(update={"seconds": 0.0}) for unit in units}


@pytest.mark.parametrize("family", FEW_KINDS if "WINA_LONG_TESTS" in os.environ else ("llama", "qwen3_moe", "gpt_oss"))
def test_numbers_are_those_of_a_model_in_memory(family, text, tmp_path, monkeypatch):
    mode = "global" if "global" in EXACT_MODES[family] else "none"
    dense, *_, gated, by_threshold = job_of(tiny_folder(tmp_path / "model", family, layers=2), text, mode).runs
    job = EvaluateJob(runs=(dense, gated, by_threshold))
    monkeypatch.setenv("WINA_HOME", str(tmp_path / "first"))
    expected = measured(job)
    assert any(unit.experts for unit in expected.values()) == (family in WITH_EXPERTS)
    monkeypatch.setenv("WINA_HOME", str(tmp_path / "second"))
    monkeypatch.setenv(MEMORY_VARIABLE, "1M")
    reporter = RecordingReporter()
    assert measured(job, reporter) == expected
    assert any("are read layer by layer" in line for line in reporter.lines)


@pytest.mark.parametrize("named", [pytest.param("int8", marks=pytest.mark.nightly), "gptq"])
def test_quantized_models_are_made_from_files(named, text, tmp_path, monkeypatch):
    spec = named if named == "int8" else QuantizationSpec(quantizer="gptq", bits=4, group=16, text=text)
    job = job_of(tiny_folder(tmp_path / "model", layers=2), text, "global", spec)
    monkeypatch.setenv("WINA_HOME", str(tmp_path / "first"))
    expected = measured(job)
    monkeypatch.setenv("WINA_HOME", str(tmp_path / "second"))
    monkeypatch.setenv(MEMORY_VARIABLE, "1M")
    assert measured(job) == expected


@pytest.fixture
def lanes(monkeypatch) -> list[int]:
    """Receives the number of configurations of every pass through the layers."""
    lanes: list[int] = []
    layers = Passage.layers

    def counted(self: Passage, *given: Any, **named: Any) -> Iterator[LayerView]:
        lanes.append(len(self._lanes))
        return layers(self, *given, **named)

    monkeypatch.setattr(Passage, "layers", counted)
    return lanes


def test_layers_are_read_once_for_all_runs_of_a_model(text, tmp_path, monkeypatch, lanes):
    monkeypatch.setenv(MEMORY_VARIABLE, "1M")
    job = job_of(tiny_folder(tmp_path / "model"), text, "none")
    job = EvaluateJob(runs=tuple(run.model_copy(update={"units": (FIDELITY,)}) for run in job.runs[:3]))
    measured(job)
    assert lanes == [3], "the dense model and two gated ones, in one pass"


def test_layers_are_read_once_for_a_task_of_all_runs(text, tmp_path, monkeypatch, lanes):
    units, folder = ("tiny_choice", "tiny_rolling"), str(write_tasks(tmp_path))
    evaluation = EvaluationSpec(tasks=units, task_folders=(folder,), fidelity=text, original=None, batch_size=2)
    runs = job_of(tiny_folder(tmp_path / "model", layers=2), text, "none").runs[:3]
    specs = [run.spec.model_copy(update={"evaluation": evaluation}) for run in runs]
    job = EvaluateJob(runs=tuple(PendingRun(spec=spec, units=(*units, FIDELITY)) for spec in specs))
    monkeypatch.setenv("WINA_HOME", str(tmp_path / "first"))
    expected = measured(job)
    monkeypatch.setenv("WINA_HOME", str(tmp_path / "second"))
    monkeypatch.setenv(MEMORY_VARIABLE, "1M")
    lanes.clear()
    assert measured(job) == expected
    assert lanes[-3:] == [3, 3, 3], "the text and both tasks, of the dense model and two gated ones"
    assert not [*(cache_folder() / "passes").glob("*")]


@pytest.mark.usefixtures("home")
def test_an_interrupted_rotation_leaves_no_rotated_folder_and_a_finished_one_is_used_again(text, tmp_path, monkeypatch):
    monkeypatch.setenv(MEMORY_VARIABLE, "1M")
    job = job_of(tiny_folder(tmp_path / "model"), text, "global")
    rotated = cache_folder() / "rotated"
    for after in (3, 10, 14):  # what was kept before shortens each attempt
        with pytest.raises(Cancelled):
            measured(job, RecordingReporter(after=after))
        assert [*rotated.glob("[!.]*/")] == []
    expected = measured(job)
    (folder,) = rotated.glob("*/")
    assert not folder.name.startswith("."), "the layers from which it was written are gone"
    before = {file.name: file.stat().st_mtime_ns for file in folder.iterdir()}
    assert measured(job) == expected
    assert {file.name: file.stat().st_mtime_ns for file in folder.iterdir()} == before


def test_a_disk_without_room_for_the_rotated_weights_is_named_before_they_are_made(text, tmp_path, monkeypatch):
    monkeypatch.setenv(MEMORY_VARIABLE, "1M")
    job = job_of(tiny_folder(tmp_path / "model"), text, "global")
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 1000})())
    (error,) = set(run_errors(job))
    assert "0.0 GB left; free some space, or" in error


def test_memory_below_one_layer_is_refused(text, tmp_path, monkeypatch):
    monkeypatch.setenv(MEMORY_VARIABLE, "1K")
    job = job_of(tiny_folder(tmp_path / "model"), text, "none")
    (error,) = set(run_errors(job))
    assert "A layer's weights take" in error


class Truncating(RecordingReporter):
    """A reporter that shortens a file by a byte when a pass has passed its second layer."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.file = file

    def progress(self, done: float, total: float | None, unit: str, metric: str = "") -> None:
        super().progress(done, total, unit, metric)
        if metric.endswith("layer 2 of 3"):
            os.truncate(self.file, self.file.stat().st_size - 1)


def test_weights_that_are_truncated_in_the_middle_of_a_pass_end_it_with_one_sentence(text, tmp_path, monkeypatch):
    monkeypatch.setenv(MEMORY_VARIABLE, "1M")
    folder = tiny_folder(tmp_path / "model")
    job = job_of(folder, text, "none")
    errors = run_errors(job, Truncating(folder / "model.safetensors"))
    assert len(errors) == len(job.runs)
    assert "model.safetensors was changed while it was read; copy the model again" in errors[0]
    assert all("damaged" in error or "changed" in error for error in errors)
