"""A measured rotation does what its spec says: its bases weigh what they should, and each objective is better at what
it is meant to lower, on tokens that it has not seen."""

import math
from collections import defaultdict

import pytest
import torch
from torch import Tensor

from tests.wina_core.compute.gated import gated_divergence
from tests.wina_core.compute.reporters import RecordingReporter
from tests.wina_core.tiny import tiny_loaded, tiny_tokens
from wina_core.compute.models.loading import LoadedModel
from wina_core.compute.reporter import NullReporter
from wina_core.compute.rotation.apply import LayerBases, apply_bases
from wina_core.compute.rotation.bases import choose_bases
from wina_core.compute.rotation.divergence import GatedDivergence, GatedSite, refine_on_divergence
from wina_core.compute.rotation.refine import SPARSITIES, gating_error
from wina_core.compute.rotation.sites import RotationSite, measure_sites
from wina_core.compute.rotation.statistics import preserve_mean_of_layers
from wina_core.specs import MethodSpec, RotationSpec
from wina_core.specs.plans import UniformSparsity

SHARED = MethodSpec(name="wina", masks="shared")
PLANS = [UniformSparsity(sparsity=sparsity) for sparsity in SPARSITIES]
SEEN, UNSEEN = (tiny_tokens(rows=64, length=16, seed=seed) % 8 for seed in (7, 8))
"""Of few words, so that little tells one text from another."""


def _model() -> LoadedModel:
    """Its residual branches are scaled down, so that the effects of gating many inputs nearly add up."""
    return tiny_loaded("granite", layers=2)


def _bases(loaded: LoadedModel, **spec: object) -> list[LayerBases]:
    return list(choose_bases(loaded.view, RotationSpec.model_validate(spec), SEEN, NullReporter()))


def _of_all_heads(heads: Tensor, size: int) -> Tensor:
    """Return the block-diagonal basis [size, size] of o's input: each key-value head's for every query head it
    serves."""
    groups = size // (heads.shape[0] * heads.shape[1])
    return torch.block_diag(*heads.repeat_interleave(groups, 0))


def _basis(bases: list[LayerBases], site: RotationSite) -> Tensor:
    basis = getattr(bases[site.layer], site.reader)
    return _of_all_heads(basis, len(site.gram)) if site.reader == "heads" else basis


@pytest.mark.parametrize("mode", ["global", "per_layer", "per_site"])
def test_a_basis_by_sensitivity_is_the_eigenbasis_of_what_its_sites_weigh_together(mode: str) -> None:
    """sum of F + tr(F) M / tr(M), with F a site's sensitivity and M the second moment of its inputs."""
    loaded = _model()
    sites = measure_sites(loaded.view, True, False, SEEN, NullReporter())
    bases = _bases(loaded, mode=mode, weighting="sensitivity")
    for basis in {id(basis): basis for layer in bases for basis in (layer.attention, layer.mlp)}.values():
        total = torch.zeros(32, 32, dtype=torch.float64)
        for site in (site for site in sites if _basis(bases, site) is basis):
            f, x = site.sensitivity.double(), site.inputs.double()
            total += f + f.trace() * (x.T @ x) / x.pow(2).sum()
        values = torch.linalg.eigvalsh(total).flip(0)
        torch.testing.assert_close(basis.T @ total @ basis, values.diag(), atol=1e-9 * float(values[0]), rtol=0)
    by_trace = _bases(loaded, mode=mode)
    assert all(a.heads.equal(b.heads) for a, b in zip(bases, by_trace, strict=True)), "no text chooses those of heads"


@pytest.mark.parametrize("mode", ["global", "per_site"])
def test_the_objective_error_lowers_the_error_of_gating_in_every_basis(mode: str) -> None:
    loaded = _model()
    sites = measure_sites(loaded.view, True, True, UNSEEN, NullReporter())

    def errors(objective: str) -> dict[str, float]:
        """Summed over the sites that share a basis."""
        bases = _bases(loaded, mode=mode, objective=objective, steps=60)
        totals: dict[str, float] = defaultdict(float)
        for site in sites:
            name = "stream" if mode == "global" and site.reader != "heads" else f"{site.layer} {site.reader}"
            basis = _basis(bases, site).float()
            for sparsity in SPARSITIES:
                totals[name] += float(gating_error(site.inputs, basis, site.gram, site.sensitivity, sparsity))
        return totals

    before, after = errors("eigen"), errors("error")
    assert len(before) == (3 if mode == "global" else 6)
    assert all(after[name] < 0.8 * before[name] for name in before)


