"""Planes by energy: the budget is kept, inputs of more energy have no fewer planes, and no other choice saves more."""

import errno
import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from wina_kernels.planes import MOST_PLANES, PLANE_BITS

from tests.wina_core.tiny import tiny_loaded, tiny_tokens
from wina_core.compute.gating import attach
from wina_core.compute.models.logits import mean_divergence
from wina_core.compute.models.quantize import quantize
from wina_core.compute.models.quantized_linear import PlaneLinear
from wina_core.compute.quantization.apply import QuantizedSites
from wina_core.compute.quantization.sharing import PlaneSite, share_planes
from wina_core.compute.reporter import NullReporter
from wina_core.errors import WinaError
from wina_core.specs import BitsPlan, MethodSpec, QuantizationSpec, TextSpec
from wina_core.specs.plans import UniformSparsity

TEXT = TextSpec(tokens=256, sequence=32)


def site(energies: list[float], outputs: int) -> PlaneSite:
    gains = torch.tensor(energies, dtype=torch.float64)[:, None] * 4.0 ** -torch.arange(MOST_PLANES)
    return PlaneSite((torch.nn.Linear(len(energies), outputs, bias=False),), gains / outputs)


def saved(sites: list[PlaneSite], planes: list[torch.Tensor]) -> float:
    return sum(
        float((site.gains * (torch.arange(MOST_PLANES) < site_planes[:, None])).sum()) * site.outputs
        for site, site_planes in zip(sites, planes, strict=True)
    )


def held(sites: list[PlaneSite], planes: list[torch.Tensor]) -> float:
    bits = sum(
        float(site_planes.sum()) * PLANE_BITS * site.outputs for site, site_planes in zip(sites, planes, strict=True)
    )
    return bits / sum(site.outputs * len(site.gains) for site in sites)


@settings(deadline=None, max_examples=30)
@given(
    energies=st.lists(st.floats(0.01, 100), min_size=3, max_size=3, unique=True), bits=st.floats(2, 12)
)  # fmt: skip
def test_no_choice_within_what_is_held_saves_more(energies: list[float], bits: float) -> None:
    sites = [site(energies[:2], 4), site(energies[2:], 4)]
    planes = share_planes(sites, bits)
    assert held(sites, planes) <= bits + 1e-9
    assert held(sites, planes) > bits - PLANE_BITS / 3 - 1e-9 or held(sites, planes) == PLANE_BITS * MOST_PLANES
    for other in itertools.product(range(1, MOST_PLANES + 1), repeat=3):
        other_planes = [torch.tensor(other[:2]), torch.tensor(other[2:])]
        if held(sites, other_planes) <= held(sites, planes) + 1e-9:
            assert saved(sites, other_planes) <= saved(sites, planes) * (1 + 1e-9)


def model(**fields):
    loaded, cached = tiny_loaded("llama"), []
    spec = QuantizationSpec(quantizer="planes", text=TEXT, **fields)
    cache = type("Cache", (), {"read": lambda _: None, "write": lambda _, made, _seconds: cached.append(made)})()
    quantize(loaded, spec, NullReporter(), cache)
    return loaded, cached[0]


@torch.no_grad()
def test_by_energy_the_model_holds_its_bits_and_is_closer_than_with_equal_planes():
    tokens = tiny_tokens()
    dense = tiny_loaded("llama").model(tokens, use_cache=False).logits
    results = {}
    for by_energy in (True, False):
        loaded, _ = model(bits=6, by_energy=by_energy)
        results[by_energy] = mean_divergence(dense, loaded.model(tokens, use_cache=False).logits)
        with attach(loaded, MethodSpec(name="wina"), UniformSparsity(sparsity=0.0)) as gates:
            bits = gates.bits_held
        assert bits <= 6 if by_energy else 6 < bits < 7.5
    assert results[True] < results[False] * 1.5  # and it holds fewer bits


def test_a_plan_gives_each_matrix_its_own_bits():
    layout = tiny_loaded("llama").view.layout
    plan = BitsPlan.uniform(layout, 4).with_cells({(0, 0): 16, (1, 3): 8})
    loaded, _ = model(bits=plan)
    layers = [layer.projections for layer in loaded.view.layers]
    assert not isinstance(layers[0]["q"].linear, PlaneLinear)
    assert layers[1]["o"].linear.weight_t.counts.unique().tolist() == [4]
    assert layers[1]["q"].linear.weight_t.counts.unique().tolist() == [2]
    loaded, _ = model(bits=16, by_energy=True, head_bits=8)
    linears = {projection.linear for layer in loaded.view.layers for projection in layer.projections.values()}
    assert not any(isinstance(linear, PlaneLinear) for linear in linears), "16 bits stay unquantized"


def test_weights_that_cannot_be_written_leave_the_earlier_file(tmp_path, monkeypatch):
    def fail(_tensors, path, _metadata):
        path.write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    (tmp_path / "weights.safetensors").write_bytes(b"earlier")
    monkeypatch.setattr("wina_core.compute.stages.save_file", fail)
    with pytest.raises(WinaError, match=r"could not be written to .*; free some space"):
        QuantizedSites().save(tmp_path / "weights.safetensors")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"earlier"]


def test_kept_weights_are_read_again_as_they_were(tmp_path):
    loaded, made = model(bits=6, by_energy=True)
    made.save(tmp_path / "weights.safetensors")
    again = QuantizedSites.load(tmp_path / "weights.safetensors")
    assert list(again.weights) == list(made.weights)
    for one, other in zip(made.weights.values(), again.weights.values(), strict=True):
        assert torch.equal(one.dequantize(), other.dequantize())
        assert one.ladder == other.ladder
    restored = tiny_loaded("llama")
    cache = type("Cache", (), {"read": lambda _: again, "write": lambda *_: None})()
    quantize(restored, QuantizationSpec(quantizer="planes", text=TEXT, bits=6, by_energy=True), NullReporter(), cache)
    with torch.no_grad():
        logits = [candidate.model(tiny_tokens(), use_cache=False).logits for candidate in (loaded, restored)]
    assert torch.equal(*logits)
