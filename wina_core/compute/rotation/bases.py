"""The bases of a RotationSpec, computed from the model and, if needed, a text."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial, reduce
from itertools import repeat

import torch
from torch import Tensor, nn

from wina_core.compute.models.finite import check_numbers
from wina_core.compute.models.view import LayerView, ModelView, is_fused
from wina_core.compute.reporter import Reporter
from wina_core.compute.rotation.apply import LayerBases
from wina_core.compute.rotation.descent import Search
from wina_core.compute.rotation.divergence import GatedSite, refine_on_divergence
from wina_core.compute.rotation.matrices import canonical_basis, trace_normalized
from wina_core.compute.rotation.refine import refined_basis
from wina_core.compute.rotation.sites import RotationSite, measure_sites
from wina_core.compute.rotation.statistics import Moments, dense_moments, head_grams, weight_gram
from wina_core.model_info.cost.refinement import MEASURED_TOKENS
from wina_core.specs import RotationSpec

_QKV, _GATE_UP = ("q", "k", "v"), ("gate", "up")
_PROJECTIONS = {"k": ("k",), "qkv": _QKV, "gate": ("gate",), "gate_up": _GATE_UP}
"""{basis name: projections whose Gram matrices it sums}."""
_WHOLE = {"k": _QKV, "gate": _GATE_UP}
"""The same if these are rows of one matrix."""
_LOG_FLOOR = 1e-3
"""Energy, as a share of the mean of all directions, below which directions count alike in the logarithm."""
_Site = Callable[[LayerView, RotationSpec, Moments | None], Tensor | None]
"""The Gram matrix of a spec's basis at one site of a layer, float64 [d, d], or None if the spec names nothing there."""
_EVERYTHING = RotationSpec(attention_basis=("qkv",), mlp_basis=("gate_up",))
"""All readers of the stream; they decide among eigenvectors that the spec's matrices leave open."""


def choose_bases(
    view: ModelView,
    spec: RotationSpec,
    tokens: Tensor | None,
    reporter: Reporter,
    search: Search | None = None,
) -> Iterator[LayerBases]:
    """Yield the bases layer by layer; `tokens` [rows, sequence] is required if `spec.reads_text` (ValueError).

    `global` reads every layer of the dense model before the first basis. Other modes read a layer when its bases are
    taken, so the layers before it may be rotated by then. Measurements on gradients (`measured`) all precede the first
    basis. `search` keeps what is found, and what was found before is not computed again.
    """
    search = search or Search()
    if tokens is None and (spec.reads_text or spec.is_measured):
        raise ValueError(f"the bases {spec.label} are measured on a text, but no tokens were given")
    if spec.is_measured and tokens is not None:
        # All at once, before the caller rotates the first layer: measurements need the unrotated model.
        plain = list(choose_bases(view, plain_spec(spec), sampled_rows(tokens), reporter, search))
        yield from measured_bases(view, spec, plain, tokens, reporter, search)
        return
    if spec.mode == "global":
        read = tokens if spec.reads_text else None
        yield from eigenvector_bases(view, [spec], read, reporter, search)[0]
        return
    layers: Iterable[tuple[LayerView, Moments | None]] = zip(view.layers, repeat(None), strict=False)
    if spec.reads_text and tokens is not None:
        count = 1 if spec.mode == "per_layer" else 2
        if any(_stored_eigenvectors(search, layer.index, layer, count) is None for layer in view.layers):
            layers = dense_moments(view, tokens, reporter)
    for layer, moment in layers:
        heads = _head_bases(view, layer) if spec.per_head else None
        if spec.mode == "none":
            yield LayerBases(heads=heads)
        elif spec.mode == "per_layer":
            (basis,) = _eigenvectors(
                search, layer.index, layer, [partial(_basis, layer, spec, moment, _attention, _mlp)]
            )
            yield LayerBases(basis, basis, heads)
        else:
            makers = [partial(_basis, layer, spec, moment, site) for site in (_attention, _mlp)]
            attention, mlp = _eigenvectors(search, layer.index, layer, makers)
            yield LayerBases(attention, mlp, heads)


def _eigenvectors(
    search: Search, index: int | None, layer: LayerView, makers: Sequence[Callable[[], Tensor]]
) -> list[Tensor]:
    """Return the bases of layer `index`, None for all layers, on the device of `layer`: those that an interrupted
    search stored, or else those that the `makers` compute."""
    if (stored := _stored_eigenvectors(search, index, layer, len(makers))) is not None:
        device = layer.projections["o"].linear.weight.device
        return [basis.to(device) for basis in stored]
    computed = [make() for make in makers]
    search.write(_stage_name(index), {str(number): basis for number, basis in enumerate(computed)})
    return computed


