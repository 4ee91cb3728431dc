"""The remaining time is that of the whole job, and a change of it is explained."""

from itertools import pairwise

import pytest

from tests.wina_core.engine.engine_events import DEMO
from wina_core.jobs import CalibrateJob, DecodeJob, RotateJob
from wina_core.jobs.phases import JobEta, Phase, phases
from wina_core.jobs.progress import Steady
from wina_core.specs import (
    FREE_KL_ROTATION,
    CalibrationSpec,
    MethodSpec,
    Quantization,
    QuantizationSpec,
    RotationSpec,
)
from wina_core.specs.latency import DecodeSpec

PLAN = (Phase("reading the weights", 10.0), Phase("the sensitivities", 20.0), Phase("rotating", 70.0))
TEXTS = (("bytes", "reading weights"), ("tokens", "sensitivities"), ("layers", "rotating"))


def _played(eta: JobEta, seconds: tuple[float, ...]) -> list[tuple[float, float | None, str]]:
    """Return (time left, estimate, reason) at every twentieth of each phase that takes these seconds."""
    found, now, whole = [], 0.0, sum(seconds)
    for (unit, text), duration in zip(TEXTS, seconds, strict=True):
        for step in range(21):
            estimate = eta.update(now + duration * step / 20, step, 20, unit, text)
            found.append((whole - now - duration * step / 20, estimate, eta.changed))
        now += duration
    return found


def test_phases_in_proportion_to_their_work_are_estimated_exactly_from_the_first_on() -> None:
    found = _played(JobEta(PLAN), (100.0, 200.0, 700.0))
    assert found[0][1] is None
    for left, estimate, reason in found[1:]:
        assert estimate == pytest.approx(left, abs=1e-6)
        assert not reason


def test_a_phase_at_another_pace_changes_the_estimate_once_and_says_so() -> None:
    found = _played(JobEta(PLAN), (100.0, 1000.0, 700.0))
    reasons = [reason for _, _, reason in found if reason]
    assert reasons[0] == "slower than expected: the sensitivities"
    assert len(reasons) <= 2
    last = [estimate for _, estimate, _ in found[-15:]]
    assert last == pytest.approx([left for left, _, _ in found[-15:]], abs=1.0)


def test_an_estimate_that_grows_in_small_steps_gives_a_reason() -> None:
    steady = Steady()
    seconds = [39.0 * 1.1**step for step in range(30)]
    reasons = [steady.change(2.0 * now, each, "the refinement") for now, each in enumerate(seconds)]
    given = [0, *(step for step, reason in enumerate(reasons) if reason), len(seconds) - 1]
    assert set(filter(None, reasons)) == {"slower than expected: the refinement"}
    assert all(seconds[after] < 2.2 * seconds[before] for before, after in pairwise(given))


def test_a_steady_estimate_gives_no_reason() -> None:
    steady = Steady()
    assert not any(steady.change(now, 600.0 - now + now % 7, "rotating") for now in range(500))


def test_a_phase_of_known_time_is_estimated_at_once_and_counts_for_no_other() -> None:
    eta = JobEta((PLAN[0], Phase("rotating", 70.0, seconds=90.0)))
    assert eta.update(0.0, 0, 20, *TEXTS[0]) is None
    assert eta.update(1.0, 5, 20, *TEXTS[0]) == pytest.approx(3.0 + 90.0)
    assert eta.update(4.0, 0, 20, *TEXTS[2]) == pytest.approx(90.0)
    assert JobEta((Phase("rotating", 70.0, seconds=90.0),)).update(0.0, 0, 20, *TEXTS[2]) == pytest.approx(90.0)


def test_a_decoding_sweep_takes_the_budgets_of_the_points_that_are_not_stored() -> None:
    spec = DecodeSpec(model=DEMO, sparsities=(0.0, 0.5), budget_seconds=45.0)
    (point, _) = spec.points()
    assert [phase.seconds for phase in phases(DecodeJob(spec=spec))] == [None, 90.0]
    job = DecodeJob(spec=spec, stored={"here": (point.content_hash(),)})
    assert [phase.seconds for phase in phases(job)] == [None, 45.0]
    unlimited = DecodeJob(spec=DecodeSpec(model=DEMO))
    assert [phase.seconds for phase in phases(unlimited)] == [None, None]


def test_a_skipped_phase_counts_no_more() -> None:
    eta = JobEta(PLAN)
    for step in range(21):
        eta.update(5.0 * step, step, 20, *TEXTS[0])
    assert eta.update(100.0, 0, 4, *TEXTS[2]) == pytest.approx(700.0)


def test_the_plan_of_a_rotation_has_a_phase_for_each_of_its_stages() -> None:
    names = [phase.name for phase in phases(RotateJob(model=DEMO, rotation=FREE_KL_ROTATION))]
    assert names == [
        "reading the weights", "the orthogonality", "the moments", "the sensitivities", "the refinement",
        "the refinement on KL", "the sampling of text", "the comparison of rotations", "rotating",
    ]  # fmt: skip
    job = CalibrateJob(
        model=DEMO, rotation=RotationSpec(), method=MethodSpec(name="teal"), calibration=CalibrationSpec()
    )
    assert len(phases(job, missing=("rotation",))) > len(phases(job, missing=()))


@pytest.mark.parametrize("quantization", ["int8", QuantizationSpec(quantizer="gptq", bits=4)])
def test_time_is_left_for_quantizing_at_the_end_of_rotating(quantization: Quantization) -> None:
    model = DEMO.model_copy(update={"quantization": quantization})
    eta = JobEta(phases(RotateJob(model=model, rotation=RotationSpec()), hidden=64))
    for step in range(21):
        eta.update(5.0 * step, step, 20, "layers", "rotating")
    left = eta.update(100.0, 20, 20, "layers", "rotating")
    assert left is not None
    assert left > 50.0


def test_configurations_one_after_the_other_take_a_calibration_each() -> None:
    plan = (Phase("the calibration", 50.0), Phase("the correction of thresholds", 50.0)) * 2
    eta, now = JobEta(plan), 0.0
    for unit, text in (("layers", "modes"), ("passes", "correcting thresholds")) * 2:
        for step in range(21):
            left = eta.update(now + step, step, 20, unit, text)
            if now + step > 1.0:
                assert left == pytest.approx(80.0 - now - step, abs=1e-6)
        now += 20.0
