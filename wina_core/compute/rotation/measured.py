"""Bases from measurements on a text: weighted by sensitivity, or refined on the error of gating."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from wina_core.compute.models.view import ModelView
from wina_core.compute.reporter import Reporter
from wina_core.compute.rotation.apply import LayerBases
from wina_core.compute.rotation.bases import canonical_basis, trace_normalized
from wina_core.compute.rotation.divergence import Place, turned_for_divergence
from wina_core.compute.rotation.refine import refined_basis
from wina_core.compute.rotation.search import Search
from wina_core.compute.rotation.sites import Site, measure_sites
from wina_core.model_info.cost.refinement import MEASURED_TOKENS
from wina_core.specs import RotationSpec


def plain_spec(spec: RotationSpec) -> RotationSpec:
    """Return the rotation by eigenvectors whose bases are the start of a measured one's."""
    replaced = {"attention_basis": ("qkv",), "mlp_basis": ("gate_up",)} if spec.weighting == "sensitivity" else {}
    return spec.model_copy(update={"weighting": "trace", "objective": "eigen", "noise_bits": 16, **replaced})


def sampled_rows(tokens: Tensor) -> Tensor:
    """Return rows of tokens [rows, sequence], spread evenly over all, up to about `MEASURED_TOKENS`."""
    return tokens[:: -(-tokens.numel() // MEASURED_TOKENS)]


def measured_bases(
    view: ModelView,
    spec: RotationSpec,
    plain: Sequence[LayerBases],
    tokens: Tensor,
    reporter: Reporter,
    search: Search,
) -> Iterator[LayerBases]:
    """Yield the bases layer by layer, made from those of `plain_spec`.

    `tokens` [rows, sequence] as in `measure_sites`. All is computed on the unrotated model before the first is yielded.
    """
    with_heads = spec.per_head and spec.objective != "eigen"
    sites = measure_sites(view, spec.mode != "none", with_heads, sampled_rows(tokens), reporter, search)
    groups = _groups(plain, sites)
    bases = [basis for basis, _ in groups]
    if spec.weighting == "sensitivity":
        bases = [basis if basis.ndim == 3 else _weighted_basis(group) for basis, group in groups]
    if spec.objective != "eigen":
        for index, (_, group) in enumerate(groups):
            bases[index] = refined_basis(
                bases[index], group, spec.steps, search, _label(group, spec), index, len(groups), spec.noise_bits
            )
    if spec.objective == "kl":
        places = [Place(site, index) for index, (_, group) in enumerate(groups) for site in group]
        bases = turned_for_divergence(view, bases, places, tokens, spec.steps, reporter, search)
    made = {id(old): new for (old, _), new in zip(groups, bases, strict=True)}
    for layer in plain:
        parts = (layer.attention, layer.mlp, layer.heads)
        yield LayerBases(*(None if part is None else made.get(id(part), part) for part in parts))


def _groups(bases: Sequence[LayerBases], sites: Sequence[Site]) -> list[tuple[Tensor, list[Site]]]:
    groups: dict[int, tuple[Tensor, list[Site]]] = {}
    for site in sites:
        layer = bases[site.layer]
        basis = {"attention": layer.attention, "mlp": layer.mlp, "heads": layer.heads}[site.reader]
        assert basis is not None  # sites are measured where there are bases
        groups.setdefault(id(basis), (basis, []))[1].append(site)
    return list(groups.values())


def _label(sites: Sequence[Site], spec: RotationSpec) -> str:
    """Return the label of the basis that these sites share (`RefinementStep.site`)."""
    first = sites[0]
    if first.reader == "heads" or spec.mode == "per_site":
        return f"layer {first.layer} {first.reader}"
    return "stream" if spec.mode == "global" else f"layer {first.layer}"


def _weighted_basis(sites: Sequence[Site]) -> Tensor:
    """Return eigenvectors of the sum of sensitivities and activation second moments, each weighted like its site's."""
    total = torch.zeros_like(sites[0].sensitivity, dtype=torch.float64)
    for site in sites:
        sensitivity, inputs = site.sensitivity.double(), site.inputs.double()
        total += sensitivity + sensitivity.trace() * trace_normalized(inputs.T @ inputs)
        site.give_back()
    return canonical_basis(total)