def _stage_name(index: int | None) -> str:
    return "eigenvectors" if index is None else f"eigenvectors {index}"


def _stored_eigenvectors(search: Search, index: int | None, layer: LayerView, count: int) -> list[Tensor] | None:
    if (stage := search.read(_stage_name(index))) is None:
        return None
    stored = [stage.tensors[name] for name in map(str, range(count)) if name in stage.tensors]
    size = layer.projections["o"].weight.shape[0]
    if len(stored) == count and all(basis.shape == (size, size) for basis in stored):
        return stored
    search.reject(_stage_name(index))
    return None


def reads_fused_matrix(view: ModelView, spec: RotationSpec) -> bool:
    """Return whether a basis named k or gate is computed from the whole fused matrix of this model."""
    named = {name for name in (*spec.attention_basis, *spec.mlp_basis) if name in _WHOLE}
    return any(is_fused(view.layers[0], _WHOLE[name]) for name in named)


def _basis(layer: LayerView, spec: RotationSpec, moment: Moments | None, *sites: _Site) -> Tensor:
    return canonical_basis(
        _summed(gram for site in sites if (gram := site(layer, spec, moment)) is not None),
        lambda: _everything([layer], sites),
    )


def stream_bases(
    view: ModelView, specs: Sequence[RotationSpec], tokens: Tensor | None, reporter: Reporter, search: Search
) -> list[Tensor]:
    """Return the basis of the stream of each of several global rotations by eigenvectors, [d, d] float64, from the
    moments on `tokens` if any, which pass the model once."""

    @cache  # one pass for all bases, and none if they are stored
    def totals() -> Tensor:
        sums = torch.zeros(len(specs), view.hidden_size, view.hidden_size, dtype=torch.float64)
        sums = sums.to(view.layers[0].projections["o"].linear.weight.device)
        layers: Iterable[tuple[LayerView, Moments | None]] = zip(view.layers, repeat(None), strict=False)
        if tokens is not None:
            layers = dense_moments(view, tokens, reporter)
        reporter.stage("moments of inputs")
        for layer, moment in layers:
            for total, spec in zip(sums, specs, strict=True):
                for site in (_attention, _mlp):
                    if (gram := site(layer, spec, moment)) is not None:
                        total.add_(gram.to(total.device))
            reporter.progress(layer.index + 1, len(view.layers), "layers")
            reporter.check()
        return sums

    def basis(index: int) -> Tensor:
        return canonical_basis(totals()[index], lambda: _everything(view.layers, (_attention, _mlp)))

    return _eigenvectors(search, None, view.layers[0], [partial(basis, index) for index in range(len(specs))])


def eigenvector_bases(
    view: ModelView, specs: Sequence[RotationSpec], tokens: Tensor | None, reporter: Reporter, search: Search
) -> list[list[LayerBases]]:
    """Return the bases of each layer of several rotations by eigenvectors, of modes none and global, which share one
    pass over `tokens` [rows, sequence]."""
    turned = [spec for spec in specs if spec.mode == "global"]
    streams = iter(stream_bases(view, turned, tokens, reporter, search) if turned else ())
    heads = [_head_bases(view, layer) if any(spec.per_head for spec in specs) else None for layer in view.layers]
    rotations = []
    for spec in specs:
        stream = next(streams) if spec.mode == "global" else None
        rotations.append([LayerBases(stream, stream, head if spec.per_head else None) for head in heads])
    return rotations


def _attention(layer: LayerView, spec: RotationSpec, moment: Moments | None) -> Tensor | None:
    return _gram(layer, spec, spec.attention_basis, layer.attention_norm, moment.attention if moment else None)


def _mlp(layer: LayerView, spec: RotationSpec, moment: Moments | None) -> Tensor | None:
    return _gram(layer, spec, spec.mlp_basis, layer.mlp_norm, moment.mlp if moment else None)


def _gram(
    layer: LayerView, spec: RotationSpec, names: tuple[str, ...], norm: nn.Module, moment: Tensor | None
) -> Tensor | None:
    """Sum the named Gram matrices, each divided by its trace to weigh alike; None if nothing is named."""
    if not names:
        return None
    if moment is not None:
        check_numbers(moment, f"activations in layer {layer.index}")

    def grams() -> Iterator[Tensor]:
        for name in names:
            if name != "activations":
                yield trace_normalized(weight_gram(layer, _read(layer, name), norm))
            elif moment is not None:
                yield _shaped(moment, spec)

    return _summed(grams())


