"""What is found on a small model, pinned beside the versions that caches are named by.

A number that changes here means that caches hold others: raise the version, so that none of them is taken for a new
one, and then write the new number down.
"""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.wina_core.tiny import tiny_loaded, tiny_text
from wina_core.allocation import VERSION as ALLOCATION_VERSION
from wina_core.allocation import allocate
from wina_core.calibration import calibrate
from wina_core.engine.session import BASES_VERSION, CALIBRATION_VERSION
from wina_core.reporting import Silent
from wina_core.rotation import rotate
from wina_core.specs import (
    AS_RELEASED_ROTATION,
    AllocatedSparsity,
    AllocatorSpec,
    CalibrationSpec,
    MethodSpec,
    RotationSpec,
    TextSpec,
)

WINA = MethodSpec(name="wina", masks="shared")


@pytest.fixture
def text(tmp_path: Path) -> TextSpec:
    return TextSpec(source=tiny_text(tmp_path), tokens=64, sequence=32)


def digest(*tensors: Tensor) -> float:
    """One number that moves with every entry, and by rounding errors no more than they do."""
    flat = torch.cat([tensor.double().flatten() for tensor in tensors])
    return float(flat @ torch.arange(len(flat), dtype=torch.float64).cos())


@pytest.mark.parametrize(
    ("rotation", "expected"),
    [
        (RotationSpec(), 10.676330),
        (AS_RELEASED_ROTATION, -8.366297),
        (RotationSpec(weighting="sensitivity", objective="error", steps=3), 6.780657),
        (RotationSpec(objective="kl", steps=2), 10.728105),
    ],
    ids=["global", "as released", "refined", "refined on KL"],
)
def test_other_bases_need_another_version(rotation, expected, text):
    bases: dict[str, Tensor] = {}
    spec = rotation.model_copy(update={"text": text})
    rotate(tiny_loaded(dtype=torch.float64), spec, Silent(), into=bases)
    found = digest(*(bases[name] for name in sorted(bases)))
    assert BASES_VERSION == "1"
    assert found == pytest.approx(expected, abs=1e-5), "other bases than version 1 found: raise the version"


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        (MethodSpec(name="wina"), -17.252716),
        (MethodSpec(name="scap", selection="statistical"), 30.904219),
        (MethodSpec(name="wina", selection="top_p", correction="mean"), -1.409502),
    ],
    ids=["wina", "scap", "mean correction"],
)
def test_other_calibrations_need_another_version(method, expected, text):
    loaded = tiny_loaded(dtype=torch.float64)
    record = calibrate(loaded, method, CalibrationSpec(text=text), Silent()).record("", 0.0)
    found = digest(torch.tensor([layer.value for layer in record.layers]))
    assert CALIBRATION_VERSION == "2"
    assert found == pytest.approx(expected, abs=1e-5), "other numbers than version 2 measured: raise the version"


@pytest.mark.parametrize(
    ("name", "method", "expected"),
    [
        ("greedy", WINA, 3.337332),
        ("curves", WINA, 1.286696),
        ("refine", WINA, 1.098145),
        ("evolution", MethodSpec(name="rsparse", variant="as_released"), 1.355290),
    ],
)
def test_other_plans_need_another_version(name, method, expected, text):
    loaded = tiny_loaded(dtype=torch.float64, layers=1)
    allocator = AllocatorSpec(name=name, step=0.05, rounds=2, text=text)
    plan = AllocatedSparsity(sparsity=0.7, allocator=allocator)
    record = allocate(loaded, method, plan, "key", Silent())
    found = digest(torch.tensor([*record.plan.sparsity, *(record.plan.rho or ())]), torch.tensor([record.value]))
    assert ALLOCATION_VERSION.split(",")[0] == "1"
    assert found == pytest.approx(expected, abs=1e-5), "other plans than version 1 found: raise the version"
