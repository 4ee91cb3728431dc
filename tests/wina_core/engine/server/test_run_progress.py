"""Progress of an evaluation: one scale for all that is measured and prepared."""

from collections.abc import Sequence
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tests.wina_core.compute.reporters import RecordingReporter
from wina_core.engine.protocol import PendingRun
from wina_core.engine.server.run_progress import RunProgress, RunReporter
from wina_core.specs import (
    COST,
    FIDELITY,
    ORIGINAL,
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


def run(sparsity: float) -> PendingRun:
    spec = RunSpec(
        model=ModelSource(location="demo"),
        rotation=RotationSpec(),
        method=MethodSpec(name="wina"),
        plan=UniformSparsity(sparsity=sparsity),
        evaluation=EvaluationSpec(tasks=(), fidelity=TEXT, original=TEXT),
    )
    return PendingRun(spec=spec, units=UNITS)


PREPARING = ("log-probabilities of the original: layer 1 of 4", "orthogonality of the columns", "measuring", "rotating")


def shown(runs: list[PendingRun], together: bool, fails: bool, preparing: Sequence[str] = PREPARING) -> list[float]:
    """The measurements that are reported while runs are computed one after the other."""
    recorder, progress = RecordingReporter(), RunProgress(runs, {"rotation"})
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


def test_preparing_counts_as_much_as_it_takes() -> None:
    done = shown([run(0.5)], together=False, fails=False)
    before_measuring = done[1 + 3 * len(PREPARING)]
    assert 0.3 * len(UNITS) < before_measuring < 0.95 * len(UNITS), "moments of 16,384 tokens, two passes of 4,096"


def test_preparations_that_are_on_disk_already_do_not_count() -> None:
    done = shown([run(0.5)], together=False, fails=False, preparing=[])
    begun, half = done[2:4]
    assert begun < 0.05 * len(UNITS), "nothing jumps"
    assert 0.3 * len(UNITS) < half < 0.5 * len(UNITS), "half of two passes of 4,096 tokens out of three"