def _shaped(moment: Tensor, spec: RotationSpec) -> Tensor:
    """Return a site's second moment as a rotation reads it (`RotationSpec.drop_directions`, `RotationSpec.spectrum`),
    in a matrix of its own."""
    if spec.spectrum == "linear" and not spec.drop_directions:
        # The division is in place, and other rotations read the same moment.
        return trace_normalized(moment.clone())
    values, vectors = torch.linalg.eigh(moment)
    if spec.drop_directions:
        values[-spec.drop_directions :] = 0.0  # eigh sorts by rising eigenvalue
    if spec.spectrum == "log":
        values = (values / values.mean().clamp(min=torch.finfo(values.dtype).tiny) / _LOG_FLOOR).clamp(min=0).log1p()
    return trace_normalized((vectors * values) @ vectors.T)


def _everything(layers: Iterable[LayerView], sites: Iterable[_Site]) -> Tensor:
    grams = (site(layer, _EVERYTHING, None) for layer in layers for site in sites)
    return _summed(gram for gram in grams if gram is not None)


def _read(layer: LayerView, name: str) -> tuple[str, ...]:
    whole = _WHOLE.get(name)
    return whole if whole is not None and is_fused(layer, whole) else _PROJECTIONS[name]


def _summed(grams: Iterable[Tensor]) -> Tensor:
    # In place in the first one, so that at most two are in memory.
    return reduce(lambda total, gram: total.add_(gram.to(total.device)), grams)


def _head_bases(view: ModelView, layer: LayerView) -> Tensor:
    """Return [kv_heads, head_dim, head_dim]: the basis that makes the columns of O of each key-value head orthogonal.

    It comes from the Gram matrix summed over the head's query heads. Alternatives measured on the demo model (global,
    WINA, top-k at 65 %, KL on 8,192 held-out tokens): 0.0266 with this basis, 0.0269 with the second moment of O's
    inputs or V's Gram matrix added. With only O gated: 0.00103, 0.00079, 0.00098, and 0.02006 without head rotation.
    """
    return torch.stack([canonical_basis(gram) for gram in head_grams(view, layer)])


# ---- bases from measurements on a text: weighted by sensitivity, or refined on the error of gating -------------------


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
        inputs = [GatedSite(site, index) for index, (_, group) in enumerate(groups) for site in group]
        bases = refine_on_divergence(view, bases, inputs, tokens, spec.steps, reporter, search)
    # By identity, so that layers with one basis share one again.
    replacements = {id(old): new for (old, _), new in zip(groups, bases, strict=True)}
    for layer in plain:
        layer_bases = (layer.attention, layer.mlp, layer.heads)
        yield LayerBases(*(None if basis is None else replacements.get(id(basis), basis) for basis in layer_bases))


def _groups(bases: Sequence[LayerBases], sites: Sequence[RotationSite]) -> list[tuple[Tensor, list[RotationSite]]]:
    groups: dict[int, tuple[Tensor, list[RotationSite]]] = {}
    for site in sites:
        layer = bases[site.layer]
        basis = {"attention": layer.attention, "mlp": layer.mlp, "heads": layer.heads}[site.reader]
        assert basis is not None  # sites are measured where there are bases
        groups.setdefault(id(basis), (basis, []))[1].append(site)
    return list(groups.values())


def _label(sites: Sequence[RotationSite], spec: RotationSpec) -> str:
    """Return the label of the basis that these sites share (`RefinementStep.site`)."""
    first = sites[0]
    if first.reader == "heads" or spec.mode == "per_site":
        return f"layer {first.layer} {first.reader}"
    return "stream" if spec.mode == "global" else f"layer {first.layer}"


def _weighted_basis(sites: Sequence[RotationSite]) -> Tensor:
    """Return eigenvectors of the sum of sensitivities and activation second moments, each weighted like its site's."""
    total = torch.zeros_like(sites[0].sensitivity, dtype=torch.float64)
    for site in sites:
        sensitivity, inputs = site.sensitivity.double(), site.inputs.double()
        total += sensitivity + sensitivity.trace() * trace_normalized(inputs.T @ inputs)
        site.give_back()
    return canonical_basis(total)
