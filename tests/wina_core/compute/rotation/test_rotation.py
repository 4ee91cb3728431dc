"""A rotated model computes what it did; its Gram matrices are diagonal where that was requested."""

import errno
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import AutoModelForCausalLM

from tests.wina_core.compute.gated import broken_model
from tests.wina_core.tiny import EXACT_MODES, FEW_KINDS, KINDS, tiny_loaded, tiny_text, tiny_tokens
from wina_core.compute.models.loading import LoadedModel, load_model
from wina_core.compute.models.logits import relative_deviation
from wina_core.compute.models.norms import norm_gain
from wina_core.compute.models.shortcuts import shortcuts
from wina_core.compute.models.text_tokens import read_tokens
from wina_core.compute.reporter import NullReporter
from wina_core.compute.rotation import rotate, save_rotated, shortcut_parameters
from wina_core.compute.rotation.bases import choose_bases
from wina_core.compute.rotation.divergence import GatedSite, refine_on_divergence
from wina_core.compute.rotation.matrices import save_matrices
from wina_core.compute.rotation.sites import measure_sites
from wina_core.compute.rotation.statistics import dense_moments, weight_gram
from wina_core.errors import WinaError
from wina_core.specs import AS_RELEASED_ROTATION, NO_ROTATION, ROTATION_MODES, ModelSource, RotationSpec, TextSpec

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


@pytest.mark.parametrize("side", ["attention", "mlp"])
def test_a_basis_of_one_side_is_of_nothing_else(text: TextSpec, side: str) -> None:
    loaded = tiny_loaded("qwen2", dtype=torch.float64)
    bases = {name: names if name.startswith(side) else () for name, names in WEIGHTS.items()}
    rotate(loaded, _spec(text, "per_layer", **bases), NullReporter())
    for layer in loaded.view.layers:
        attention = weight_gram(layer, ("q", "k", "v"), layer.attention_norm)
        mlp = weight_gram(layer, ("gate", "up"), layer.mlp_norm)
        of_side, other = (attention, mlp) if side == "attention" else (mlp, attention)
        assert _off_diagonal(of_side) < 1e-12
        assert _off_diagonal(other) > 1e-3


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


# ---- exported rotated models -----------------------------------------------------------------------------------------


def _rotated(folder: Path, mode: str, family: str = "llama", dtype: torch.dtype = torch.float32) -> LoadedModel:
    loaded = tiny_loaded(family, tied=True, dtype=dtype)
    text = TextSpec(source=tiny_text(folder), tokens=256, sequence=64)
    rotate(loaded, RotationSpec.model_validate({"mode": mode, "text": text}), NullReporter())
    return loaded


def _load(folder: Path) -> LoadedModel:
    return load_model(ModelSource(location=str(folder)), NullReporter())


@pytest.mark.parametrize(
    ("family", "mode"), [("llama", "global"), *((kind, EXACT_MODES[kind][-1]) for kind in FEW_KINDS)]
)
def test_an_exported_model_comes_back_as_it_was(tmp_path: Path, mode: str, family: str) -> None:
    rotated = _rotated(tmp_path, mode, family)
    save_rotated(rotated, tmp_path / "exported")
    loaded = _load(tmp_path / "exported")
    assert loaded.model(tiny_tokens()).logits.equal(rotated.model(tiny_tokens()).logits)
    assert shortcut_parameters(loaded.model) == shortcut_parameters(rotated.model)
    assert (loaded.rotation, loaded.rotation_report) == (rotated.rotation, rotated.rotation_report)
    assert loaded.tokenizer("same").input_ids == rotated.tokenizer("same").input_ids
    save_rotated(loaded, tmp_path / "again")
    assert {path.name for path in (tmp_path / "again").iterdir()} == {
        path.name for path in (tmp_path / "exported").iterdir()
    }


@pytest.mark.parametrize("family", [family for family in FEW_KINDS if "global" in EXACT_MODES[family]])
def test_any_loader_gets_a_globally_rotated_model(tmp_path, family):
    dense = tiny_loaded(family, tied=True).model(tiny_tokens()).logits
    save_rotated(_rotated(tmp_path, "global", family), tmp_path / "exported")
    stock, info = AutoModelForCausalLM.from_pretrained(tmp_path / "exported", output_loading_info=True)
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    assert relative_deviation(stock(tiny_tokens()).logits.detach(), dense) < 1e-5
    assert not (tmp_path / "exported" / "README.md").exists()


