"""How many engines a machine feeds, from its environment and what the driver's tool says."""

import subprocess
from collections.abc import Iterator

import pytest

from wina_core.engine.client.resources import engine_count, engine_environments
from wina_core.files import hardware
from wina_core.files.hardware import chosen_devices, listed_devices

TWO = """\
GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-b2a1f2d4-0001)
GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-b2a1f2d4-0002)
"""
SPLIT = """\
GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-0001)
  MIG 3g.20gb     Device  0: (UUID: MIG-0011)
  MIG 3g.20gb     Device  1: (UUID: MIG-0012)
GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-0002)
"""


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Forget what the driver answered to other tests."""
    hardware._driver_devices.cache_clear()
    yield
    hardware._driver_devices.cache_clear()


@pytest.mark.parametrize(
    ("listing", "found"),
    [
        (TWO, ("GPU-b2a1f2d4-0001", "GPU-b2a1f2d4-0002")),
        (SPLIT, ("MIG-0011", "MIG-0012", "GPU-0002")),
        ("No devices found.\n", ()),
    ],
)
def test_the_drivers_listing_is_read(listing: str, found: tuple[str, ...]) -> None:
    assert listed_devices(listing) == found


@pytest.mark.parametrize(
    ("value", "found"),
    [("0,1", ("0", "1")), (" 2 , GPU-a", ("2", "GPU-a")), ("", ()), ("-1", ()), ("0,-1,1", ("0",))],
)
def test_the_environment_chooses_among_the_devices(value: str, found: tuple[str, ...]) -> None:
    assert chosen_devices(value) == found


@pytest.mark.parametrize(
    "error",
    [
        FileNotFoundError("nvidia-smi"),
        subprocess.CalledProcessError(9, "nvidia-smi"),
        subprocess.TimeoutExpired("nvidia-smi", 5.0),
    ],
)
def test_without_a_driver_that_answers_there_is_one_engine(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def run(*_: object, **__: object) -> None:
        raise error

    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(hardware.subprocess, "run", run)
    assert engine_count() == 1


def test_each_engine_gets_a_device_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    assert engine_environments(1) == ({},)
    assert [each["CUDA_VISIBLE_DEVICES"] for each in engine_environments(3)] == ["0", "1", "0"]


def test_engines_on_the_processor_share_its_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("OMP_NUM_THREADS", "9")
    assert engine_environments(2) == ({"OMP_NUM_THREADS": "4"},) * 2
    assert engine_environments(16)[0] == {"OMP_NUM_THREADS": "1"}
