"""Gates on a live model: what they compute, what they count, and that they leave no trace."""

import copy
import pickle
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
import torch
from torch import Tensor
from torch.nn.functional import linear as linear_of
from wina_kernels.selection import top_k_mask
from wina_kernels.weights import MixedWeight, QuantizedWeight

from tests.wina_core.tiny import tiny_loaded, tiny_model, tiny_text, tiny_tokenizer, tiny_tokens
from wina_core.compute.gating import attach
from wina_core.compute.gating.linear import KeptInputs, stored_bits
from wina_core.compute.gating.rules import dense_prefix, without_trailing
from wina_core.compute.models.loading import LoadedModel, load_model
from wina_core.compute.models.mapped import in_files
from wina_core.compute.models.quantize import quantize
from wina_core.compute.models.quantized_linear import PlaneLinear, QuantizedLinear
from wina_core.compute.models.shortcuts import set_shortcut
from wina_core.compute.reporter import NullReporter
from wina_core.compute.rotation import rotate
from wina_core.errors import WinaError
from wina_core.files.hardware import MEMORY_VARIABLE
from wina_core.specs import MethodSpec, ModelSource, QuantizationSpec, RotationSpec, TextSpec
from wina_core.specs.plans import PROJECTIONS, SparsityPlan, UniformSparsity

WINA = MethodSpec(name="wina")
TEAL = MethodSpec(name="teal")
HALF = UniformSparsity(sparsity=0.5)
FAMILIES = ["llama", "qwen2", "phi3"]


def logits(loaded, ids: Tensor, **kwargs) -> Tensor:
    with torch.no_grad():
        return loaded.model(ids, use_cache=False, **kwargs).logits


def counts(gates) -> dict[tuple[int, str], tuple[int, int]]:
    """{(layer, projection): (inputs kept, inputs seen)}."""
    return {(group.layer, name): group.counted() for group in gates._mask_groups for name in group.names}


def table(loaded, **sparsities: float) -> SparsityPlan:
    """The named projections at their sparsity in every layer, the others at 0."""
    plan = SparsityPlan.uniform(loaded.view.layout, 0.0)
    cells = {
        (layer, PROJECTIONS.index(name)): value
        for layer in range(plan.layout.layers)
        for name, value in sparsities.items()
    }
    return plan.with_cells(cells)


@pytest.mark.parametrize("family", FAMILIES)
def test_switched_off_gates_are_dense_and_detached_ones_leave_no_trace(family):
    loaded = tiny_loaded(family)
    ids = tiny_tokens()
    before, state = logits(loaded, ids), {name: value.clone() for name, value in loaded.model.state_dict().items()}
    instance = {name: set(module.__dict__) for name, module in loaded.model.named_modules()}
    with attach(loaded, WINA, HALF) as gates:
        assert list(loaded.model.state_dict()) == list(state)
        gates.enabled = False
        assert torch.equal(logits(loaded, ids), before)
        assert gates.measured() == (), "switched off, they do not count"
        gates.enabled = True
        assert not torch.equal(logits(loaded, ids), before)
    assert torch.equal(logits(loaded, ids), before)
    after = loaded.model.state_dict()
    assert list(after) == list(state)
    assert all(torch.equal(after[name], value) for name, value in state.items())
    assert {name: set(module.__dict__) for name, module in loaded.model.named_modules()} == instance


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("method", [WINA, MethodSpec(name="rsparse")])
def test_zero_sparsity_is_dense(family, method):
    loaded = tiny_loaded(family)
    ids = tiny_tokens()
    dense = logits(loaded, ids)
    with attach(loaded, method, UniformSparsity(sparsity=0.0)) as gates:
        # Fused layers are computed slice by slice when their scales differ, which may round differently.
        torch.testing.assert_close(logits(loaded, ids), dense, rtol=1e-5, atol=1e-5)
        assert {record.value for record in gates.measured()} == {0.0}


def test_measured_sparsity_is_counted_per_projection():
    loaded = tiny_loaded(layers=2)
    ids = tiny_tokens(rows=2, length=24)
    with attach(loaded, WINA, table(loaded, q=0.25, down=0.65)) as gates:
        logits(loaded, ids)
        logits(loaded, ids)
        measured = {(record.layer, record.projection): record.value for record in gates.measured()}
        seen = counts(gates)
        kept_down = 80 - 52
        assert seen[1, "down"] == (2 * 48 * kept_down, 2 * 48 * 80)
        assert [name for layer, name in measured if layer == 0] == list(PROJECTIONS)
        assert measured[0, "q"] == 0.25
        assert measured[1, "down"] == pytest.approx(52 / 80)
        assert measured[0, "up"] == 0
        parameters = loaded.view.layout.parameters[0]
        expected = (0.25 * parameters[0] + 52 / 80 * parameters[6]) / sum(parameters)
        assert gates.gated_sparsity == pytest.approx(expected)
        gates.reset_counts()
        assert gates.measured() == ()


