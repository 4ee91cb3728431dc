"""Rotations compared without rotating weights, and the energy spectra that explain the result."""

import pytest
import torch
from transformers import GenerationConfig

from tests.wina_core.compute.gated import gated_divergence
from tests.wina_core.tiny import tiny_loaded, tiny_model, tiny_tokenizer, tiny_tokens
from wina_core.compute.models.architectures import view
from wina_core.compute.models.loading import LoadedModel
from wina_core.compute.reporter import NullReporter
from wina_core.compute.rotation import rotate
from wina_core.compute.rotation.apply import LayerBases
from wina_core.compute.rotation.bases import choose_bases
from wina_core.compute.rotation.comparison import ComparedRotation, best_candidate, compare_rotations
from wina_core.compute.session.auto_rotation import energy_spectra, site_spectrum, write_own_text
from wina_core.errors import WinaError
from wina_core.records import RotationCandidate
from wina_core.specs import NO_ROTATION, MethodSpec, ModelSource, RotationSpec, TextSpec
from wina_core.specs.plans import UniformSparsity

SHARED = MethodSpec(name="wina", masks="shared")
READ, ROWS = tiny_tokens(rows=8, length=16, seed=7), tiny_tokens(rows=6, length=16, seed=8)
WEIGHTS = RotationSpec(attention_basis=("qkv",), mlp_basis=("gate_up",))
HEADS = RotationSpec(mode="none")
PER_SITE = RotationSpec(mode="per_site")
HALF = UniformSparsity(sparsity=0.5)


def _bases(loaded: LoadedModel, rotation: RotationSpec) -> list[LayerBases]:
    return list(choose_bases(loaded.view, rotation, READ, NullReporter()))


@pytest.mark.parametrize(
    ("family", "settings", "rotations"),
    [
        ("llama", {}, (HEADS, WEIGHTS, PER_SITE)),
        ("starcoder2", {}, (WEIGHTS,)),
        ("phi", {}, (WEIGHTS,)),
        ("gemma2", {}, (HEADS,)),
        *((family, {}, (WEIGHTS,)) for family in ("qwen3_moe", "gpt_oss")),
        *(pytest.param(family, {}, (WEIGHTS,), marks=pytest.mark.nightly) for family in ("solar_open", "qwen2_moe")),
        ("mixtral", {}, (WEIGHTS, PER_SITE)),
        # their LayerNorm has a bias, and its readers have none, or only some
        ("stablelm", {}, (WEIGHTS, PER_SITE)),
        ("stablelm", {"use_parallel_residual": True}, (WEIGHTS,)),
    ],
)
def test_a_compared_rotation_has_the_divergence_of_the_rotated_and_gated_model(family, settings, rotations):
    loaded = tiny_loaded(family, dtype=torch.float64, **settings)
    bases = [_bases(loaded, rotation) for rotation in rotations]
    candidates = [ComparedRotation(*candidate) for candidate in zip(rotations, bases, strict=True)]
    plain = ComparedRotation(NO_ROTATION, [LayerBases()] * len(loaded.view.layers))
    before = {name: tensor.clone() for name, tensor in loaded.model.state_dict().items()}
    none, *compared_rotations = compare_rotations(loaded.view, [plain, *candidates], ROWS, 0.5, NullReporter())
    assert all(tensor.equal(before[name]) for name, tensor in loaded.model.state_dict().items())
    assert none.kl == pytest.approx(gated_divergence(loaded, ROWS, SHARED, HALF), rel=1e-4)
    assert (none.change, none.change_stderr) == (0, 0)
    for rotation, basis, compared in zip(rotations, bases, compared_rotations, strict=True):
        rotated = tiny_loaded(family, dtype=torch.float64, **settings)
        rotate(rotated, rotation.model_copy(update={"text": TextSpec(tokens=64)}), NullReporter(), bases=iter(basis))
        assert compared.kl == pytest.approx(gated_divergence(rotated, ROWS, SHARED, HALF), rel=1e-4)
        differences = [one - other for one, other in zip(compared.rows, none.rows, strict=True)]
        assert compared.change == pytest.approx(sum(differences) / 6)
        assert compared.change_stderr == pytest.approx(float(torch.tensor(differences).double().std()) / 6**0.5)


