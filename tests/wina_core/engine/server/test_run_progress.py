"""Progress of an evaluation counts its measurements, that under way in part."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tests.wina_core.compute.reporters import RecordingReporter
from wina_core.engine.server.evaluate import RunProgress, RunReporter
from wina_core.jobs import PendingRun
from wina_core.specs import COST, FIDELITY, ORIGINAL, EvaluationSpec, MethodSpec, ModelSource, RunSpec, TextSpec
from wina_core.specs.plans import UniformSparsity

TEXT = TextSpec(tokens=4096)
UNITS = (COST, FIDELITY, ORIGINAL)


def run(sparsity: float) -> PendingRun:
    spec = RunSpec(
        model=ModelSource(location="demo"),
        method=MethodSpec(name="wina"),
        plan=UniformSparsity(sparsity=sparsity),
        evaluation=EvaluationSpec(tasks=(), fidelity=TEXT, original=TEXT),
    )
    return PendingRun(spec=spec, units=UNITS)


@given(count=st.integers(1, 4), together=st.booleans(), fails=st.booleans())
def test_the_count_never_goes_back_and_ends_at_the_number_of_measurements(
    count: int, together: bool, fails: bool
) -> None:
    runs = [run(0.1 * index) for index in range(1, count + 1)]
    recorder, progress = RecordingReporter(), RunProgress(runs)
    for index, each in enumerate(runs):
        reporter = RunReporter(recorder, each, progress)
        reporter.begin(COST)  # which needs no model
        reporter.end()
        if index == 0:
            reporter.stage("rotation")
            for done in (0, 2, 4):
                reporter.progress(done, 4, "layers")
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
    done = [call[0] for call in recorder.calls]
    assert all(before <= after for before, after in pairwise(done))
    if not fails:
        assert done[-1] == count * len(UNITS)