def test_shortcuts_count_as_kept_weights():
    loaded = tiny_loaded(layers=2)
    set_shortcut(loaded.view.layers[0], "attention", torch.eye(32))
    with attach(loaded, TEAL, HALF) as gates:
        logits(loaded, tiny_tokens())
        weights = sum(map(sum, loaded.view.layout.parameters))
        assert gates.gated_sparsity == 0.5
        assert gates.net_sparsity == pytest.approx(0.5 - 32 * 32 / weights)


@pytest.mark.parametrize("way", ["declared", "mask", "positional mask"])
def test_padding_is_not_counted_and_does_not_move_the_dense_prefix(way):
    loaded = tiny_loaded()
    ids, padding = tiny_tokens(rows=1, length=16), torch.zeros(1, 8, dtype=torch.long)
    on_the_right = way == "declared"
    padded = torch.cat([ids, padding] if on_the_right else [padding, ids], dim=1)
    real = torch.arange(24)[None] < 16 if on_the_right else torch.arange(24)[None] >= 8
    with attach(loaded, WINA, HALF, dense_prefix=0.5) as gates, torch.no_grad():
        alone = logits(loaded, ids)
        expected = counts(gates)
        assert expected[0, "q"] == (8 * 32 + 8 * 16, 16 * 32)
        gates.reset_counts()
        if on_the_right:
            with gates.tokens(real):
                torch.testing.assert_close(logits(loaded, padded)[:, :16], alone, rtol=1e-4, atol=1e-4)
        elif way == "mask":
            loaded.model(padded, attention_mask=real.long())
        else:
            loaded.model(padded, real.long())
        assert counts(gates) == expected


@pytest.mark.parametrize("family", ["opt", "phi", "gpt_neox"])
def test_a_prompt_in_parts_is_gated_as_in_one(family):
    loaded = tiny_loaded(family, dtype=torch.float64)
    ids = tiny_tokens(rows=2, length=12)
    mask = torch.arange(12) >= torch.tensor([[0], [3]])  # whose part for the last tokens is not contiguous
    with attach(loaded, WINA, HALF) as gates, torch.no_grad():
        whole = loaded.model(ids, attention_mask=mask, use_cache=False).logits
        expected = counts(gates)
        gates.reset_counts()
        first = loaded.model(ids[:, :7], attention_mask=mask[:, :7], use_cache=True)
        rest = loaded.model(ids[:, 7:], attention_mask=mask, past_key_values=first.past_key_values)
        assert counts(gates) == expected
    torch.testing.assert_close(rest.logits, whole[:, 7:])


@pytest.mark.parametrize("family", FAMILIES)
def test_cached_decoding_equals_recomputing_everything(family):
    loaded = tiny_loaded(family, dtype=torch.float64)
    prompt = tiny_tokens(rows=1, length=12)
    with attach(loaded, WINA, HALF):
        cached = loaded.model.generate(prompt, max_new_tokens=12, do_sample=False, use_cache=True)
        ids = prompt
        for _ in range(12):
            ids = torch.cat([ids, logits(loaded, ids)[:, -1:].argmax(-1)], dim=1)
    dense = loaded.model.generate(prompt, max_new_tokens=12, do_sample=False)
    assert torch.equal(cached, ids)
    assert not torch.equal(cached, dense)


def test_a_plan_for_another_model_is_refused_and_nothing_is_gated():
    loaded = tiny_loaded(layers=2)
    plan = SparsityPlan.uniform(tiny_loaded(layers=3).view.layout, 0.5)
    dense = logits(loaded, tiny_tokens())
    with pytest.raises(WinaError, match="made for a model with 3 layers"):
        attach(loaded, WINA, plan)
    assert torch.equal(logits(loaded, tiny_tokens()), dense)


def test_gating_twice_is_a_defect():
    loaded = tiny_loaded()
    with attach(loaded, WINA, HALF) as gates:
        with pytest.raises(RuntimeError, match="already"):
            attach(loaded, TEAL, HALF)
        logits(loaded, tiny_tokens())
        assert gates.gated_sparsity == 0.5


