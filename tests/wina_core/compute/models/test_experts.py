"""Mixture of Experts: separate linear layers in the place of stacked parameters, gated and calibrated one by one."""

import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.wina_core.tiny import FEW_KINDS, KINDS, WITH_EXPERTS, tiny_loaded, tiny_model, tiny_tokens
from wina_core.compute.allocation.cells import check_joint
from wina_core.compute.calibration import calibrate
from wina_core.compute.gating import attach
from wina_core.compute.gating.inspection import expert_records, inspect_gate
from wina_core.compute.models.architectures import view
from wina_core.compute.models.experts import Experts
from wina_core.compute.models.loading import LoadedModel
from wina_core.compute.models.logits import relative_deviation
from wina_core.compute.models.quantize import quantize
from wina_core.compute.models.quantized_linear import QuantizedLinear
from wina_core.compute.models.shape import model_shape
from wina_core.compute.models.text_tokens import read_tokens
from wina_core.compute.models.view import LayerView
from wina_core.compute.reporter import NullReporter
from wina_core.compute.rotation import rotate
from wina_core.errors import WinaError
from wina_core.model_info.cost.cost import costs
from wina_core.records import EXPERT_SHARE, EXPERT_SPARSITY, EXPERT_THRESHOLD, EXPERT_TOKENS
from wina_core.records.gates import GateTarget
from wina_core.specs import CalibrationSpec, MethodSpec, Quantization, QuantizationSpec, RotationSpec, TextSpec
from wina_core.specs.gates import FRACTIONS
from wina_core.specs.plans import SparsityPlan, UniformSparsity

HALF = UniformSparsity(sparsity=0.5)
WINA = MethodSpec(name="wina")
SOME = [family for family in WITH_EXPERTS if family in KINDS]
FEW = [family for family in WITH_EXPERTS if family in FEW_KINDS]


def _moe_layers(loaded: LoadedModel) -> list[LayerView]:
    return [layer for layer in loaded.view.layers if layer.experts]


