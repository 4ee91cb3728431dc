"""Norms folded into the inputs: the model computes what it did, and every method keeps its masks."""

import gc
import weakref

import pytest
import torch
from torch import nn
from transformers import AutoModelForCausalLM

from tests.wina_core.tiny import EXACT_MODES, FEW_KINDS, KINDS, WITH_EXPERTS, tiny_loaded, tiny_tokens
from wina_core.compute.gating import attach
from wina_core.compute.gating.rules import rules
from wina_core.compute.hooks import hooked
from wina_core.compute.models.folded_norms import (
    all_folded_norms,
    column_norms,
    fold_norms,
    foldable,
    kept_column_norms,
    unfold_norms,
)
from wina_core.compute.models.loading import load_model
from wina_core.compute.models.logits import relative_deviation
from wina_core.compute.models.quantize import int4, int8
from wina_core.compute.models.shape import model_shape, summarize
from wina_core.compute.models.view import Projection
from wina_core.compute.reporter import NullReporter
from wina_core.compute.rotation import rotate, save_rotated
from wina_core.errors import WinaError
from wina_core.model_info.cost.cost import costs
from wina_core.specs import CalibrationSpec, MethodSpec, ModelSource, RotationSpec
from wina_core.specs.plans import UniformSparsity, resolve_plan

STREAM = {"q", "k", "v", "gate", "up"}
HALF = UniformSparsity(sparsity=0.5)
SHARED = MethodSpec(name="wina", masks="shared")
METHODS = [
    SHARED,
    MethodSpec(name="wina"),
    MethodSpec(name="wina", variant="as_released"),
    MethodSpec(name="teal"),
    MethodSpec(name="larosa"),
    MethodSpec(name="rsparse", variant="as_released", rho=0.9),
]


def _spec(text, mode, fold, **fields):
    return RotationSpec.model_validate({"mode": mode, "text": text, "fold_norms": fold, **fields})


def _plain_and_folded(text, family="llama", mode="global", fold="exact", **settings):
    """Two equally rotated models, of which the second carries its norms."""
    plain, folded = (tiny_loaded(family, **settings) for _ in range(2))
    rotate(plain, _spec(text, mode, "none"), NullReporter())
    rotate(folded, _spec(text, mode, fold), NullReporter())
    return plain, folded


def _inputs(loaded):
    """{(layer, projection): its input [tokens, n]} of a forward pass without gates."""
    inputs = {}

    def keep(key):
        return lambda _, args: inputs.update({key: args[0].flatten(0, -2)})

    with hooked(
        projection.linear.register_forward_pre_hook(keep((layer.index, name)))
        for layer in loaded.view.layers
        for name, projection in layer.projections.items()
    ):
        loaded.model(tiny_tokens())
    return inputs


def _masks(loaded, method):
    plan = resolve_plan(HALF, loaded.view.layout, method)
    table = rules(loaded.view, method, plan)
    inputs = _inputs(loaded)
    return {
        (layer, name): rule.mask(inputs[layer, name]) for layer, row in enumerate(table) for name, rule in row.items()
    }


@pytest.mark.parametrize(
    ("family", "dtype", "limit"),
    [*((family, torch.float64, 1e-12) for family in KINDS), *((family, torch.float32, 1e-5) for family in FEW_KINDS)],
)
def test_a_folded_model_of_every_family_computes_what_it_did(text, family, dtype, limit):
    loaded = tiny_loaded(family, tied=True, dtype=dtype)
    dense = loaded.model(tiny_tokens()).logits
    report = rotate(loaded, _spec(text, EXACT_MODES[family][-1], "all"), NullReporter())
    assert relative_deviation(loaded.model(tiny_tokens()).logits, dense) <= limit
    expected = {"o"} | (set() if family in ("olmo2", "olmo3", "exaone4", "phi") else STREAM) | {"down"}
    if "gate" not in loaded.view.projections:
        expected -= {"gate", "down"}
    if family in WITH_EXPERTS:
        expected -= {"gate", "up", "down"}
    assert set(report.folded) == expected & set(loaded.view.projections)
    assert summarize(loaded).shape.folded == report.folded


