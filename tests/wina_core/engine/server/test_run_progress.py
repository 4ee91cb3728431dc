"""Progress of an evaluation: one scale for all that is measured and prepared."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wina_core.compute.reporters import RecordingReporter
from wina_core.compute.reporter import NullReporter
from wina_core.engine.server.run_progress import RunProgress, RunReporter
from wina_core.jobs import EvaluateJob, PendingRun
from wina_core.jobs.phases import CALIBRATION, CORRECTION, TUNING, JobEta, phase_name, phases
from wina_core.jobs.planning.run_work import RunWork
from wina_core.jobs.run_sharing import Part, SharedJob, Shares, by_model, group_of
from wina_core.specs import (
    COST,
    FIDELITY,
    NO_ROTATION,
    ORIGINAL,
    CalibrationSpec,
    EvaluationSpec,
    MethodSpec,
    ModelSource,
    RotationSpec,
    RunSpec,
    TextSpec,
)
from wina_core.specs.plans import UniformSparsity

TEXT = TextSpec(tokens=4096)
UNITS = (COST, FIDELITY, ORIGINAL)


def run(sparsity: float, rotation: RotationSpec = RotationSpec()) -> PendingRun:  # noqa: B008
    spec = RunSpec(
        model=ModelSource(location="demo"),
        rotation=rotation,
        method=MethodSpec(name="wina"),
        plan=UniformSparsity(sparsity=sparsity),
        evaluation=EvaluationSpec(tasks=(), fidelity=TEXT, original=TEXT),
    )
    return PendingRun(spec=spec, units=UNITS)


PREPARING = ("log-probabilities of the original: layer 1 of 4", "orthogonality of the columns", "measuring", "rotating")


def shown(runs: list[PendingRun], together: bool, fails: bool, preparing: Sequence[str] = PREPARING) -> list[float]:
    """The measurements that are reported while runs are computed one after the other."""
    recorder, progress = RecordingReporter(), RunProgress(runs, {group_of(runs[0]): {"rotation"}})
    for index, each in enumerate(runs):
        reporter = RunReporter(recorder, each, progress)
        reporter.begin(COST)  # which needs no model
        reporter.end()
        if index == 0:
            for text in preparing:
                for done in (0, 2, 4):
                    reporter.progress(done, 4, "layers", text)
            if together:
                reporter.begin(FIDELITY, runs)
                reporter.progress(0.9, 1, "tokens")
                reporter.carried()
        for unit in UNITS[1:]:
            if fails and unit == ORIGINAL:
                continue
            reporter.begin(unit)
            reporter.progress(0.5, 1, "tokens")
            reporter.end()
        reporter.close()
    assert {call[1:3] for call in recorder.calls} == {(len(runs) * len(UNITS), "measurements")}
    return [call[0] for call in recorder.calls]


@given(count=st.integers(1, 4), together=st.booleans(), fails=st.booleans())
def test_the_scale_never_goes_back_and_ends_at_the_number_of_measurements(
    count: int, together: bool, fails: bool
) -> None:
    runs = [run(0.1 * index) for index in range(1, count + 1)]
    done = shown(runs, together, fails)
    assert all(before <= after + 1e-9 for before, after in pairwise(done))
    if not fails:
        assert abs(done[-1] - count * len(UNITS)) < 1e-9


@pytest.mark.parametrize("slower", [0.5, 1.0, 2.0])
def test_the_remaining_time_has_the_rotations_to_come(slower: float) -> None:
    """Rotations of three texts, at another pace than the measurements, after the model as it is."""
    rotations = [RotationSpec(text=TextSpec(tokens=tokens)) for tokens in (8192, 16_384, 32_768)]
    runs = tuple(run(0.1 * index, each) for each in (NO_ROTATION, *rotations) for index in range(1, 5))
    missing = {group: () if group[1].is_identity else ("rotation",) for group in by_model(runs)}
    work = RunWork(runs, missing)
    job = SharedJob("study", EvaluateJob(runs=runs), "normal", Shares(runs))
    job.take_weights(work.of)
    now, estimates = 0.0, list[tuple[float, float]]()

    class Recorder(NullReporter):
        def progress(self, *report: Any) -> None:
            part.progress, part.eta = report[0], eta.update(now, *report)
            event = job.progress(now, report[-1])
            if event is not None and event.eta_seconds is not None:
                estimates.append((now, event.eta_seconds))

    while job.shares:
        part = Part("part", job, job.shares.take(None, 1))
        job.parts.append(part)
        job.reweigh()
        progress, eta = RunProgress(part.runs, missing), JobEta(phases(job.job))
        for each in part.runs:
            reporter, name = RunReporter(Recorder(), each, progress), each.spec.content_hash()
            part.begin(name)
            for phase in work.preparing[group_of(each)] if each is part.runs[0] else ():
                text = next(text for text in ("reading weights", *PREPARING) if phase_name("", text) == phase.name)
                for step in range(11):
                    reporter.progress(step, 10, "layers", text)
                    now += slower * phase.work / 11_000
            for unit in UNITS:
                reporter.begin(unit)
                now += work.measuring[name, unit] / 1000
                reporter.end()
            reporter.close()
            part.end(name)
        job.parts.remove(part)
        job.count(part, now)
    at, left = min(estimates, key=lambda each: abs(each[0] - now / 2))
    assert left == pytest.approx(now - at, rel=0.25 * max(slower, 1 / slower))
    assert all(left > (now - at) / 2.5 for at, left in estimates if at < 0.8 * now), "no promise of seconds"


@pytest.mark.parametrize(
    ("method", "every"),
    [
        (MethodSpec(name="teal", selection="threshold"), [CORRECTION]),
        (MethodSpec(name="wina", selection="mixed", correction="tuned"), [CORRECTION, TUNING]),
    ],
)
def test_every_plan_has_its_thresholds_corrected_and_a_method_is_calibrated_once(
    method: MethodSpec, every: list[str]
) -> None:
    changes = {"method": method, "calibration": CalibrationSpec()}
    runs = [run(0.1 * index) for index in range(1, 4)]
    runs = [each.model_copy(update={"spec": each.spec.model_copy(update=changes)}) for each in runs]
    own = RunWork(runs, {group_of(runs[0]): {"calibration"}}).own
    first, *later = ([phase.name for phase in own[each.spec.content_hash()]] for each in runs)
    assert first == [CALIBRATION, *every]
    assert later == [every] * 2


def test_preparing_counts_as_much_as_it_takes() -> None:
    done = shown([run(0.5)], together=False, fails=False)
    before_measuring = done[1 + 3 * len(PREPARING)]
    assert 0.3 * len(UNITS) < before_measuring < 0.95 * len(UNITS), "moments of 16,384 tokens, two passes of 4,096"


def test_preparations_that_are_on_disk_already_do_not_count() -> None:
    done = shown([run(0.5)], together=False, fails=False, preparing=[])
    begun, half = done[2:4]
    assert begun < 0.05 * len(UNITS), "nothing jumps"
    assert 0.3 * len(UNITS) < half < 0.5 * len(UNITS), "half of two passes of 4,096 tokens out of three"
