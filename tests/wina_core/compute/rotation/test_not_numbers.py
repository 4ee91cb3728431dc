"""Models that compute NaN or infinities are refused in one sentence, and nothing that was found on them is kept."""

import pytest
import torch

from tests.wina_core.tiny import tiny_loaded, tiny_text, tiny_tokens
from wina_core.compute.allocation.cells import AllocationSubject, cells_of
from wina_core.compute.allocation.greedy import LayerErrors
from wina_core.compute.models.loading import LoadedModel
from wina_core.compute.models.text_tokens import read_tokens
from wina_core.compute.reporter import NullReporter
from wina_core.compute.rotation import rotate
from wina_core.compute.rotation.bases import choose_bases
from wina_core.compute.rotation.divergence import GatedSite, refine_on_divergence
from wina_core.compute.rotation.sites import measure_sites
from wina_core.compute.session.model_session import Session
from wina_core.errors import WinaError
from wina_core.specs import (
    NO_ROTATION,
    ROTATION_MODES,
    AllocatedSparsity,
    AllocatorSpec,
    MethodSpec,
    RotationSpec,
    TextSpec,
)

WINA = MethodSpec(name="wina")


@pytest.fixture
def text(tmp_path):
    return TextSpec(source=tiny_text(tmp_path), tokens=128, sequence=32)


def broken(value: float, layer: int = 1) -> LoadedModel:
    """A tiny model with one weight that is no number."""
    loaded = tiny_loaded(layers=2)
    loaded.view.layers[layer].projections["gate"].weight[0, 0] = value
    return loaded


@pytest.mark.parametrize("name", ["greedy", "curves", "evolution"])
def test_no_budget_is_spread_by_what_is_no_number(name, text, tmp_path, monkeypatch):
    monkeypatch.setenv("WINA_HOME", str(tmp_path / "home"))
    plan = AllocatedSparsity(sparsity=0.3, allocator=AllocatorSpec(name=name, text=text))
    with pytest.raises(WinaError, match=r"The model's logits are not numbers; check its weights"):
        Session().allocation(broken(float("inf")), NO_ROTATION, WINA, plan, None, NullReporter())
    assert not [file for file in (tmp_path / "home").rglob("*") if file.is_file()]


def test_errors_of_a_layer_are_numbers():
    loaded = broken(float("nan"))
    with pytest.raises(WinaError, match=r"activations in layer 1 are not numbers; check its weights"):
        LayerErrors(AllocationSubject(loaded, WINA), cells_of(loaded.view.layout, WINA).in_layer(1), 1, tiny_tokens())
    loaded = tiny_loaded(layers=1)
    errors = LayerErrors(AllocationSubject(loaded, WINA), cells_of(loaded.view.layout, WINA), 0, tiny_tokens())
    loaded.view.layers[0].projections["up"].linear.bias[0] = float("nan")
    with pytest.raises(WinaError, match="gated model's activations in layer 0 are not numbers; choose less sparsity"):
        errors((0.5,) * 7)


# ---- rotations ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "rotation",
    [
        *(RotationSpec(mode=mode) for mode in ROTATION_MODES),
        RotationSpec(weighting="sensitivity"),
        RotationSpec(objective="error", steps=1),
        RotationSpec(objective="kl", steps=1),
    ],
    ids=lambda value: value.label,
)
def test_such_a_model_is_not_rotated(rotation, text):
    loaded = broken(float("nan"))
    before = loaded.view.head.weight.clone()
    with pytest.raises(WinaError, match=r"The model's logits are not numbers; check its weights"):
        rotate(loaded, rotation.model_copy(update={"text": text}), NullReporter())
    assert loaded.view.head.weight.equal(before)
    assert loaded.rotation is None


def test_no_basis_is_found_where_only_the_text_leads_to_what_is_no_number(text):
    """The probe that a rotation is measured on is another text, which may go well."""
    loaded = broken(float("nan"), layer=0)
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