@pytest.mark.parametrize(
    "method",
    [
        MethodSpec(name="teal", selection="threshold"),
        MethodSpec(name="scap"),
        WINA.model_copy(update={"correction": "mean"}),
    ],
)
def test_a_method_without_the_calibration_it_needs_is_refused(method):
    with pytest.raises(WinaError, match="selection needs a calibration"):
        attach(tiny_loaded(), method, HALF)


# ---- gated tokens: padding and the dense prefix ----------------------------------------------------------------------


def test_trailing_padding_is_distinguished_from_zeros_inside():
    ids = torch.tensor([[5, 0, 7, 0, 0], [0, 0, 0, 0, 0], [1, 2, 3, 4, 5]])
    assert without_trailing(ids, 0).sum(-1).tolist() == [3, 1, 5]


def test_the_dense_prefix_is_of_real_tokens_and_a_single_token_is_gated():
    real = torch.tensor([[1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 0, 0], [1, 1, 1, 1], [1, 1, 0, 0], [0, 0, 1, 1]])
    expected = [[0] * 4, [0] * 4, [0] * 4, [1, 1, 0, 0], [1, 0, 0, 0], [0, 0, 1, 0]]
    assert dense_prefix(real.bool(), 0.5).int().tolist() == expected


# ---- calls as other programs make them -------------------------------------------------------------------------------

RTN = QuantizationSpec(quantizer="rtn", bits=4, group=16)
PLANES = QuantizationSpec(quantizer="planes", bits=6)
PADDED = torch.arange(12) < torch.tensor([[0], [5]])


def loaded_in(
    quantization: QuantizationSpec | None, dtype: torch.dtype = torch.float32, layers: int = 3
) -> LoadedModel:
    loaded = tiny_loaded(layers=layers)
    if quantization is not None:
        quantize(loaded, quantization, NullReporter())
    loaded.model.to(dtype)
    return loaded


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("quantization", [RTN, PLANES], ids=["rtn", "planes"])
def test_quantized_weights_are_the_same_after_a_move_to_another_data_type(quantization, dtype):
    loaded = loaded_in(quantization)
    linears = [module for module in loaded.model.modules() if isinstance(module, QuantizedLinear)]
    before, stored = [linear.weight.to(dtype) for linear in linears], linears[0].weight_t.bytes
    loaded.model.to(dtype)
    assert linears[0].weight_t.bytes == stored
    assert all(torch.equal(linear.weight, weight) for linear, weight in zip(linears, before, strict=True))
    x = torch.randn(4, linears[0].in_features, generator=torch.Generator().manual_seed(0)).to(dtype)
    torch.testing.assert_close(linears[0](x), linear_of(x, before[0], linears[0].bias), rtol=0.02, atol=0.02)


@pytest.mark.parametrize("quantization", [None, RTN, PLANES], ids=["float", "rtn", "planes"])
@pytest.mark.parametrize("tokens", [4, 24])
def test_gradients_of_the_inputs_pass_the_masks(quantization, tokens):
    """In float64 nothing is compiled: there the gradient is that of products with a constant mask."""
    gradients = []
    for dtype in (torch.float64, torch.float32):
        loaded = loaded_in(quantization, dtype)
        inputs = loaded.view.embedding(tiny_tokens(1, tokens)).detach().requires_grad_()
        with attach(loaded, WINA, HALF, kernels=True):
            loaded.model(inputs_embeds=inputs, use_cache=False).logits.square().sum().backward()
        gradients.append(inputs.grad.double())
    assert float((gradients[1] - gradients[0]).norm() / gradients[0].norm()) < 1e-4


@pytest.mark.parametrize("method", [WINA, MethodSpec(name="cats")], ids=["wina", "cats"])
def test_threads_call_a_gated_model_at_once(method):
    loaded = tiny_loaded()
    prompts = tiny_tokens(1, 9), tiny_tokens(1, 24, seed=8)
    with attach(loaded, method, UniformSparsity(sparsity=0.3), dense_prefix=0.5) as gates:
        expected = [logits(loaded, ids) for ids in prompts]
        counts = gates.counts()
        gates.reset_counts()
        turn, in_step = Barrier(2, timeout=300), []
        for layer in loaded.view.layers:
            layer.projections["down"].linear.register_forward_pre_hook(lambda *_: in_step.append(turn.wait()))
        with ThreadPoolExecutor(2) as threads:
            outputs = list(threads.map(lambda ids: logits(loaded, ids), prompts))
        assert all(map(torch.equal, outputs, expected))
        assert torch.equal(gates.counts()["numbers"], counts["numbers"])