def test_a_folder_with_shortcuts_warns_other_loaders(tmp_path: Path) -> None:
    save_rotated(_rotated(tmp_path, "per_site"), tmp_path / "exported")
    assert "Other loaders ignore them" in (tmp_path / "exported" / "README.md").read_text()
    _, info = AutoModelForCausalLM.from_pretrained(tmp_path / "exported", output_loading_info=True)
    assert not info["unexpected_keys"]


# ---- what is refused -------------------------------------------------------------------------------------------


def test_only_a_rotated_model_is_exported(tmp_path: Path) -> None:
    with pytest.raises(WinaError, match="has not been rotated; rotate it before exporting it"):
        save_rotated(tiny_loaded(), tmp_path / "exported")


def test_a_folder_in_use_is_left_alone(tmp_path: Path) -> None:
    rotated = _rotated(tmp_path, "global")
    with pytest.raises(WinaError, match="already exists and is not an empty folder; choose another name"):
        save_rotated(rotated, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["text.txt"]


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_args: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    rotated = _rotated(tmp_path, "per_site")
    monkeypatch.setattr("wina_core.compute.rotation.transform.save_file", fail)
    with pytest.raises(WinaError, match=r"could not be written to .* \(.*No space left.*\); free some space or choose"):
        save_rotated(rotated, tmp_path / "exported")
    assert [path.name for path in tmp_path.iterdir()] == ["text.txt"]


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exported")
    save_rotated(_rotated(folder, "per_layer"), folder / "exported")
    return folder / "exported"


def _in_rotation(folder: Path, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    path = folder / "wina_rotation.json"
    path.write_text(json.dumps(change(json.loads(path.read_text()))))


def _in_shortcut(folder: Path, change: Callable[[torch.Tensor], torch.Tensor]) -> None:
    path = folder / "wina_shortcuts.safetensors"
    matrices = load_file(path)
    name = min(matrices)
    save_file(matrices | {name: change(matrices[name])}, path)


NEWER = r"damaged or was written by a newer version \(.+\); update the program or export"


@pytest.mark.parametrize(
    ("damage", "change", "reason"),
    [
        (None, "wina_shortcuts.safetensors", "lacks wina_shortcuts.safetensors, without which its model is wrong"),
        (None, "wina_rotation.json", "lacks wina_rotation.json, which its wina_shortcuts.safetensors needs"),
        (_in_rotation, lambda content: content | {"format_version": 2}, NEWER),
        (_in_rotation, lambda content: content | {"rotation": None}, NEWER),
        (_in_rotation, lambda content: content | {"from_the_future": 1}, NEWER),
        (
            _in_rotation,
            lambda content: content | {"shortcuts": [*content["shortcuts"], "layers.9.mlp"]},
            "disagree on layers.9.mlp; export the rotated model again",
        ),
        (_in_shortcut, lambda matrix: matrix.to(torch.int32), "is I32; export the rotated model again"),
        (_in_shortcut, lambda matrix: matrix.index_fill(0, torch.tensor([3]), torch.nan), "no finite numbers"),
        (_in_shortcut, lambda matrix: matrix[:5].contiguous(), "does not fit this model"),
    ],
)
def test_a_damaged_export_is_refused(tmp_path: Path, exported: Path, damage: Any, change: Any, reason: str) -> None:
    folder = tmp_path / "exported"
    shutil.copytree(exported, folder)
    if damage is None:
        (folder / change).unlink()
    else:
        damage(folder, change)
    with pytest.raises(WinaError, match=reason):
        _load(folder)


def test_an_export_has_the_permissions_of_the_umask(tmp_path: Path, exported: Path) -> None:
    (tmp_path / "usual").touch()
    modes = {file.stat().st_mode for file in exported.iterdir()}
    assert modes == {(tmp_path / "usual").stat().st_mode}