def _routed(layer: LayerView, forward: Callable[[], object]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return inputs and outputs of a layer's experts in a pass, with the chosen ones and their weights."""
    inputs: list[Tensor] = []
    hook = layer.mlp[0].experts.register_forward_hook(lambda _m, args, y: inputs.extend((*args, y)))
    forward()
    hook.remove()
    x, chosen, weights, y = inputs
    return x, y, chosen, weights


# ---- separation ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", SOME)
def test_separate_experts_compute_what_stacked_ones_do(family: str) -> None:
    stacked = tiny_model(family, dtype=torch.float64)
    stacked.config._experts_implementation = "eager"
    module = next(module for name, module in stacked.named_modules() if name.endswith(".experts"))
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(40, 32, dtype=torch.float64, generator=generator)
    weights, chosen = torch.rand(40, 6, dtype=torch.float64, generator=generator).topk(2)
    expected = module(x, chosen, weights)
    torch.testing.assert_close(Experts(module)(x, chosen, weights), expected, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("family", SOME)
def test_separate_experts_share_the_memory_and_the_names_of_stacked_ones(family: str) -> None:
    model = tiny_model(family)
    before = dict(model.state_dict())
    layer = next(layer for layer in view(model).layers if layer.experts)
    after = model.state_dict()
    assert list(after) == list(before)
    assert all(after[name].data_ptr() == tensor.data_ptr() for name, tensor in before.items())
    assert all(after[name].equal(tensor) for name, tensor in before.items())
    expert = layer.experts[1].projections["down"].linear
    expert.weight.data = expert.weight.data + 1.0  # as kernels and quantizers do, which move weights
    (changed,) = (name for name, tensor in model.state_dict().items() if not tensor.equal(before[name]))
    difference = model.state_dict()[changed] - before[changed]
    assert changed.endswith(".experts.down_proj")
    assert difference[1].mean() == pytest.approx(1.0, abs=1e-5)
    assert not difference[0].any()
    assert not difference[2:].any()


@pytest.mark.parametrize("family", SOME)
def test_a_rotation_is_folded_into_the_router_so_that_tokens_keep_their_experts(text: TextSpec, family: str) -> None:
    loaded = tiny_loaded(family, dtype=torch.float64)

    def routing() -> list[tuple[Tensor, Tensor, Tensor, Tensor]]:
        return [_routed(layer, lambda: loaded.model(tiny_tokens())) for layer in _moe_layers(loaded)]

    before = routing()
    rotate(loaded, RotationSpec.model_validate({"mode": "global", "text": text}), NullReporter())
    for (x, _, chosen, weights), (rotated, _, still, same) in zip(before, routing(), strict=True):
        assert not torch.allclose(rotated, x)
        assert torch.equal(still, chosen)
        torch.testing.assert_close(same, weights, rtol=1e-9, atol=1e-9)


# ---- gates ---------------------------------------------------------------------------------------------------------


def _kept(x: Tensor, weight: Tensor, keep: int) -> Tensor:
    """Return x [n] with all but the inputs of highest |x_i| ||W[:, i]|| set to 0."""
    highest = (x.abs() * weight.norm(dim=0)).argsort(descending=True)[:keep]
    return torch.zeros_like(x).index_copy(0, highest, x[highest])


def _product(x: Tensor, linear: Any, keep: int) -> Tensor:
    return torch.nn.functional.linear(_kept(x, linear.weight, keep), linear.weight, linear.bias)


def _reference(layer: LayerView, x: Tensor, chosen: Tensor, weights: Tensor, keep: dict[str, int]) -> Tensor:
    """Return the gated experts' output, token by token."""
    outputs = []
    for token, numbers, token_weights in zip(x, chosen, weights, strict=True):
        total = torch.zeros_like(token)
        for number, weight in zip(numbers.tolist(), token_weights, strict=True):
            expert: Any = layer.experts[number].module
            gate, up = _product(token, expert.gate_proj, keep["gate"]), _product(token, expert.up_proj, keep["up"])
            if hasattr(expert, "limit"):  # gpt_oss
                gate = gate.clamp(max=expert.limit)
                hidden = gate * torch.sigmoid(1.702 * gate) * (up.clamp(-expert.limit, expert.limit) + 1)
            else:
                hidden = torch.nn.functional.silu(gate) * up
            total += weight * _product(hidden, expert.down_proj, keep["down"])
        outputs.append(total)
    return torch.stack(outputs)


@pytest.mark.parametrize("family", FEW)
def test_each_expert_gates_its_own_inputs(family: str) -> None:
    loaded = tiny_loaded(family, dtype=torch.float64)
    layer = _moe_layers(loaded)[-1]
    column = {name: index for index, name in enumerate(loaded.view.projections)}
    plan = SparsityPlan.uniform(loaded.view.layout, 0.5).with_cells(
        {(layer.index, column["gate"]): 0.25, (layer.index, column["up"]): 0.75}
    )
    with attach(loaded, WINA, plan) as gates:
        x, y, chosen, weights = _routed(layer, lambda: loaded.model(tiny_tokens()))
        measured = {(record.layer, record.projection): record.value for record in gates.measured()}
    keep = {"gate": 24, "up": 8, "down": 12}
    torch.testing.assert_close(y, _reference(layer, x, chosen, weights, keep), rtol=1e-9, atol=1e-9)
    assert measured[layer.index, "gate"] == pytest.approx(0.25)
    assert measured[layer.index, "down"] == pytest.approx(0.5)


@pytest.mark.parametrize("family", FEW)
def test_weights_are_counted_as_tokens_read_them(family: str) -> None:
    loaded = tiny_loaded(family)
    layer = _moe_layers(loaded)[0]
    gate = loaded.view.projections.index("gate")
    assert len(layer.experts) == 6
    assert loaded.view.layout.parameters[layer.index][gate] == 2 * 24 * 32
    with attach(loaded, WINA, HALF) as gates:
        loaded.model(tiny_tokens())
        assert gates.gated_sparsity == pytest.approx(0.5)
        weights = sum(map(sum, loaded.view.layout.parameters))
        norms = (gates.gated_sparsity - gates.net_sparsity) * weights
        assert gates.bits_read == pytest.approx(16 + 32 * norms / weights)
        assert gates.bits_held == 32


@pytest.mark.parametrize("family", FEW)
def test_padding_and_dense_prefixes_are_left_out_of_each_expert(family: str) -> None:
    loaded = tiny_loaded(family)
    mask = torch.ones(2, 24, dtype=torch.int64)
    mask[0, :8] = 0
    with attach(loaded, MethodSpec(name="teal"), HALF, dense_prefix=0.5) as gates:
        loaded.model(tiny_tokens(), attention_mask=mask)
        seen = {(record.layer, record.projection): record.value for record in gates.measured()}
        layer = _moe_layers(loaded)[0]
        groups = [
            group
            for forward in gates.forwards
            for group in forward.groups
            if group.layer == layer.index and "gate" in group.names
        ]
    assert sum(group.counted()[1] for group in groups) == 2 * 32 * 40, "two experts of each of 40 real tokens"
    assert seen[layer.index, "gate"] == pytest.approx(0.25), "half of them stay dense"


@pytest.mark.parametrize("family", FEW)
def test_records_of_experts_count_the_tokens_and_the_masks_of_each(family: str) -> None:
    loaded = tiny_loaded(family)
    layer = _moe_layers(loaded)[0]
    with attach(loaded, MethodSpec(name="teal"), HALF, dense_prefix=0.5) as gates:
        assert expert_records(loaded.view.layers, gates.forwards) == (), "no token was counted yet"
        _, _, chosen, _ = _routed(layer, lambda: loaded.model(tiny_tokens()))
        (measured,) = (r for r in gates.measured() if (r.layer, r.projection) == (layer.index, "gate"))
        records = [r for r in expert_records(loaded.view.layers, gates.forwards) if r.layer == layer.index]
    tokens = tiny_tokens().numel()
    reads = torch.bincount(chosen.flatten(), minlength=6)
    values = {(record.projection, record.metric): record.values for record in records}
    for name in ("gate", "up", "down"):
        assert values[name, EXPERT_SHARE] == pytest.approx((reads / tokens).tolist())
    sparsities = values["gate", EXPERT_SPARSITY]
    assert [value is None for value in sparsities] == (reads == 0).tolist()
    assert len({value for value in sparsities if value is not None}) > 1, "dense tokens fall on experts unequally"
    weighted = sum(float(count) * (value or 0.0) for count, value in zip(reads, sparsities, strict=True))
    assert weighted / float(reads.sum()) == pytest.approx(measured.value)
    assert {metric for _, metric in values} == {EXPERT_SHARE, EXPERT_SPARSITY}, "top k has no thresholds"


# ---- thresholds ----------------------------------------------------------------------------------------------------


def _scores(loaded: LoadedModel, text: TextSpec, layer: LayerView, name: str) -> list[Tensor]:
    """Return each expert's scores of one matrix's inputs over a text."""
    by_expert: list[list[Tensor]] = [[] for _ in layer.experts]
    hooks = []
    for expert, scores in zip(layer.experts, by_expert, strict=True):
        linear = expert.projections[name].linear
        norms = linear.weight.norm(dim=0)
        hooks.append(
            linear.register_forward_pre_hook(
                lambda _m, args, scores=scores, norms=norms: scores.append((args[0].abs() * norms).flatten())
            )
        )
    loaded.model(read_tokens(text, loaded.tokenizer))
    for hook in hooks:
        hook.remove()
    return [torch.cat(expert_scores) if expert_scores else torch.zeros(0) for expert_scores in by_expert]


@pytest.mark.parametrize("family", FEW)
def test_each_expert_has_its_thresholds_unless_it_read_too_few_tokens(
    text: TextSpec, family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = tiny_loaded(family, dtype=torch.float64)
    layer = _moe_layers(loaded)[0]
    scores = {name: _scores(loaded, text, layer, name) for name in ("gate", "down")}
    counts = [len(expert_scores) // 32 for expert_scores in scores["gate"]]
    least = sorted(counts)[2]
    monkeypatch.setattr(sys.modules[calibrate.__module__], "LEAST_EXPERT_TOKENS", least)
    calibration = calibrate(loaded, WINA, CalibrationSpec(text=text), NullReporter())
    at = FRACTIONS.index(0.5)
    for name, of_experts in scores.items():
        cell = layer.index, loaded.view.projections.index(name)
        everything = torch.cat(of_experts)
        assert calibration.expert_tokens[cell].tolist() == counts
        assert float(calibration.quantiles[cell][at]) == pytest.approx(float(everything.median()), rel=0.02)
        for number, expert_quantiles in enumerate(of_experts):
            expected = expert_quantiles if counts[number] >= least else everything
            threshold = calibration.threshold(*cell, 0.5, number)
            assert float((expected <= threshold).double().mean()) == pytest.approx(0.5, abs=0.02)
        assert 0 < float(calibration.errors[cell][10]) < 1
        assert calibration.energies[cell].diff().max() <= 1e-6


def test_thresholds_of_experts_gate_them_and_survive_a_file(text: TextSpec, tmp_path: Any) -> None:
    loaded = tiny_loaded(WITH_EXPERTS[0])
    method = MethodSpec(name="wina", selection="threshold")
    measured = calibrate(loaded, method, CalibrationSpec(text=text), NullReporter())
    measured.save(tmp_path / "file")
    again = type(measured).load(tmp_path / "file")
    assert {record.metric for record in again.record("key", 1.0).experts} == {EXPERT_TOKENS}
    assert all(torch.equal(again.experts[cell], tensor) for cell, tensor in measured.experts.items())
    assert all(torch.equal(again.expert_tokens[cell], tensor) for cell, tensor in measured.expert_tokens.items())
    tokens = read_tokens(text, loaded.tokenizer)
    logits = []
    for calibration in (measured, again):
        with attach(loaded, method, HALF, calibration) as gates:
            logits.append(loaded.model(tokens).logits)
            assert gates.gated_sparsity == pytest.approx(0.5, abs=0.06)
            records = expert_records(loaded.view.layers, gates.forwards)
    assert torch.equal(*logits)
    layer = _moe_layers(loaded)[0]
    rules = {
        forward.groups[0].rule.select.threshold  # type: ignore[union-attr]
        for forward in gates.forwards
        if any(forward.linear is expert.projections["down"].linear for expert in layer.experts)
    }
    assert len(rules) > 1
    (used,) = (r for r in records if (r.layer, r.projection, r.metric) == (layer.index, "down", EXPERT_THRESHOLD))
    cell = layer.index, loaded.view.projections.index("down")
    assert used.values == tuple(calibration.threshold(*cell, 0.5, number) for number in range(6))


# ---- around them ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("quantization", ["int8", "gptq", "planes"])
def test_quantized_experts_are_gated_like_others(text: TextSpec, quantization: str) -> None:
    loaded = tiny_loaded(WITH_EXPERTS[0])
    dense = loaded.model(tiny_tokens()).logits
    fields = {"quantizer": quantization, "bits": 8, "group": 16, "text": text}
    spec: Quantization = "int8" if quantization == "int8" else QuantizationSpec.model_validate(fields)
    shape = model_shape(loaded.view)
    (_, cost) = costs(shape, WINA, HALF, quantization=spec, rotations=("none",)).rows
    quantize(loaded, spec, NullReporter())
    expert = _moe_layers(loaded)[0].experts[2]
    assert all(isinstance(projection.linear, QuantizedLinear) for projection in expert.projections.values())
    deviation = relative_deviation(loaded.model(tiny_tokens()).logits, dense)
    assert 0 < deviation < 0.2, "some tokens change their experts"
    with attach(loaded, WINA, HALF) as gates:
        loaded.model(tiny_tokens())
        assert gates.gated_sparsity == pytest.approx(0.5)
        if quantization == "gptq":  # of int8 costs count wider scales, and planes are read by scores
            assert gates.bits_held == pytest.approx(cost.bits_held)
            norms = (gates.gated_sparsity - gates.net_sparsity) * 32
            assert gates.bits_read == pytest.approx(cost.bits_read + norms)


def _inspected(loaded: LoadedModel) -> object:
    cell = _moe_layers(loaded)[0].index, "down"
    return inspect_gate(loaded, cell, "text", [GateTarget(method=WINA, target=0.5)], 4, lambda _: None, NullReporter())


BY_ENERGY = QuantizationSpec(quantizer="gptq", by_energy=True, bits=4.5)
REFUSED: dict[str, Callable[[LoadedModel, TextSpec], object]] = {
    "Bits by energy are not shared out among": lambda loaded, _: quantize(loaded, BY_ENERGY, NullReporter()),
    "has 6 down matrices, one in each expert": lambda loaded, _: _inspected(loaded),
    "because it clips queries, keys and values": lambda *_: tiny_loaded("olmoe", clip_qkv=8.0),
    "not allocated together for separate experts": lambda loaded, _: check_joint(loaded.view),
    "^scap .*not kept for each expert of this model; choose wina or teal": lambda loaded, text: calibrate(
        loaded, MethodSpec(name="scap"), CalibrationSpec(text=text), NullReporter()
    ),
    "^wina .*not kept for each expert of this model": lambda loaded, text: calibrate(
        loaded, MethodSpec(name="wina", correction="mean"), CalibrationSpec(text=text), NullReporter()
    ),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_experts_do_not_have_is_refused(text: TextSpec, message: str) -> None:
    with pytest.raises(WinaError, match=message):
        REFUSED[message](tiny_loaded(WITH_EXPERTS[0]), text)