@pytest.mark.parametrize("family", ["llama", "starcoder2", "gemma3_text"])
def test_left_padding_is_known_with_a_static_cache(family):
    """Whose masks are of four dimensions; families with windows have several."""
    loaded, sequences = tiny_loaded(family), []
    ids = tiny_tokens(2, 12)
    with attach(loaded, WINA, HALF, dense_prefix=0.5) as gates:
        for cache in ("dynamic", "static"):
            gates.reset_counts()
            options = {"attention_mask": (~PADDED).long(), "cache_implementation": cache, "disable_compile": True}
            new = loaded.model.generate(ids, max_new_tokens=4, min_new_tokens=4, do_sample=False, **options)
            sequences.append((new.tolist(), gates.counts()["numbers"].tolist()))
    assert sequences[0] == sequences[1]


def test_a_dense_prefix_needs_the_whole_prompt():
    loaded, ids = tiny_loaded(), tiny_tokens(1, 12)
    options = {"max_new_tokens": 4, "do_sample": False}
    with attach(loaded, WINA, HALF):
        whole = loaded.model.generate(ids, **options)
        assert torch.equal(loaded.model.generate(ids, prefill_chunk_size=5, **options), whole)
    with attach(loaded, WINA, HALF, dense_prefix=0.5):
        with pytest.raises(WinaError, match=r"generate without prefill_chunk_size\.$"):
            loaded.model.generate(ids, prefill_chunk_size=5, **options)
        loaded.model.generate(ids, prompt_lookup_num_tokens=3, **options)
        cache = loaded.model(ids, use_cache=True).past_key_values
        loaded.model(ids[:, :1], past_key_values=cache)
        loaded.model(ids, past_key_values=cache)  # the next turn of a conversation


@pytest.mark.nightly
def test_a_compiled_model_is_gated():
    loaded, ids = loaded_in(RTN, layers=1), tiny_tokens(1, 6)
    compiled = torch.compile(loaded.model, backend="eager")
    with torch.no_grad(), attach(loaded, WINA, HALF, kernels=True) as gates:
        expected, counts = logits(loaded, ids), gates.counts()
        gates.reset_counts()
        torch.testing.assert_close(compiled(ids, use_cache=False).logits, expected)
        assert torch.equal(gates.counts()["numbers"], counts["numbers"])
        gates.enabled = False
        torch.testing.assert_close(compiled(ids, use_cache=False).logits, logits(loaded, ids))


def test_a_gated_model_is_not_copied():
    loaded = tiny_loaded()
    with attach(loaded, WINA, HALF):
        for refused in (copy.deepcopy, pickle.dumps):
            with pytest.raises(WinaError, match="cannot be copied or pickled; load it again"):
                refused(loaded.model)
    copied = copy.deepcopy(loaded.model)
    ids = tiny_tokens()
    assert torch.equal(copied(ids, use_cache=False).logits, logits(loaded, ids))


# ---- weights in files ------------------------------------------------------------------------------------------------

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="weights stay in their files on Linux alone")
LARGER_THAN_A_PAGE = {
    "llama": {"intermediate_size": 512},
    "qwen3_moe": {"moe_intermediate_size": 256},
    "gpt_oss": {"intermediate_size": 256},  # gate and up lie between each other
}


