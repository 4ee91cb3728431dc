"""Gates on a live model: what they compute, what they count, and that they leave no trace."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.wina_core.tiny import tiny_loaded, tiny_tokens
from wina_core.compute.gating import attach
from wina_core.compute.gating.linear import ForwardContext
from wina_core.compute.gating.rules import Rule, dense_prefix, real_tokens, without_trailing
from wina_core.compute.models.shortcuts import set_shortcut
from wina_core.compute.scoring import ThresholdSelection, TopKSelection
from wina_core.errors import WinaError
from wina_core.model_info.families import PROJECTIONS
from wina_core.specs import MethodSpec
from wina_core.specs.plans import SparsityPlan, UniformSparsity

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


def test_padding_is_not_counted_and_does_not_move_the_dense_prefix():
    loaded = tiny_loaded()
    ids = tiny_tokens(rows=1, length=16)
    padded = torch.cat([ids, torch.zeros(1, 8, dtype=torch.long)], dim=1)
    with attach(loaded, WINA, HALF, dense_prefix=0.5) as gates:
        alone = logits(loaded, ids)
        expected = counts(gates)
        assert expected[0, "q"] == (8 * 32 + 8 * 16, 16 * 32)
        gates.reset_counts()
        with gates.tokens(torch.arange(24)[None] < 16):
            together = logits(loaded, padded)
        assert counts(gates) == expected
    torch.testing.assert_close(together[:, :16], alone, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("positional", [False, True])
def test_a_left_padding_attention_mask_is_understood(positional):
    loaded = tiny_loaded()
    ids = tiny_tokens(rows=1, length=16)
    padded = torch.cat([torch.zeros(1, 8, dtype=torch.long), ids], dim=1)
    mask = (torch.arange(24)[None] >= 8).long()
    with attach(loaded, WINA, HALF, dense_prefix=0.25) as gates, torch.no_grad():
        logits(loaded, ids)
        expected = counts(gates)
        gates.reset_counts()
        if positional:
            loaded.model(padded, mask)
        else:
            loaded.model(padded, attention_mask=mask)
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


@pytest.mark.parametrize("selection", ["topk", "threshold", "statistical", "top_p"])
def test_inputs_and_masks_may_be_strided(selection):
    x = torch.randn(6, 3, 4, generator=torch.Generator().manual_seed(0)).permute(1, 2, 0)  # [rows, tokens, n]
    real, dense = (torch.arange(8) > 2).expand(3, 8)[:, -4:], torch.ones(4, 3, dtype=torch.bool).tril().T
    rule = Rule(TopKSelection(3) if selection == "topk" else ThresholdSelection(selection, 0.5))
    call, twin = ForwardContext(), ForwardContext()
    call.begin(real, dense)
    twin.begin(real.flatten().clone(), dense.flatten().clone())
    strided, plain = call.gate(x, rule), twin.gate(x.reshape(12, 6).contiguous(), rule)
    flat = call.gate(x.reshape(12, 6).T.contiguous().T, rule)
    for gated in (strided, flat):
        assert torch.equal(gated.x.reshape(12, 6), plain.x)
        assert (int(gated.kept_inputs), int(gated.seen_inputs)) == (int(plain.kept_inputs), int(plain.seen_inputs))


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


@given(tokens=st.integers(1, 300), percent=st.integers(0, 99))
@settings(max_examples=60)
def test_the_dense_prefix_is_rounded_as_released_code_does(tokens, percent):
    """Up to a half the gated rest is rounded down (WINA, TEAL), above it the prefix is (R-Sparse)."""
    real = torch.ones(1, tokens, dtype=torch.bool)
    fraction = percent / 100
    expected = tokens - int((1 - fraction) * tokens) if percent <= 50 else int(fraction * tokens)
    expected = 0 if tokens == 1 else expected
    prefix = dense_prefix(real, percent / 100)[0]
    assert prefix.tolist() == [True] * expected + [False] * (tokens - expected)


def test_the_dense_prefix_is_of_real_tokens_and_a_single_token_is_gated():
    real = torch.tensor([[1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 0, 0], [1, 1, 1, 1], [1, 1, 0, 0], [0, 0, 1, 1]])
    expected = [[0] * 4, [0] * 4, [0] * 4, [1, 1, 0, 0], [1, 0, 0, 0], [0, 0, 1, 0]]
    assert dense_prefix(real.bool(), 0.5).int().tolist() == expected


@pytest.mark.parametrize("cached", [0, 3])
def test_masks_of_four_dimensions_know_the_padding(cached):
    keys = torch.tensor([[0, 0, 0, 0, 1, 1, 1, 1], [1] * 8], dtype=torch.bool)
    seen = (keys[:, None, None] & torch.ones(8, 8, dtype=torch.bool).tril())[:, :, cached : cached + 5]
    added = torch.zeros(seen.shape).masked_fill(~seen, torch.finfo(torch.float32).min)
    for mask in (seen, added, {"full_attention": seen, "sliding_attention": seen}):
        assert torch.equal(real_tokens(mask, 5, cached), keys[:, cached : cached + 5])
    assert real_tokens({"full_attention": None}, 5, cached) is None