def test_the_divergence_is_that_of_the_scored_positions():
    model = tiny_model(dtype=torch.float64)
    loaded = LoadedModel(ModelSource(location="with-bos"), model, tiny_tokenizer(bos=True), view(model))
    heads = ComparedRotation(HEADS, _bases(loaded, HEADS))
    (compared,) = compare_rotations(loaded.view, [heads], ROWS, 0.5, NullReporter())
    rotate(loaded, HEADS, NullReporter(), bases=iter(heads.bases))
    assert loaded.view.first_scored == 1
    assert compared.kl == pytest.approx(gated_divergence(loaded, ROWS, SHARED, HALF), rel=1e-4)


NONE = (1.0, 1.1, 0.9, 1.05, 0.95, 1.0, 1.02, 0.98)
STEADY = tuple(value - 0.2 for value in NONE)
NOISY = (0.0, 0.1, 0.0, 1.35, 1.25, 1.2, 1.32, 1.13)
"""Lower in the mean than STEADY, but by less than its error from NONE."""


def _compared(rows: tuple[float, ...], without: tuple[float, ...]) -> RotationCandidate:
    differences = torch.tensor([one - other for one, other in zip(rows, without, strict=True)]).double()
    return RotationCandidate(
        rotation=NO_ROTATION,
        kl=sum(rows) / len(rows),
        stderr=0.1,
        change=float(differences.mean()),
        change_stderr=float(differences.std()) / len(rows) ** 0.5,
        seconds=0.0,
        rows=rows,
    )


@pytest.mark.parametrize(
    ("rows", "best"),
    [
        ((NONE, STEADY), 1),
        ((NONE, tuple(value + 0.2 for value in NONE)), 0),
        ((NONE, NONE), 0),
        ((NONE, NOISY), 0),  # lower in the mean, but not beyond the error
        ((NONE, STEADY, NOISY), 1),
        ((NONE, NOISY, STEADY), 2),
        ((NONE, STEADY, tuple(value - 0.1 for value in STEADY)), 2),
        ((NONE, STEADY, (0.7, *STEADY[1:])), 1),  # the simpler of two alike
    ],
)
def test_the_best_is_the_simplest_of_those_better_beyond_the_error_and_alike(rows, best):
    assert best_candidate([_compared(candidate_rows, NONE) for candidate_rows in rows]) == best


def test_a_candidate_that_is_worse_on_the_models_own_text_is_left_out():
    none, lower, lowest = (_compared(tuple(value - by for value in NONE), NONE) for by in (0, 0.3, 0.5))
    assert best_candidate([none, lower, lowest]) == 2
    harmful = lowest.model_copy(update={"own_rows": (1.3,) * 6, "own_change": 0.3, "own_change_stderr": 0.1})
    assert harmful.harms
    assert best_candidate([none, lower, harmful]) == 1
    unclear = lowest.model_copy(update={"own_rows": (1.3,) * 6, "own_change": 0.3, "own_change_stderr": 0.4})
    assert best_candidate([none, lower, unclear]) == 2


def test_sampled_text_heeds_no_generation_settings_of_the_model():
    loaded = tiny_loaded()
    plain = write_own_text(loaded, 3, 20)
    settings = GenerationConfig(num_return_sequences=2, max_time=1e-4, no_repeat_ngram_size=1, num_beams=2)
    loaded.model.generation_config = settings
    assert torch.equal(write_own_text(loaded, 3, 20), plain)
    assert loaded.model.generation_config is settings


def test_sampled_rows_begin_with_bos_only_if_the_tokenizer_begins_texts_with_it():
    loaded = tiny_loaded()
    loaded.tokenizer = tiny_tokenizer(bos=True)
    with_bos = write_own_text(loaded, 3, 20)
    assert with_bos[:, 0].tolist() == [256] * 3
    loaded.tokenizer = tiny_tokenizer()
    loaded.tokenizer.bos_token = "<|end|>"
    prompted = write_own_text(loaded, 3, 20)
    assert torch.equal(prompted[:, :-1], with_bos[:, 1:])  # the same text, whose prompt is no part of it