@pytest.mark.parametrize("memory", ["", pytest.param("1M", marks=LINUX)])
@pytest.mark.parametrize("rotated", [False, True])
@pytest.mark.parametrize("family", LARGER_THAN_A_PAGE)
def test_a_model_in_files_is_the_same_while_transposed_and_afterwards(
    family: str, rotated: bool, memory: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if memory:
        monkeypatch.setenv(MEMORY_VARIABLE, memory)
    tiny_model(family, **LARGER_THAN_A_PAGE[family]).save_pretrained(tmp_path / "model")
    tiny_tokenizer().save_pretrained(tmp_path / "model")
    loaded = load_model(ModelSource(location=str(tmp_path / "model"), dtype="float32"), NullReporter())
    if rotated:
        text = TextSpec(source=tiny_text(tmp_path), tokens=256, sequence=64)
        rotate(loaded, RotationSpec(text=text), NullReporter())
    ids = tiny_tokens(1, 3)

    @torch.no_grad()
    def logits() -> torch.Tensor:
        return loaded.model(ids, use_cache=False).logits

    before = logits()
    method, plan = MethodSpec(name="wina"), UniformSparsity(sparsity=0.5)
    with attach(loaded, method, plan):
        gated = logits()
    with attach(loaded, method, plan, kernels=True) as gates:
        weights = [transposed.weight_t for transposed in gates.transposed]
        assert len(in_files(weights)) == (len(weights) if memory else 0)
        torch.testing.assert_close(logits(), gated, rtol=0, atol=1e-4)
    torch.testing.assert_close(logits(), before, rtol=0, atol=1e-4)


# ---- bits that gates read --------------------------------------------------------------------------------------------


def model_in_planes(bits: int = 12):
    loaded = tiny_loaded("llama")
    quantize(loaded, QuantizationSpec(quantizer="planes", bits=bits), NullReporter())
    return loaded


@torch.no_grad()
def test_inputs_of_low_scores_are_read_in_the_first_planes():
    loaded = model_in_planes()
    linear = loaded.view.layers[0].projections["o"].linear
    assert isinstance(linear, PlaneLinear)
    x = torch.randn(1, 5, linear.in_features, generator=torch.Generator().manual_seed(0)) ** 3
    score = x.abs() * linear.weight_t.dequantize().norm(dim=1)
    mask = top_k_mask(score, linear.in_features // 2)
    lowest = score.masked_fill(~mask, torch.inf).amin(-1, keepdim=True)
    levels = mask * (1 + sum((score >= factor * lowest).long() for factor in linear.weight_t.ladder))
    assert len(levels.unique()) >= 4
    expected = sum((x * (levels == most)) @ linear.weight_t.dequantize(most) for most in range(1, 7)) + linear.bias
    with attach(loaded, WINA, UniformSparsity(sparsity=0.5)) as gates:
        torch.testing.assert_close(linear(x), expected)
    (group,) = next(forward.groups for forward in gates.forwards if forward.linear is linear)
    assert group.counted() == (int(mask.sum()), x.numel())
    assert group.planes_read() == int(levels.sum())
    torch.testing.assert_close(linear(x), x @ linear.weight_t.dequantize() + linear.bias)


@pytest.mark.parametrize("bits", [12, 6])
def test_bits_fall_with_the_target(bits):
    loaded, read = model_in_planes(bits), []
    for target in (0.0, 0.25, 0.5, 0.75):
        with torch.no_grad(), attach(loaded, WINA, UniformSparsity(sparsity=target)) as gates:
            loaded.model(tiny_tokens(), use_cache=False)
            read.append(gates.bits_read)
        assert target or gates.bits_read == gates.bits_held, "without a target all planes are read"
    assert read == sorted(read, reverse=True)
    assert read[2] < 0.5 * read[0]


def test_tokens_that_are_left_dense_are_read_in_all_planes():
    loaded = model_in_planes(8)
    with torch.no_grad(), attach(loaded, WINA, UniformSparsity(sparsity=0.5), dense_prefix=1.0) as gates:
        loaded.model(tiny_tokens(), use_cache=False)
    planes, masks = sum(group.planes_read() for forward in gates.forwards for group in forward.groups), gates.forwards
    assert planes == sum(4 * group.counted()[1] for forward in masks for group in forward.groups)


def test_every_part_of_a_mixed_weight_is_counted_where_its_inputs_are_kept():
    linear = torch.nn.Linear(6, 8, bias=False)
    codes = QuantizedWeight.of(torch.zeros(4, 8, dtype=torch.uint8), torch.ones(2, 8), torch.ones(2, 8), 2, 4)
    order = torch.tensor([5, 4, 3, 2, 1, 0], dtype=torch.int32)
    stored = stored_bits(QuantizedLinear(linear, MixedWeight([torch.zeros(2, 8), codes], order)))
    assert stored.inputs.tolist() == [4 * 8] * 4 + [32 * 8] * 2
    assert stored.always == 16 * 2 * 16 + 6 * 32
    counts = KeptInputs()
    counts.add(torch.tensor([[0.0, 1, 0, 0, 0, 2], [0, 1, 0, 0, 0, 0]]), None)
    assert stored.read(counts) == (2 * 32 + 256) / 2 + stored.always
    assert stored.held == 4 * 32 + 2 * 256 + stored.always


def test_padding_is_not_counted_as_kept():
    counts = KeptInputs()
    counts.add(torch.ones(1, 3, 2), torch.tensor([[True, False, True]]))
    assert (counts.tokens, counts.kept_counts.tolist()) == (2, [2, 2])
