"""A rotated model computes what it did; its Gram matrices are diagonal where that was requested."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from tests.wina_core.compute.gated import broken_model
from tests.wina_core.tiny import EXACT_MODES, FEW_KINDS, KINDS, tiny_loaded, tiny_tokens
from wina_core.compute.models.loading import LoadedModel
from wina_core.compute.models.logits import relative_deviation
from wina_core.compute.models.norms import norm_gain
from wina_core.compute.models.shortcuts import shortcuts
from wina_core.compute.models.text_tokens import read_tokens
from wina_core.compute.reporter import NullReporter
from wina_core.compute.rotation import rotate, shortcut_parameters
from wina_core.compute.rotation.bases import choose_bases
from wina_core.compute.rotation.divergence import GatedSite, refine_on_divergence
from wina_core.compute.rotation.matrices import save_matrices
from wina_core.compute.rotation.sites import measure_sites
from wina_core.compute.rotation.statistics import dense_moments, weight_gram
from wina_core.errors import WinaError
from wina_core.specs import AS_RELEASED_ROTATION, NO_ROTATION, ROTATION_MODES, RotationSpec, TextSpec

WEIGHTS = {"attention_basis": ("qkv",), "mlp_basis": ("gate_up",)}


def _spec(text: TextSpec, mode: str, per_head: bool = False, **fields: object) -> RotationSpec:
    return RotationSpec.model_validate({"mode": mode, "per_head": per_head, "text": text, **fields})


def _logits(loaded: LoadedModel) -> Tensor:
    return loaded.model(tiny_tokens()).logits


def _off_diagonal(matrix: Tensor) -> float:
    """Largest entry off the diagonal, relative to the largest on it."""
    return float((matrix - matrix.diag().diag()).abs().max() / matrix.diag().abs().max())


@pytest.mark.parametrize(
    ("family", "mode", "dtype", "limit", "tied"),
    [
        (family, mode, *case)
        for families, *case in ((KINDS, torch.float64, 1e-12, False), (FEW_KINDS, torch.float32, 1e-5, True))
        for family in families
        for mode in EXACT_MODES[family]
    ],
)
def test_every_rotation_keeps_the_logits(text, family, mode, tied, dtype, limit):
    loaded = tiny_loaded(family, tied=tied, dtype=dtype, layers=2)  # two have all that one layer hands to the next
    dense = _logits(loaded)
    report = rotate(loaded, _spec(text, mode, per_head=True), NullReporter())
    loaded.model.tie_weights()  # as lm-eval does when it wraps a model
    assert relative_deviation(_logits(loaded), dense) <= limit
    assert report.logits_deviation <= limit
    assert (loaded.view.head.weight is loaded.view.embedding.weight) == (tied and mode == "none")
    if mode != "none":
        assert norm_gain(loaded.view.layers[0].attention_norm).eq(1.0).all()
        assert norm_gain(loaded.view.final_norm).eq(1.0).all()


def test_the_deviation_reported_is_not_a_constant(text: TextSpec) -> None:
    loaded = tiny_loaded(dtype=torch.bfloat16)
    report = rotate(loaded, _spec(text, "global"), NullReporter())
    assert 1e-4 < report.logits_deviation < 0.5, "bfloat16 rounds each rotated weight"


def test_no_rotation_changes_nothing(text: TextSpec) -> None:
    loaded, untouched = tiny_loaded(tied=True), tiny_loaded(tied=True)
    report = rotate(loaded, NO_ROTATION.model_copy(update={"text": text}), NullReporter())
    assert all(a.equal(b) for a, b in zip(loaded.model.parameters(), untouched.model.parameters(), strict=True))
    assert loaded.view.head.weight is loaded.view.embedding.weight
    assert report.logits_deviation == 0.0
    assert loaded.model.config.tie_word_embeddings


# ---- orthogonality where it is promised ------------------------------------------------------------------------


def test_the_null_space_of_k_is_settled_by_all_that_reads_the_input(text: TextSpec) -> None:
    """Grouped queries leave k_proj 16 rows for 32 columns; the basis of the rest is that of the stacked q, k, v."""
    loaded = tiny_loaded(dtype=torch.float64)
    rotate(loaded, AS_RELEASED_ROTATION.model_copy(update={"text": text}), NullReporter())
    for layer in loaded.view.layers:
        assert layer.projections["k"].weight[:, 16:].abs().max() < 1e-12
        stacked = weight_gram(layer, ("q", "k", "v"), layer.attention_norm)[16:, 16:]
        assert _off_diagonal(stacked) < 1e-10
        assert (stacked.diag().diff() <= 0).all()


@pytest.mark.parametrize("family", ["qwen2", "phi3"])
def test_each_modes_sum_of_gram_matrices_becomes_diagonal(text: TextSpec, family: str) -> None:
    for mode in ("per_site", "per_layer", "global"):
        loaded = tiny_loaded(family, dtype=torch.float64)
        rotate(loaded, _spec(text, mode, **WEIGHTS), NullReporter())
        grams = [
            [gram / gram.trace() for gram in (weight_gram(layer, names, norm) for names, norm in sites)]
            for layer in loaded.view.layers
            for sites in [((("q", "k", "v"), layer.attention_norm), (("gate", "up"), layer.mlp_norm))]
        ]
        if mode == "per_site":
            assert max(_off_diagonal(gram) for layer in grams for gram in layer) < 1e-12
        elif mode == "per_layer":
            assert max(_off_diagonal(attention + mlp) for attention, mlp in grams) < 1e-12
            assert _off_diagonal(grams[0][0]) > 1e-3
        else:
            assert _off_diagonal(torch.stack([gram for layer in grams for gram in layer]).sum(0)) < 1e-12


def test_activation_bases_decorrelate_the_activations(text: TextSpec) -> None:
    loaded = tiny_loaded("qwen3", dtype=torch.float64)
    tokens = read_tokens(text, loaded.tokenizer)
    before = [moments.mlp for _, moments in dense_moments(loaded.view, tokens, NullReporter())]
    rotate(
        loaded, _spec(text, "per_site", attention_basis=("activations",), mlp_basis=("activations",)), NullReporter()
    )
    for dense, (_, rotated) in zip(before, dense_moments(loaded.view, tokens, NullReporter()), strict=True):
        assert _off_diagonal(rotated.attention) < 1e-12
        assert _off_diagonal(rotated.mlp) < 1e-12
        spectrum = torch.linalg.eigvalsh(dense).flip(0)
        torch.testing.assert_close(rotated.mlp.diag(), spectrum, rtol=0, atol=1e-10 * float(spectrum[0]))


@pytest.mark.parametrize("mode", ["per_layer", "global"])
@pytest.mark.parametrize("side", ["attention", "mlp"])
def test_a_basis_of_one_side_is_of_nothing_else(text: TextSpec, mode: str, side: str) -> None:
    loaded = tiny_loaded("qwen2", dtype=torch.float64)
    dense = _logits(loaded)
    bases = (
        {"attention_basis": ("qkv",), "mlp_basis": ()}
        if side == "attention"
        else {"attention_basis": (), "mlp_basis": ("gate_up",)}
    )
    rotate(loaded, _spec(text, mode, **bases), NullReporter())
    assert relative_deviation(_logits(loaded), dense) < 1e-12
    sites = {"attention": ("q", "k", "v"), "mlp": ("gate", "up")}
    totals = {}
    for name, read in sites.items():
        norms = [getattr(layer, f"{name}_norm") for layer in loaded.view.layers]
        grams = [weight_gram(layer, read, norm) for layer, norm in zip(loaded.view.layers, norms, strict=True)]
        grams = [gram / gram.trace() for gram in grams]
        totals[name] = grams if mode == "per_layer" else [sum(grams)]
    (other,) = {"attention", "mlp"} - {side}
    assert max(map(_off_diagonal, totals[side])) < 1e-12
    assert min(map(_off_diagonal, totals[other])) > 1e-3


def test_weights_and_activations_count_alike_in_a_basis_of_both(text: TextSpec) -> None:
    loaded = tiny_loaded(dtype=torch.float64)
    both = _spec(text, "per_site", attention_basis=("qkv", "activations"), mlp_basis=("gate_up", "activations"))
    rotate(loaded, both, NullReporter())
    all_moments = dense_moments(loaded.view, read_tokens(text, loaded.tokenizer), NullReporter())
    for layer, moments in all_moments:
        for names, norm, moment in (
            (("q", "k", "v"), layer.attention_norm, moments.attention),
            (("gate", "up"), layer.mlp_norm, moments.mlp),
        ):
            weights = weight_gram(layer, names, norm)
            assert _off_diagonal(weights / weights.trace() + moment / moment.trace()) < 1e-12
            assert _off_diagonal(moment) > 1e-6


@pytest.mark.parametrize("family", ["llama", "phi3"])
def test_head_rotation_makes_the_groups_columns_of_o_orthogonal(text: TextSpec, family: str) -> None:
    loaded = tiny_loaded(family, dtype=torch.float64)
    rotate(loaded, _spec(text, "none", per_head=True), NullReporter())
    for layer in loaded.view.layers:
        for group in layer.projections["o"].weight.split(16, dim=1):  # two query heads of eight columns
            first, second = group.split(8, dim=1)
            assert _off_diagonal(first.T @ first + second.T @ second) < 1e-12


# ---- shortcuts -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("mode", "count"), [("none", 0), ("global", 0), ("per_layer", 2), ("per_site", 5)])
def test_shortcuts_are_where_bases_change_and_counted(text: TextSpec, mode: str, count: int) -> None:
    loaded = tiny_loaded()
    report = rotate(loaded, _spec(text, mode, per_head=True), NullReporter())
    assert len(shortcuts(loaded.view)) == count
    assert report.shortcut_parameters == shortcut_parameters(loaded.model) == count * 32 * 32


@pytest.mark.parametrize("family", FEW_KINDS)
def test_generation_with_a_cache_gives_the_dense_tokens(text: TextSpec, family: str) -> None:
    options = {"max_new_tokens": 12, "do_sample": False, "use_cache": True, "output_hidden_states": True}
    options["return_dict_in_generate"] = True
    loaded = tiny_loaded(family)
    prompt = tiny_tokens(2, 9)
    expected = loaded.model.generate(prompt, **options)
    rotate(loaded, _spec(text, EXACT_MODES[family][-1], per_head=True), NullReporter())
    generated = loaded.model.generate(prompt, **options)
    assert generated.sequences.equal(expected.sequences)
    assert len(generated.hidden_states[0]) == len(expected.hidden_states[0]) == 4


def test_a_model_with_shortcuts_is_not_rotated_again(text: TextSpec) -> None:
    loaded = tiny_loaded()
    rotate(loaded, _spec(text, "per_layer"), NullReporter())
    with pytest.raises(WinaError, match="already has residual shortcuts from a rotation; open the original model"):
        rotate(loaded, _spec(text, "global"), NullReporter())


# ---- given matrices --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("family", "mode"), [*(("phi3", mode) for mode in ROTATION_MODES), ("gpt_neox", "global")])
def test_written_matrices_replay_the_rotation_to_the_last_bit(tmp_path, text, family, mode):
    path = tmp_path / "matrices.safetensors"
    first, second = tiny_loaded(family), tiny_loaded(family)
    bases: dict[str, Tensor] = {}
    rotate(first, _spec(text, mode, per_head=True), NullReporter(), into=bases)
    save_matrices(bases, path)
    rotate(second, _spec(text, mode, per_head=True, matrices=str(path)), NullReporter())
    assert all(a.equal(b) for a, b in zip(first.model.parameters(), second.model.parameters(), strict=True))
    assert first.model.state_dict().keys() == second.model.state_dict().keys()


@pytest.mark.parametrize(("dtype", "limit"), [(torch.float64, 1e-12), (torch.float32, 1e-9)])
def test_any_orthogonal_matrix_can_be_given(tmp_path, text, dtype, limit):
    """A matrix stored in float32 keeps a float64 rotation exact, too."""
    q, _ = torch.linalg.qr(torch.randn(32, 32, generator=torch.Generator().manual_seed(1), dtype=torch.float64))
    save_file({"stream": q.to(dtype).contiguous()}, tmp_path / "q.safetensors")
    loaded = tiny_loaded(dtype=torch.float64)
    dense, embedding = _logits(loaded), loaded.view.embedding.weight.clone()
    rotate(loaded, _spec(text, "global", matrices=str(tmp_path / "q.safetensors")), NullReporter())
    assert relative_deviation(_logits(loaded), dense) < limit
    torch.testing.assert_close(loaded.view.embedding.weight, embedding @ q, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "file of rotation matrices .* does not exist; check the path"),
        (b"not a safetensors file", "is damaged or was not copied to the end"),
        ({"other": torch.eye(32)}, 'no matrix "stream", which a global rotation needs; choose the mode'),
        ({"stream": torch.eye(16)}, r'"stream" in .* is \[16, 16\] where this model needs \[32, 32\]'),
        ({"stream": 1.1 * torch.eye(32)}, r'"stream" in .* is not orthogonal \(off by 2.1e-01, at most 1e-05'),
        ({"stream": torch.full((32, 32), torch.nan)}, 'matrix "stream" in .* is not orthogonal'),
    ],
)
def test_unfit_matrices_are_refused_before_the_model_is_touched(tmp_path, text, content, message):
    path = tmp_path / "matrices.safetensors"
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content is not None:
        save_file(content, path)
    loaded = tiny_loaded()
    dense = _logits(loaded)
    with pytest.raises(WinaError, match=message):
        rotate(loaded, _spec(text, "global", matrices=str(path)), NullReporter())
    assert _logits(loaded).equal(dense)


def test_a_refused_matrices_file_is_explained(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(WinaError, match=r"could not be written to .*; free some space or choose another folder"):
        save_matrices({"stream": torch.eye(2)}, tmp_path / "file" / "matrices.safetensors")


# ---- the course of a rotation ----------------------------------------------------------------------------------


# ---- models that compute NaN or infinities ------------------------------------------------------------------------


@pytest.mark.parametrize("rotation", [RotationSpec(mode="none"), RotationSpec(objective="kl", steps=1)])
def test_a_model_that_computes_no_numbers_is_not_rotated(rotation, text):
    loaded = broken_model(float("nan"))
    before = loaded.view.head.weight.clone()
    with pytest.raises(WinaError, match=r"The model's logits are not numbers; check its weights"):
        rotate(loaded, rotation.model_copy(update={"text": text}), NullReporter())
    assert loaded.view.head.weight.equal(before)
    assert loaded.rotation is None


def test_no_basis_is_found_where_only_the_text_leads_to_what_is_no_number(text):
    """The probe that a rotation is measured on is another text, which may go well."""
    loaded = broken_model(float("nan"), layer=0)
    tokens = read_tokens(text, loaded.tokenizer)
    with pytest.raises(WinaError, match="activations in layer 1 are not numbers"):
        list(choose_bases(loaded.view, RotationSpec(), tokens, NullReporter()))
    with pytest.raises(WinaError, match="logits are not numbers"):
        measure_sites(loaded.view, True, True, tokens, NullReporter())
    inputs = [
        GatedSite(site, 0) for site in measure_sites(tiny_loaded(layers=1).view, True, False, tokens, NullReporter())
    ]
    with pytest.raises(WinaError, match="gated model's logits are not numbers"):
        refine_on_divergence(loaded.view, [torch.eye(32)], inputs, tokens, 1, NullReporter())