@pytest.mark.parametrize(
    ("family", "dtype"),
    [("llama", torch.float64), ("phi3", torch.float32), ("gemma2", torch.float64), ("gpt_neox", torch.float32)],
)
def test_every_method_keeps_its_masks_bit_for_bit(text, family, dtype):
    mode = (EXACT_MODES[family][1:2] or ("none",))[0]
    plain, folded = _plain_and_folded(text, family, mode, tied=True, dtype=dtype, layers=2)
    for method in METHODS:
        expected, masks = _masks(plain, method), _masks(folded, method)
        assert masks.keys() == expected.keys()
        for key, mask in expected.items():
            assert torch.equal(masks[key], mask), (method.label, key)
            assert not mask.all()


def test_o_under_grouped_queries_is_folded_only_on_request(text):
    grouped, ungrouped = tiny_loaded("llama"), tiny_loaded("llama", num_key_value_heads=4)
    assert "o" not in foldable(grouped.view, "exact")
    assert "o" in foldable(grouped.view, "all")
    assert "o" in foldable(ungrouped.view, "exact")
    rotate(grouped, _spec(text, "global", "all"), NullReporter())
    norms = all_folded_norms(grouped.view)["layers.0.o"].view(2, 2, 8)
    assert torch.equal(norms[:, 0], norms[:, 1])


@pytest.mark.parametrize("family", ["llama", "gpt_neox", "phi3"])
def test_shared_masks_by_norms_read_no_norms_and_others_what_is_left(text, family):
    loaded = tiny_loaded(family)
    shape = model_shape(loaded.view)
    rotate(loaded, _spec(text, "global", "all"), NullReporter())
    for method in (SHARED, *METHODS):
        with attach(loaded, method, HALF) as gates:
            loaded.model(tiny_tokens())
            read = (gates.gated_sparsity - gates.net_sparsity) * sum(map(sum, shape.layout.parameters))
        row = costs(shape, method, HALF, rotations=("global",), fold_norms="all").rows[-1]
        counted = (row.gated_sparsity - row.net_sparsity) * sum(map(sum, shape.layout.parameters))
        assert round(read) == round(counted)
        if method == SHARED and family != "gpt_neox":  # whose MLP has no gate to carry the norms of down
            assert round(counted) == 0
        if method.name == "teal":
            assert counted > 0


def test_rotating_takes_earlier_norms_out_first(text):
    once, twice = tiny_loaded("qwen2", dtype=torch.float64), tiny_loaded("qwen2", dtype=torch.float64)
    spec = _spec(text, "global", "all")
    rotate(once, spec, NullReporter())
    rotate(twice, _spec(text, "none", "all", per_head=False), NullReporter())
    assert all_folded_norms(twice.view)
    rotate(twice, spec, NullReporter())
    for key, norms in all_folded_norms(once.view).items():
        assert torch.allclose(norms, all_folded_norms(twice.view)[key], rtol=1e-9)


def test_a_column_of_zeros_is_folded_and_comes_last():
    loaded = tiny_loaded("llama", dtype=torch.float64)
    projection = loaded.view.layers[0].projections["down"]
    projection.linear.weight[:, 3] = 0
    dense = loaded.model(tiny_tokens()).logits
    fold_norms(loaded.view, ("down",))
    assert relative_deviation(loaded.model(tiny_tokens()).logits, dense) < 1e-12
    assert not _masks(loaded, SHARED)[0, "down"][:, 3].any()
    unfold_norms(loaded.view)
    assert not all_folded_norms(loaded.view)
    assert relative_deviation(loaded.model(tiny_tokens()).logits, dense) < 1e-12


def test_scap_finds_one_mode_of_the_inputs_without_their_norms(text):
    from wina_core.compute.calibration import calibrate

    plain, folded = _plain_and_folded(text, dtype=torch.float64)
    method, spec = MethodSpec(name="scap"), CalibrationSpec(text=text)
    masks = []
    for loaded in (plain, folded):
        calibration, inputs = calibrate(loaded, method, spec, NullReporter()), _inputs(loaded)
        table = rules(
            loaded.view, method, resolve_plan(UniformSparsity(sparsity=0.3), loaded.view.layout, method), calibration
        )
        masks.append({name: rule.mask(inputs[0, name]) for name, rule in table[0].items()})
    for name, mask in masks[0].items():
        assert (mask != masks[1][name]).float().mean() < 0.01, name


