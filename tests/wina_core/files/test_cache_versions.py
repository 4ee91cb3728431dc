"""Results on a small model, pinned beside the versions in the names of caches.

A number that changes here means that caches hold others: raise the version, so that none of them is taken for a new
one, and then write the new number down.
"""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.wina_core.tiny import tiny_loaded, tiny_text
from wina_core.compute.allocation import allocate
from wina_core.compute.calibration import calibrate
from wina_core.compute.gating.tuning import correct_fractions, tuned_calibration
from wina_core.compute.models.text_tokens import read_tokens
from wina_core.compute.reporter import NullReporter
from wina_core.compute.rotation import rotate
from wina_core.model_info.products import (
    ALLOCATION_VERSION,
    BASES_VERSION,
    CALIBRATION_VERSION,
    CORRECTION_VERSION,
    DIVERGENCE_VERSION,
    TUNING_VERSION,
    searched,
)
from wina_core.specs import (
    AS_RELEASED_ROTATION,
    AllocatedSparsity,
    AllocatorSpec,
    CalibrationSpec,
    MethodSpec,
    RotationSpec,
    TextSpec,
)
from wina_core.specs.plans import UniformSparsity, resolve_plan
from wina_core.specs.presets import LAROSA_ROTATION

WINA = MethodSpec(name="wina", masks="shared")


@pytest.fixture
def text(tmp_path: Path) -> TextSpec:
    return TextSpec(source=tiny_text(tmp_path), tokens=64, sequence=32)


def digest(*tensors: Tensor) -> float:
    """Return a number that moves with every entry, and by rounding errors no more than they do."""
    flat = torch.cat([tensor.double().flatten() for tensor in tensors])
    return float(flat @ torch.arange(len(flat), dtype=torch.float64).cos())


def check(version: str, pinned: str, measured: float, expected: float) -> None:
    assert version == pinned
    assert measured == pytest.approx(expected, abs=1e-5), (
        f"other numbers than version {pinned} found: raise the version"
    )


@pytest.mark.parametrize(
    ("family", "rotation", "expected"),
    [
        ("llama", RotationSpec(), 10.676330),
        ("llama", AS_RELEASED_ROTATION, -8.366297),
        ("phi3", AS_RELEASED_ROTATION, -3.000416),
        ("llama", LAROSA_ROTATION, -5.187317),
        ("llama", RotationSpec(weighting="sensitivity", objective="error", steps=3), 6.780657),
        ("llama", RotationSpec(objective="kl", steps=2), 10.728105),
    ],
    ids=["global", "as released", "as released, fused", "larosa", "refined", "refined on KL"],
)
def test_other_bases_need_another_version(family, rotation, expected, text):
    check(BASES_VERSION, "1", _bases(family, rotation, text), expected)


@pytest.mark.parametrize(("family", "expected"), [("starcoder2", -10.876181), ("mixtral", 2.099023)])
def test_other_bases_by_divergence_need_another_version(family, expected, text):
    check(DIVERGENCE_VERSION, "2", _bases(family, RotationSpec(objective="kl", steps=2), text), expected)


def _bases(family: str, rotation: RotationSpec, text: TextSpec) -> float:
    bases: dict[str, Tensor] = {}
    spec = rotation.model_copy(update={"text": text})
    rotate(tiny_loaded(family, dtype=torch.float64), spec, NullReporter(), into=bases)
    return digest(*(bases[name] for name in sorted(bases)))


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        (MethodSpec(name="wina"), -17.252716),
        (MethodSpec(name="scap", variant="own", selection="statistical"), 30.904219),
        (MethodSpec(name="wina", selection="top_p", correction="mean"), -1.409502),
        (MethodSpec(name="scap"), 5.851404),
        (MethodSpec(name="teal", variant="as_released"), -11.648247),
    ],
    ids=["wina", "scap of our own", "mean correction", "scap", "signed"],
)
def test_other_calibrations_need_another_version(method, expected, text):
    loaded = tiny_loaded(dtype=torch.float64)
    record = calibrate(loaded, method, CalibrationSpec(text=text), NullReporter()).record("", 0.0)
    measured = digest(torch.tensor([layer.value for layer in record.layers]))
    check(CALIBRATION_VERSION, "4", measured, expected)


@pytest.mark.parametrize(("name", "expected"), [("wina", 0.814201), ("rsparse", 0.768656)])
def test_other_corrected_thresholds_need_another_version(name, expected, text):
    loaded = tiny_loaded(dtype=torch.float64)
    method = MethodSpec(name=name, selection="threshold")
    plan = resolve_plan(UniformSparsity(sparsity=0.5), loaded.view.layout, method)
    calibration = calibrate(loaded, method, CalibrationSpec(text=text), NullReporter())
    corrected = correct_fractions(
        loaded, method, plan, calibration, read_tokens(text, loaded.tokenizer), NullReporter()
    )
    check(CORRECTION_VERSION, "3", digest(torch.tensor(corrected.fractions)), expected)


def test_other_tuned_biases_need_another_version(text):
    loaded, method = tiny_loaded(dtype=torch.float64), MethodSpec(name="wina", masks="shared", correction="tuned")
    tokens = read_tokens(text, loaded.tokenizer)[:1].repeat(2, 1)
    plan = resolve_plan(UniformSparsity(sparsity=0.5), loaded.view.layout, method)
    tuned = tuned_calibration(loaded, method, plan, None, tokens, NullReporter())
    check(TUNING_VERSION, "3", digest(*tuned.tuned.values()), 1.330647)


@pytest.mark.parametrize(
    ("name", "method", "expected"),
    [
        ("greedy", WINA, 3.337332),
        ("curves", WINA, 1.286696),
        ("refine", WINA, 1.098145),
        ("evolution", MethodSpec(name="rsparse", variant="as_released"), 1.007804),
        ("evolution", MethodSpec(name="rsparse"), 1.430195),
        pytest.param("greedy wina_released", MethodSpec(name="teal"), 3.257475, marks=pytest.mark.nightly),
        pytest.param("greedy teal_released", MethodSpec(name="teal"), 3.221836, marks=pytest.mark.nightly),
    ],
)
def test_other_plans_need_another_version(name, method, expected, text):
    loaded = tiny_loaded(dtype=torch.float64, layers=1)
    name, _, variant = name.partition(" ")
    allocator = AllocatorSpec(name=name, variant=variant or "corrected", step=0.05, rounds=2, text=text)
    plan = AllocatedSparsity(sparsity=0.7, allocator=allocator)
    calibration = None
    if allocator.is_released:
        calibration = calibrate(loaded, searched(method, allocator), CalibrationSpec(text=text), NullReporter())
    record = allocate(loaded, method, plan, "key", NullReporter(), calibration)
    measured = digest(torch.tensor([*record.plan.sparsity, *(record.plan.rho or ())]), torch.tensor([record.value]))
    check(ALLOCATION_VERSION.split(",")[0], "4", measured, expected)