def test_each_objective_lowers_the_divergence_of_the_gated_model_further() -> None:
    """By the mean over both sparsities of its logarithm, which is what the last one descends on."""

    def divergence(objective: str) -> float:
        rotated = _model()
        apply_bases(rotated.view, _bases(rotated, objective=objective, steps=60), NullReporter())
        return math.prod(gated_divergence(rotated, UNSEEN, SHARED, plan) for plan in PLANS) ** (1 / len(PLANS))

    eigen, error, kl = (divergence(objective) for objective in ("eigen", "error", "kl"))
    assert error < 0.7 * eigen
    assert kl < 0.97 * error


def _orthogonal(*shape: int, seed: int) -> Tensor:
    return torch.linalg.qr(torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).double())[0]


@pytest.mark.parametrize(
    ("family", "stream", "heads"),
    [
        ("llama", True, True),
        ("qwen3", True, False),
        ("gemma2", False, True),
        ("phi3", False, True),
        ("mixtral", True, True),
        *((family, True, False) for family in ("starcoder2", "stablelm", "gpt_neox", "opt")),
    ],
)
def test_the_divergence_that_is_lowered_is_that_of_the_rotated_model(family: str, stream: bool, heads: bool) -> None:
    """Every input is gated, each in its own basis or, where it has none, as it is; reported with three digits.

    Experts share one mask in it, so they have equal weights here.
    """
    loaded, rotated = tiny_loaded(family), tiny_loaded(family)
    for layer in (*loaded.view.layers, *rotated.view.layers):
        for expert in layer.experts[1:]:
            for name, projection in expert.projections.items():
                projection.weight.copy_(layer.experts[0].projections[name].weight)
    row = tiny_tokens(rows=1, length=64)
    sites = measure_sites(loaded.view, stream, heads, row, NullReporter())
    bases = [
        _orthogonal(2, 8, 8, seed=seed)
        if site.reader == "heads"
        else _orthogonal(32, 32, seed=site.layer if loaded.view.layers[0].parallel else seed)
        for seed, site in enumerate(sites)
    ]
    reporter = RecordingReporter()
    inputs = [GatedSite(site, index) for index, site in enumerate(sites)]
    refine_on_divergence(loaded.view, bases, inputs, row, 1, reporter)
    of_layer: list[dict[str, Tensor]] = [{} for _ in loaded.view.layers]
    for site, basis in zip(sites, bases, strict=True):
        of_layer[site.layer][site.reader] = basis
    applied = (LayerBases(**bases_of_layer) for bases_of_layer in of_layer)
    apply_bases(rotated.view, preserve_mean_of_layers(applied) if rotated.view.centred else applied, NullReporter())
    *_, kl = reporter.calls[0]
    assert kl.startswith("KL ")
    assert float(kl.removeprefix("KL ")) == pytest.approx(gated_divergence(rotated, row, SHARED, PLANS[0]), rel=6e-3)


@pytest.mark.parametrize(
    ("family", "stream"),
    [("llama", True), ("phi", True), ("qwen3_moe", True), ("granite", True), ("gemma2", False), ("opt", True)],
)
def test_the_gradients_of_the_divergence_are_the_same_a_layer_at_a_time(
    family: str, stream: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the rounding of float32, in which inputs are gated; one basis for all layers, and one for all heads."""
    view, rows = tiny_loaded(family).view, tiny_tokens(rows=2, length=32)
    sites = measure_sites(view, stream, True, rows, NullReporter())
    inputs = [GatedSite(site, int(site.reader == "heads")) for site in sites]
    heads = view.layers[0].projections["o"].shape[1] // 4

    def differentiated(graph: int) -> tuple[float, list[Tensor]]:
        monkeypatch.setattr("wina_core.model_info.cost.refinement._GATED_GRAPH", graph)
        bases = [_orthogonal(32, 32, seed=1), _orthogonal(view.kv_heads, heads, heads, seed=2)]
        bases = [basis.float().requires_grad_() for basis in bases]
        with torch.enable_grad():
            value = GatedDivergence(view, inputs, NullReporter()).differentiate(bases, rows, 0.5)
        return value, [basis.grad for basis in bases if basis.grad is not None]

    (value, whole), (same, by_layer) = differentiated(1 << 40), differentiated(0)
    assert same == value
    assert len(whole) == len(by_layer) == 1 + stream
    for a, b in zip(whole, by_layer, strict=True):
        assert torch.linalg.vector_norm(a - b) < 1e-5 * torch.linalg.vector_norm(a)