def test_a_model_without_numbers_samples_no_text():
    loaded = tiny_loaded()
    with torch.no_grad():
        loaded.model.lm_head.weight[3] = torch.nan
    with pytest.raises(WinaError, match="logits are not numbers"):
        write_own_text(loaded, 3, 20)


def test_the_models_own_text_is_measured_beside_the_given_one():
    loaded = tiny_loaded()
    sampled = write_own_text(loaded, 7, ROWS.shape[1])
    assert (sampled.shape, sampled.dtype) == ((7, ROWS.shape[1]), torch.int64)
    assert torch.equal(sampled, write_own_text(loaded, 7, ROWS.shape[1]))
    assert len(sampled.unique()) > 10
    plain = ComparedRotation(NO_ROTATION, [LayerBases()] * len(loaded.view.layers))
    heads = ComparedRotation(HEADS, _bases(loaded, HEADS))
    both = compare_rotations(loaded.view, [plain, heads], ROWS, 0.5, NullReporter(), sampled)
    alone = compare_rotations(loaded.view, [plain, heads], ROWS, 0.5, NullReporter())
    sampled_alone = compare_rotations(loaded.view, [plain, heads], sampled, 0.5, NullReporter())
    for compared, text, written in zip(both, alone, sampled_alone, strict=True):
        assert compared.rows == pytest.approx(text.rows)
        assert compared.own_rows == pytest.approx(written.rows)
        assert compared.own_change == pytest.approx(written.change)
        assert compared.own_change_stderr == pytest.approx(written.change_stderr)


def test_changed_second_moments_give_the_bases_that_they_name():
    loaded = tiny_loaded()
    activations = {"attention_basis": ("activations",), "mlp_basis": ("activations",), "per_head": False}
    plain, log, dropped = (
        _bases(loaded, RotationSpec.model_validate({**activations, **changes}))[0].attention
        for changes in ({}, {"spectrum": "log"}, {"drop_directions": 1})
    )
    for basis in (log, dropped):
        torch.testing.assert_close(basis.T @ basis, torch.eye(32, dtype=torch.float64))
        assert not torch.allclose(plain.abs(), basis.abs(), atol=1e-3)


def test_a_spectrum_counts_the_directions_that_hold_half_and_most_of_the_energy():
    basis = torch.linalg.qr(torch.randn(10, 10, generator=torch.Generator().manual_seed(0)).double()).Q
    energies = torch.tensor([60.0, 20.0, 11.0, 3, 2, 1, 1, 1, 0.5, 0.5], dtype=torch.float64)
    spectrum = site_spectrum(3, "mlp", (basis * energies) @ basis.T)
    assert (spectrum.layer, spectrum.site, spectrum.size) == (3, "mlp", 10)
    assert (spectrum.half, spectrum.ninety, spectrum.beyond_first) == (1, 3, 5)
    assert spectrum.first == pytest.approx(0.6)
    assert spectrum.cumulative[-1] == pytest.approx(1)


def test_spectra_are_those_of_each_input_of_each_layer():
    loaded = tiny_loaded()
    seen: list[torch.Tensor] = []
    down = loaded.view.layers[1].projections["down"].linear
    hook = down.register_forward_pre_hook(lambda _, args: seen.append(args[0].flatten(0, 1)))
    with torch.no_grad():
        loaded.model(READ)
    hook.remove()
    spectra = {
        (spectrum.layer, spectrum.site): spectrum for spectrum in energy_spectra(loaded.view, READ, NullReporter())
    }
    assert set(spectra) == {(layer, site) for layer in range(3) for site in ("attention", "mlp", "o", "down")}
    energies = torch.linalg.svdvals(torch.cat(seen).double()).square()
    shares = energies.cumsum(0) / energies.sum()
    spectrum = spectra[1, "down"]
    for count, share in zip(spectrum.directions, spectrum.cumulative, strict=True):
        assert share == pytest.approx(float(shares[count - 1]), abs=1e-4)
