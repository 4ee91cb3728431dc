"""Jobs that are interrupted again and again: each attempt continues where the last one ended, to the last digit."""

import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.wina_core.compute.reporters import RecordingReporter
from tests.wina_core.engine.server.test_larger_than_memory import job_of, measured
from tests.wina_core.tiny import EXACT_MODES, tiny_folder, tiny_loaded, tiny_text, tiny_tokens
from wina_core.compute import stages as stages_module
from wina_core.compute.evaluation.shared_passes import SharedPasses
from wina_core.compute.gating import attach
from wina_core.compute.models import passage
from wina_core.compute.session.model_session import Session
from wina_core.compute.stages import Stages
from wina_core.engine.server.run_job import run_job
from wina_core.errors import Cancelled
from wina_core.files.hardware import MEMORY_VARIABLE
from wina_core.files.paths import cache_folder
from wina_core.jobs import EvaluateJob, Event, Partial
from wina_core.records import UnitRecord
from wina_core.specs import (
    MethodSpec,
    Quantization,
    TextSpec,
)
from wina_core.specs.plans import UniformSparsity

ATTEMPTS = 60

Found = dict[tuple[str, str], UnitRecord]


@pytest.fixture
def text(tmp_path: Path) -> TextSpec:
    return TextSpec(source=tiny_text(tmp_path), tokens=128, sequence=32)


@pytest.fixture(autouse=True)
def every_layer_is_kept(monkeypatch):
    monkeypatch.setattr(passage, "CHECKPOINT_SECONDS", -1.0)
    monkeypatch.setattr(passage, "_WRITING", float("inf"))  # however slow the disk is


def attempted(job: EvaluateJob, found: Found, after: int) -> list[str]:
    """Compute what is missing until `after` checks have passed, and return the log."""
    runs = []
    for run in job.runs:
        units = tuple(unit for unit in run.units if (run.spec.content_hash(), unit) not in found)
        if units:
            runs.append(run.model_copy(update={"units": units}))
    events: list[Event] = []
    reporter = RecordingReporter(after=after)
    with suppress(Cancelled):
        run_job(job.model_copy(update={"runs": tuple(runs)}), Session(), events.append, reporter)
    units_found = [event.unit for event in events if isinstance(event, Partial)]
    found |= {(unit.run, unit.unit): unit.model_copy(update={"seconds": 0.0}) for unit in units_found}
    return reporter.lines


@pytest.mark.parametrize(
    ("family", "quantization", "memory"),
    [
        ("llama", "none", "1M"),
        ("llama", "none", ""),
        pytest.param("qwen3_moe", "none", "1M", marks=pytest.mark.nightly),
        pytest.param("phi", "int8", "1M", marks=pytest.mark.nightly),
    ],
)
def test_a_job_that_is_always_interrupted_ends_with_the_same_numbers(
    family: str, quantization: Quantization, memory: str, text, tmp_path, monkeypatch
):
    if memory and sys.platform != "linux":
        pytest.skip("memory is given back on Linux alone")
    mode = "global" if "global" in EXACT_MODES[family] else "none"
    job = job_of(tiny_folder(tmp_path / "model", family), text, mode, quantization)
    monkeypatch.setenv("WINA_HOME", str(tmp_path / "first"))
    whole = RecordingReporter()
    expected = measured(job, whole)
    monkeypatch.setenv("WINA_HOME", str(tmp_path / "second"))
    if memory:
        monkeypatch.setenv(MEMORY_VARIABLE, memory)
    found: Found = {}
    lines: list[str] = []
    checks = whole.checks // (4 if memory and quantization == "none" else 2)
    attempts = 0
    while len(found) < len(expected):
        attempts += 1
        monkeypatch.setattr(stages_module, "this_process", lambda: 10**9)  # no process that runs
        assert attempts < ATTEMPTS, f"{len(found)} of {len(expected)} units after {attempts} attempts"
        lines += attempted(job, found, checks)
    assert found == expected
    assert attempts > 1
    if memory and family == "llama":  # elsewhere loading takes most of the checks of an attempt
        assert any("This continues after layer" in line for line in lines)
    assert [*(cache_folder() / "passes").glob("*")] == [], "nothing is left of the passes"


def test_other_lanes_on_the_same_text_keep_checkpoints_of_their_own(tmp_path):
    loaded, rows, stages = tiny_loaded(), tiny_tokens(4, 24), Stages(folder=tmp_path / "passes")

    def carried(name: str, sparsity: float, reporter: RecordingReporter) -> SharedPasses:
        passes = SharedPasses(stages)
        with attach(loaded, MethodSpec(name="wina"), UniformSparsity(sparsity=sparsity)) as gates, suppress(Cancelled):
            passes.name(gates, name)
            passes.carry_text(loaded.view, rows, 2, [None, gates], reporter)
        return passes

    carried("first", 0.4, RecordingReporter(after=6))
    other = carried("other", 0.6, RecordingReporter(after=6))
    other.finish()
    continued = RecordingReporter()
    carried("first", 0.4, continued).finish()
    assert any("continues after layer" in line for line in continued.lines)
    assert not (tmp_path / "passes").exists(), "nothing is left of the passes"
