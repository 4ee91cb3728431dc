"""Differences of the families: norms that centre or sit on writes, parallel layers, interleaved rows, no gate."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from tests.wina_core.tiny import KINDS, tiny_loaded, tiny_tokens
from wina_core.compute.gating import attach
from wina_core.compute.models.loading import LoadedModel
from wina_core.compute.models.logits import relative_deviation
from wina_core.compute.models.norms import norm_bias, norm_gain
from wina_core.compute.models.shape import summarize
from wina_core.compute.models.text_tokens import read_tokens
from wina_core.compute.models.view import joined
from wina_core.compute.reporter import NullReporter
from wina_core.compute.rotation import rotate
from wina_core.compute.rotation.matrices import orthogonality_error
from wina_core.compute.rotation.statistics import centred_gram, dense_moments, preserve_mean
from wina_core.compute.scoring import scales_of
from wina_core.errors import WinaError
from wina_core.specs import AS_RELEASED_ROTATION, MethodSpec, RotationSpec, TextSpec
from wina_core.specs.methods import get_method
from wina_core.specs.plans import SparsityPlan

NEW = tuple(family for family in KINDS if family not in ("llama", "mistral", "qwen2", "qwen3", "phi3"))


def _rotation(text: TextSpec, mode: str, **fields: object) -> RotationSpec:
    return RotationSpec.model_validate({"mode": mode, "text": text, **fields})


def _logits(loaded: LoadedModel) -> Tensor:
    return loaded.model(tiny_tokens()).logits


# ---- rotations -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("family", "settings", "modes"),
    [
        ("mistral", {"sliding_window": 8}, ("global", "per_site")),
        ("gpt_neox", {"use_parallel_residual": False}, ("global", "per_layer", "per_site")),
        ("gpt_neox", {"attention_bias": False}, ("global", "per_layer")),
        ("stablelm", {"use_parallel_residual": True}, ("global", "per_layer")),
        ("stablelm", {"use_qkv_bias": False}, ("global", "per_site")),
        ("opt", {"enable_bias": False}, ("global", "per_site")),
        ("ernie4_5_moe", {"moe_num_shared_experts": 0}, ("per_site",)),
        ("opt", {"enable_bias": False, "layer_norm_elementwise_affine": False}, ("global", "per_site")),
        ("opt", {"do_layer_norm_before": False}, ("none",)),
        ("opt", {"word_embed_proj_dim": 16}, ("none",)),
    ],
)
def test_a_familys_other_checkpoints_are_exact_too(text, family, settings, modes):
    for mode in modes:
        loaded = tiny_loaded(family, dtype=torch.float64, **settings)
        dense = _logits(loaded)
        rotate(loaded, _rotation(text, mode), NullReporter())
        assert relative_deviation(_logits(loaded), dense) < 1e-12
        assert not torch.equal(_logits(loaded), dense)


@pytest.mark.parametrize(
    ("family", "settings", "reason"),
    [
        ("gemma2", {}, "what its attention and MLP write passes a norm with a gain"),
        ("gemma3_text", {}, "what its attention and MLP write passes a norm with a gain"),
        ("olmo2", {}, "what its attention and MLP write passes a norm with a gain"),
        ("olmo3", {}, "what its attention and MLP write passes a norm with a gain"),
        ("exaone4", {}, "what its attention and MLP write passes a norm with a gain"),
        ("opt", {"do_layer_norm_before": False}, "its norms act on the residual stream itself"),
        ("opt", {"word_embed_proj_dim": 16}, "its embedding and its head are projected to and from"),
        ("opt", {"_remove_final_layer_norm": True}, "it has no final norm"),
    ],
)
def test_a_stream_that_cannot_be_rotated_is_refused_with_the_reason(text, family, settings, reason):
    loaded = tiny_loaded(family, **settings)
    dense = _logits(loaded)
    for mode in ("global", "per_layer", "per_site"):
        with pytest.raises(WinaError, match=f"no exact {mode} rotation, because {reason}.*; choose none with heads"):
            rotate(loaded, _rotation(text, mode), NullReporter())
    assert _logits(loaded).equal(dense)
    summary = summarize(loaded)
    assert summary.rotations == ("none",)
    assert summary.rotation_reason.startswith(
        f"No global or per_layer or per_site rotation is exact here, because {reason}"
    )


@pytest.mark.parametrize("family", ["phi", "gpt_neox"])
def test_a_parallel_layer_has_one_basis(text: TextSpec, family: str) -> None:
    loaded = tiny_loaded(family)
    with pytest.raises(WinaError, match=r"read the same point of the residual stream, .* none or global or per_layer"):
        rotate(loaded, _rotation(text, "per_site"), NullReporter())
    assert summarize(loaded).rotations == ("none", "global", "per_layer")
    report = rotate(loaded, _rotation(text, "per_layer"), NullReporter())
    assert report.shortcut_parameters == 2 * 32 * 32, "one between any two layers"


@pytest.mark.parametrize("family", ["phi", "gpt_neox", "opt"])
def test_a_basis_from_a_gate_that_is_not_there_is_refused(text: TextSpec, family: str) -> None:
    released = AS_RELEASED_ROTATION.model_copy(update={"text": text, "mode": "global"})
    with pytest.raises(WinaError, match='has no gate; choose the basis "gate_up" or "activations"'):
        rotate(tiny_loaded(family), released, NullReporter())


# ---- LayerNorm -------------------------------------------------------------------------------------------------


@given(st.integers(2, 24), st.integers(0, 2**31))
def test_a_basis_keeps_the_mean_by_a_turn_in_one_plane(d: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    q, _ = torch.linalg.qr(torch.randn(d, d, dtype=torch.float64, generator=generator))
    basis = preserve_mean(q)
    ones = torch.ones(d, dtype=torch.float64)
    assert orthogonality_error(basis) < 1e-12
    torch.testing.assert_close((basis @ ones).abs(), ones, rtol=0, atol=1e-12)
    assert (basis @ ones).std() < 1e-12, "one sign"
    assert torch.linalg.matrix_rank(basis - q, atol=1e-9) <= 2
    assert preserve_mean(basis) is basis
    x = torch.randn(7, d, dtype=torch.float64, generator=generator)
    norm = nn.LayerNorm(d, dtype=torch.float64).requires_grad_(False)
    torch.testing.assert_close(norm(x @ basis), norm(x) @ basis)


def test_a_centred_gram_is_what_centred_inputs_see() -> None:
    generator = torch.Generator().manual_seed(0)
    weight, x = (torch.randn(6, 9, dtype=torch.float64, generator=generator) for _ in range(2))
    x = x - x.mean(1, keepdim=True)
    gram = weight.T @ weight
    centred = centred_gram(gram.clone())
    torch.testing.assert_close(((x @ centred) * x).sum(1), ((x @ gram) * x).sum(1))
    torch.testing.assert_close(centred.sum(0), torch.zeros(9, dtype=torch.float64))


# ---- statistics ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["granite", "phi", "gpt_neox", "opt"])
def test_moments_are_those_of_the_models_own_inputs(text: TextSpec, family: str) -> None:
    """Scaled embeddings, learned positions, parallel layers: whatever reaches the norms is what counts."""
    loaded = tiny_loaded(family, dtype=torch.float64)
    tokens = read_tokens(text, loaded.tokenizer)
    for layer, moments in list(dense_moments(loaded.view, tokens, NullReporter())):
        for name, norm, moment in (("q", layer.attention_norm, moments.attention), ("up", layer.mlp_norm, moments.mlp)):
            seen: list[Tensor] = []
            linear = layer.projections[name].linear
            hook = linear.register_forward_pre_hook(lambda _m, x, seen=seen: seen.append(x[0]))
            loaded.model(tokens)
            hook.remove()
            bias = norm_bias(norm)
            x = (seen[0].flatten(0, -2) - (0.0 if bias is None else bias)) / norm_gain(norm)
            torch.testing.assert_close(moment, x.T @ x)


# ---- rows and gates --------------------------------------------------------------------------------------------


def test_interleaved_rows_are_what_the_attention_takes_for_its_queries_keys_and_values() -> None:
    loaded = tiny_loaded("gpt_neox")
    x = torch.randn(2, 5, 32, generator=torch.Generator().manual_seed(0))
    layer = loaded.view.layers[1]
    fused = layer.projections["q"].linear
    chunks = fused(x).view(2, 5, 4, 24).transpose(1, 2).chunk(3, dim=-1)
    for name, chunk in zip("qkv", chunks, strict=True):
        by_rows = nn.functional.linear(x, layer.projections[name].weight, layer.projections[name].bias)
        torch.testing.assert_close(by_rows.view(2, 5, 4, 8).transpose(1, 2), chunk)
    everything = joined(joined(layer.projections["q"].rows, layer.projections["k"].rows), layer.projections["v"].rows)
    assert torch.equal(torch.as_tensor(everything), torch.arange(96))


def test_an_interleaved_layer_gates_each_of_its_projections_by_itself() -> None:
    loaded = tiny_loaded("gpt_neox")
    layer = loaded.view.layers[0]
    seen: list[Tensor] = []
    fused = layer.projections["q"].linear
    hook = fused.register_forward_hook(lambda _m, x, y: seen.extend((x[0], y)))
    column = {name: index for index, name in enumerate(loaded.view.projections)}
    plan = SparsityPlan.uniform(loaded.view.layout, 0.0)
    targets = {"q": 0.25, "k": 0.5, "v": 0.75}
    plan = plan.with_cells({(0, column[name]): target for name, target in targets.items()})
    with attach(loaded, MethodSpec(name="wina"), plan):
        _logits(loaded)
    hook.remove()
    x, y = seen
    for name, target in targets.items():
        projection = layer.projections[name]
        score = x.abs() * projection.weight.norm(dim=0)
        kept_inputs = score.topk(32 - int(32 * target), dim=-1).indices
        masked = torch.zeros_like(x).scatter(-1, kept_inputs, x.gather(-1, kept_inputs))
        torch.testing.assert_close(
            y[..., projection.rows], nn.functional.linear(masked, projection.weight, projection.bias)
        )


@pytest.mark.parametrize("family", NEW)
def test_gating_without_rotation_works_for_every_family(family):
    loaded = tiny_loaded(family)
    dense = _logits(loaded)
    with attach(loaded, MethodSpec(name="wina"), SparsityPlan.uniform(loaded.view.layout, 0.5)) as gates:
        gated = _logits(loaded)
        measured = {(record.layer, record.projection): record.value for record in gates.measured()}
        counted = gates.gated_sparsity
    assert set(measured) == {(layer, name) for layer in range(3) for name in loaded.view.projections}
    assert set(measured.values()) == {0.5}
    assert counted == pytest.approx(0.5)
    assert 0.01 < relative_deviation(gated, dense) < 2.0
    assert _logits(loaded).equal(dense)


@pytest.mark.parametrize("family", ["opt", "gemma3_text"])
def test_padding_and_dense_prefixes_count_alike_in_layers_that_flatten_their_tokens(family: str) -> None:
    loaded = tiny_loaded(family)
    mask = torch.ones(2, 24, dtype=torch.int64)
    mask[0, :8] = 0
    with attach(
        loaded, MethodSpec(name="teal"), SparsityPlan.uniform(loaded.view.layout, 0.5), dense_prefix=0.5
    ) as gates:
        loaded.model(tiny_tokens(), attention_mask=mask)
        # Eight of the first row's sixteen real tokens stay dense, and twelve of the second's 24.
        assert {record.value for record in gates.measured()} == {0.25}


def test_the_released_variant_scores_what_its_code_would() -> None:
    """Norms for k alone where there is no gate; those of the whole matrix where q, k, v are fused."""
    method = get_method(MethodSpec(name="wina", variant="as_released"))
    separate = scales_of(method, tiny_loaded("phi").view.layers[0])
    assert {name for name, scale in separate.items() if scale is not None} == {"k"}
    fused = scales_of(method, tiny_loaded("gpt_neox").view.layers[0])
    assert {name for name, scale in fused.items() if scale is not None} == {"q", "k", "v"}
    assert fused["q"] is fused["k"]
