"""Gated decoding through the Triton backend."""

import math
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from wina_kernels import dispatch

from tests.interpreter import DEVICE, runs
from tests.wina_core.compute.generation import PROMPT, generated
from tests.wina_core.tiny import tiny_loaded, tiny_text
from wina_core.compute.calibration import Calibration, calibrate
from wina_core.compute.gating import Gates, attach
from wina_core.compute.generation.fused import FusedModel, fuse
from wina_core.compute.latency import decoding
from wina_core.compute.latency.budget import Repetitions
from wina_core.compute.latency.graphs import GraphDecoder
from wina_core.compute.models.loading import LoadedModel
from wina_core.compute.reporter import NullReporter
from wina_core.errors import Cancelled
from wina_core.specs import CalibrationSpec, MethodSpec, ModelSource, Selection, TextSpec
from wina_core.specs.latency import DecodePoint
from wina_core.specs.plans import UniformSparsity

pytest.importorskip("triton", reason="Triton ships for Linux alone")
HALF = UniformSparsity(sparsity=0.5)
NEW = 3
FUSED = ("qwen3", *(("llama", "phi3", "qwen2", "mistral") if "WINA_LONG_TESTS" in os.environ else ()))
"""With normalized heads; WINA_LONG_TESTS=1 takes all, such as with biases and with fused matrices."""


@pytest.fixture(autouse=True)
def _way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "fastest", lambda *_: "triton")