def test_any_loader_reads_a_folded_export_and_the_workbench_knows_its_norms(text, tmp_path):
    plain, folded = _plain_and_folded(text, "qwen2", fold="all", tied=True)
    folder = tmp_path / "exported"
    save_rotated(folded, folder)
    logits = folded.model(tiny_tokens()).logits
    stock, info = AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    assert torch.equal(stock(tiny_tokens()).logits.detach(), logits)
    loaded = load_model(ModelSource(location=str(folder)), NullReporter())
    assert summarize(loaded).shape.folded == ("q", "k", "v", "o", "gate", "up", "down")
    teal = MethodSpec(name="teal")
    for key, mask in _masks(plain, teal).items():
        assert (mask != _masks(loaded, teal)[key]).float().mean() < 0.01
    (folder / "wina_folded_norms.safetensors").unlink()
    with pytest.raises(WinaError, match=r"wina_folded_norms.safetensors cannot be read .*; export the model again"):
        load_model(ModelSource(location=str(folder)), NullReporter())


# ---- norms of columns ------------------------------------------------------------------------------------------------


SHAPES = ((1, 1), (3, 5), (7, 32), (16, 33), (64, 63), (64, 64), (100, 65), (129, 257), (1000, 130), (40, 1025))


def laid_out(weight: torch.Tensor, layout: str) -> torch.Tensor:
    """The same numbers in other memory."""
    rows, columns = weight.shape
    match layout:
        case "transposed":
            return weight.T.contiguous().T
        case "rows of a fused matrix":
            return torch.cat([weight, weight, weight])[rows : 2 * rows]
        case "columns":
            return torch.cat([weight, weight], dim=1)[:, columns:]
    return weight


@pytest.mark.parametrize("layout", ["contiguous", "transposed", "rows of a fused matrix", "columns"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("block", [1, 1 << 14])
def test_blocks_give_the_bits_of_the_whole(monkeypatch, layout, dtype, block):
    monkeypatch.setattr("wina_core.compute.models.folded_norms._NORMED_BLOCK", block)
    generator = torch.Generator().manual_seed(0)
    for shape in SHAPES:
        weight = laid_out(torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype), layout)
        whole = weight.norm(dim=0) if weight.element_size() >= 4 else weight.float().norm(dim=0)
        assert torch.equal(column_norms(weight), whole), shape


@pytest.fixture
def projections() -> dict[str, Projection]:
    """The projections of a layer whose q, k and v, and whose gate and up, are rows of one matrix."""
    return tiny_loaded("phi3").view.layers[0].projections


def fresh(projection: Projection) -> torch.Tensor:
    return projection.weight.norm(dim=0)


def test_norms_are_computed_once_for_each_projection(projections):
    cached = {name: kept_column_norms(projection) for name, projection in projections.items()}
    for name, projection in projections.items():
        assert torch.equal(cached[name], fresh(projection))
        assert kept_column_norms(projection) is cached[name]


def test_norms_follow_weights_that_are_written_to_or_replaced(projections):
    q, k = projections["q"], projections["k"]
    before = kept_column_norms(q), kept_column_norms(k)
    q.weight.mul_(2)  # in a view of rows, as rotations do
    assert torch.equal(kept_column_norms(q), 2 * before[0])
    assert torch.equal(kept_column_norms(k), before[1])
    q.linear.weight.data = q.linear.weight.data * 2
    assert torch.equal(kept_column_norms(k), 2 * before[1])
    q.linear.weight = nn.Parameter(q.linear.weight / 2, requires_grad=False)
    assert torch.equal(kept_column_norms(q), 2 * before[0])
    q.linear.to(torch.float64)
    assert kept_column_norms(q).dtype == torch.float64


@pytest.mark.parametrize("quantize", [int8, int4])
def test_norms_of_a_quantized_layer_are_kept(quantize):
    layer = quantize(nn.Linear(64, 32, bias=False))
    projection = Projection(0, "o", layer, slice(None))
    cached = kept_column_norms(projection)
    assert torch.equal(cached, fresh(projection))
    assert kept_column_norms(projection) is cached
    scale = layer.scale
    layer._apply(lambda tensor: 2 * tensor if tensor is scale else tensor)
    assert torch.equal(kept_column_norms(projection), 2 * cached)


def test_norms_are_forgotten_with_their_layer():
    layer = nn.Linear(64, 32)
    cached = weakref.ref(kept_column_norms(Projection(0, "o", layer, slice(None))))
    assert cached() is not None
    del layer
    gc.collect()
    assert cached() is None