@pytest.fixture(params=["mixed", pytest.param("topk", marks=pytest.mark.nightly)])
def gated(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[LoadedModel, Callable[[bool], Gates]]:
    """A tiny model, and what gates it, with kernels or without."""
    loaded = tiny_loaded("llama", layers=1)
    loaded.model.to(DEVICE)
    method = MethodSpec(name="wina", masks="shared", selection=request.param)
    calibration: Calibration | None = None
    if method.needs_calibration:
        text = TextSpec(source=tiny_text(tmp_path), tokens=512, sequence=64)
        calibration = calibrate(loaded, method, CalibrationSpec(text=text), NullReporter())
    return loaded, lambda kernels: attach(loaded, method, HALF, calibration, kernels=kernels)


def counted(gates: Gates) -> list[tuple[int, int]]:
    return [group.counted() for group in gates._mask_groups]


@runs
def test_the_tokens_and_counts_of_the_masked_model(gated: tuple[LoadedModel, Callable[[bool], Gates]]) -> None:
    loaded, attached = gated
    prompt = PROMPT.to(DEVICE)
    with attached(False) as gates:
        expected, numbers = generated(loaded, NEW), counted(gates)
    with attached(True) as gates:
        assert all(group.decode is not None for group in gates._mask_groups)
        decoder = GraphDecoder(loaded.model, PROMPT.shape[1] + NEW)
        for _ in range(2):
            gates.reset_counts()
            assert [int(token) for token in decoder.tokens(prompt, NEW)] == expected
            assert counted(gates) == numbers, "what a graph replays is counted too"


class NothingIsRead(TorchDispatchMode):
    """Within: an operation whose result the processor waits for is an error, as it is while a graph is captured."""

    READING = (torch.ops.aten._local_scalar_dense, torch.ops.aten.nonzero, torch.ops.aten.equal)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.overloadpacket in self.READING:
            raise AssertionError(f"{func} waits for the device")
        return func(*args, **(kwargs or {}))


@runs
def test_a_step_asks_the_device_for_nothing(gated: tuple[LoadedModel, Callable[[bool], Gates]]) -> None:
    loaded, attached = gated
    with attached(True):
        decoder = GraphDecoder(loaded.model, PROMPT.shape[1] + NEW)
        next(decoder.tokens(PROMPT.to(DEVICE), NEW))
        with torch.no_grad(), NothingIsRead():
            decoder._read(decoder._token)
    with NothingIsRead(), pytest.raises(AssertionError, match="waits for the device"):
        bool(decoder._token.any())


@runs
@pytest.mark.parametrize(
    ("family", "layers", "selection"),
    [("llama", 2, "mixed"), *((family, 1, "threshold") for family in FUSED)],
)
def test_a_fused_step_decodes_the_tokens_and_counts_of_the_masked_model(
    family: str, layers: int, selection: Selection, tmp_path: Path
) -> None:
    loaded = tiny_loaded(family, layers=layers)
    loaded.model.to(DEVICE)
    method = MethodSpec(name="wina", masks="shared", selection=selection, correction="tuned")
    text = TextSpec(source=tiny_text(tmp_path), tokens=512, sequence=64)
    calibration = with_biases(loaded, calibrate(loaded, method, CalibrationSpec(text=text), NullReporter()))
    dense = generated(loaded, NEW)
    assert fused_tokens(loaded, None) == dense
    with attach(loaded, method, HALF, calibration) as gates:
        expected, numbers = generated(loaded, NEW), counted(gates)
    with attach(loaded, method, HALF, calibration, kernels=True) as gates:
        assert fused_tokens(loaded, gates) == expected != dense
        assert counted(gates) == numbers


def with_biases(loaded: LoadedModel, calibration: Calibration) -> Calibration:
    """Return the calibration with a random tuned bias of every matrix, the same in every run."""
    generator = torch.Generator().manual_seed(0)
    biases = {
        (layer.index, column): torch.randn(layer.projections[name].shape[0], generator=generator) / 10
        for layer in loaded.view.layers
        for column, name in enumerate(loaded.view.projections)
    }
    return replace(calibration, tuned=biases)


def fused_tokens(loaded: LoadedModel, gates: Gates | None) -> list[int]:
    """Return the tokens of a fused step, which decodes twice the same and is counted once."""
    fused = fuse(loaded, gates)
    assert isinstance(fused, FusedModel), fused
    decoder = GraphDecoder(loaded.model, PROMPT.shape[1] + NEW, fused=fused)
    tokens = []
    for _ in range(2):
        if gates is not None:
            gates.reset_counts()
        tokens.append([int(token) for token in decoder.tokens(PROMPT.to(DEVICE), NEW)])
    assert tokens[0] == tokens[1]
    return tokens[0]


@runs
def test_a_fused_step_asks_the_device_for_nothing() -> None:
    loaded = tiny_loaded("llama", layers=2)
    fused = fuse(loaded, None)
    assert isinstance(fused, FusedModel)
    decoder = GraphDecoder(loaded.model, PROMPT.shape[1] + NEW, fused=fused)
    next(decoder.tokens(PROMPT.to(DEVICE), NEW))
    with torch.no_grad(), NothingIsRead():
        decoder.advance()


@runs
def test_a_cancelled_measurement_restores_the_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    def cancel() -> None:
        raise Cancelled

    monkeypatch.setattr(decoding, "can_be_captured", lambda _: True)
    loaded = tiny_loaded("llama", layers=1)
    loaded.model.to(DEVICE)
    fused = fuse(loaded, None)
    assert isinstance(fused, FusedModel)
    point = DecodePoint(model=ModelSource(location="tiny"), sparsity=0.5, new_tokens=NEW)
    turns = Repetitions(point, math.inf, None, cancel, lambda *_: None)
    with pytest.raises(Cancelled):
        decoding._speeds(loaded, PROMPT.to(DEVICE), point, turns, fused)
    assert len(fused.joined) == 5, "q, k, v, gate and up"
    assert all(linear.weight.untyped_storage().nbytes() == linear.weight.nbytes for linear in fused.joined)


@runs
def test_what_is_not_fused_says_why() -> None:
    own_masks = MethodSpec(name="wina")
    with attach(loaded := tiny_loaded("llama", layers=2), own_masks, HALF, kernels=True) as gates:
        assert fuse(loaded, gates) == "q, k, v of a layer have no common mask and kernel"
    assert fuse(tiny_loaded("gemma2"), None) == "models of type gemma2 are not compiled"
