"""Quantization of a loaded model's gated matrices and head by a spec.

Quantized weights are stored in a safetensors file, so that a model is quantized once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn
from wina_kernels.planes import PlaneWeight, in_planes
from wina_kernels.weights import MixedWeight, QuantizedWeight

from wina_core.compute.models.loading import LoadedModel
from wina_core.compute.models.quantized_linear import (
    PlaneLinear,
    QuantizedLinear,
    form_of,
    parents_of,
    replace_linear,
    tensors_of,
    weight_of,
)
from wina_core.compute.models.text_tokens import read_tokens
from wina_core.compute.quantization.inputs import (
    QuantizationSite,
    output_sensitivities,
    second_moments,
    sites_of,
)
from wina_core.compute.quantization.rounding import (
    LARGEST_ZERO,
    error_compensated,
    half_quadratic,
    is_symmetric,
    levels,
    packed,
    reverse_cholesky,
    round_to_nearest,
)
from wina_core.compute.quantization.sharing import (
    BitsRun,
    EnergySite,
    SitePlan,
    cell_bits,
    planes_of_inputs,
    share_bits,
)
from wina_core.compute.reporter import Reporter
from wina_core.compute.stages import save_atomically
from wina_core.errors import WinaError
from wina_core.model_info.cost.terms import group_scale_bits
from wina_core.specs import BitsPlan, QuantizationSpec
from wina_core.specs.quantization import QUANTIZER_PLUGINS, check_made, quantizer_names


def check_spec(loaded: LoadedModel, spec: QuantizationSpec) -> BitsPlan:
    """Return the bits of each cell; WinaError for another model's plan, for fused matrices of several widths, for
    energies of experts, and for a quantizer that is no longer made."""
    check_made(spec)
    if loaded.view.has_experts and spec.by_energy:
        raise WinaError(
            "Bits by energy are not shared out among the experts of this model, which read different tokens; choose "
            "the same bits for all inputs."
        )
    plan = spec.plan(loaded.view.layout)
    for layer in loaded.view.layers:
        for site in sites_of(layer):
            for names in site.linears.values():
                bits = {name: cell_bits(plan, layer.index, name) for name in names}
                if len(set(bits.values())) > 1:
                    listed_bits = ", ".join(f"{name} {value:g}" for name, value in bits.items())
                    raise WinaError(
                        f"The matrices {', '.join(names)} of layer {layer.index} are one matrix in this model and take "
                        f"equal bits, but the plan has {listed_bits}; give them the same."
                    )
    return plan


def apply_spec(
    loaded: LoadedModel,
    spec: QuantizationSpec,
    plan: BitsPlan,
    reporter: Reporter,
    stored: QuantizedSites | None = None,
) -> QuantizedSites:
    """Quantize the weights in place, a decoder layer at a time, and return the gated ones; from `stored` if given.

    After a cancellation, load the model again.
    """
    view, quantized = loaded.view, stored or QuantizedSites()
    tokens = read_tokens(spec.text, loaded.tokenizer) if spec.reads_text and stored is None else None
    chosen = planes = moments = None
    if spec.quantizer == "planes" and stored is None:
        planes = planes_of_inputs(loaded, spec, plan, tokens, reporter)
    elif tokens is not None:
        chosen = _by_energy(loaded, spec, plan, tokens, reporter) if spec.by_energy else None
        moments = second_moments(view, tokens, reporter)
    parents = parents_of(loaded.model)
    reporter.stage("quantization")
    for done, layer in enumerate(view.layers):
        reporter.progress(done, len(view.layers), "layers", spec.label)
        reporter.check()
        # As the layers were: the passage has called this one before it is quantized.
        measured = {} if moments is None else next(moments)
        for site in sites_of(layer):
            keys = {linear: (site.name, names[0]) for linear, names in site.linears.items()}
            if stored is None:
                if planes is not None:
                    weights = _in_planes(site, planes)
                else:
                    site_plan = chosen[site.layer, site.first_names] if chosen else _one_run_each(site, plan)
                    weights = _quantized(site_plan, spec, measured.get(site.first_linear))
                quantized.weights |= {
                    keys[linear]: weight for linear, weight in weights.items() if not isinstance(weight, Tensor)
                }
            for linear, key in keys.items():
                if key in quantized.weights:
                    # Before the layer is replaced: afterwards nothing refers to the pages of its weight.
                    view.give_back(linear)
                    replace_linear(linear, _layer(linear, quantized.weights[key]), parents)
    if spec.head_bits < 16:
        head = loaded.view.head
        weight_t = round_to_nearest(head.weight.detach().t().float(), spec.head_bits, spec.group)
        # The embedding still reads a tied weight; saved as tied, the head would get the numbers of the embedding again.
        tied = head.weight is view.embedding.weight
        replace_linear(head, _layer(head, weight_t), parents, keep=tied)
        loaded.model.config.tie_word_embeddings = False
    return quantized


def _in_planes(site: QuantizationSite, planes: dict[nn.Linear, int | Tensor]) -> dict[nn.Linear, Tensor | Stored]:
    return {
        linear: in_planes(linear.weight.detach().t(), planes[linear]) for linear in site.linears if linear in planes
    }


def _one_run_each(site: QuantizationSite, plan: BitsPlan) -> SitePlan:
    bits = {linear: int(cell_bits(plan, site.layer, names[0])) for linear, names in site.linears.items()}
    return SitePlan(None, {linear: (BitsRun(site.inputs, width),) for linear, width in bits.items()})


def _by_energy(
    loaded: LoadedModel, spec: QuantizationSpec, plan: BitsPlan, tokens: Tensor | None, reporter: Reporter
) -> dict[tuple[int, tuple[str, ...]], SitePlan]:
    """Return the runs of every site, by its layer and its first projections."""
    assert tokens is not None  # energies are measured on it
    sensitivities = output_sensitivities(loaded.view, tokens, reporter)
    sites = []
    reporter.stage("energies of inputs")
    for layer, moments in zip(loaded.view.layers, second_moments(loaded.view, tokens, reporter), strict=True):
        for site in sites_of(layer):
            site_moments = moments[site.first_linear]
            compensated = spec.quantizer == "gptq"
            sites.append(EnergySite(site, site_moments, sensitivities, spec.group, compensated=compensated))
        reporter.progress(layer.index + 1, len(loaded.view.layers), "layers")
        reporter.check()
    if isinstance(spec.bits, BitsPlan):
        plans = [site.within(_budgets(site.site, plan, spec.group)) for site in sites]
    else:
        plans = share_bits(sites, held_bits(spec.bits, spec.group))
    return {
        (energies.site.layer, energies.site.first_names): site_plan
        for energies, site_plan in zip(sites, plans, strict=True)
    }


def held_bits(bits: float, group: int) -> float:
    """Return the bits that a weight of so many bits takes with its share of the scale and the zero."""
    return bits + group_scale_bits(bits) / group


def _budgets(site: QuantizationSite, plan: BitsPlan, group: int) -> dict[nn.Linear, float]:
    budgets = {}
    for linear, names in site.linears.items():
        bits = cell_bits(plan, site.layer, names[0])
        groups = -(-site.inputs // group)
        budgets[linear] = linear.out_features * (site.inputs * bits + groups * group_scale_bits(bits))
    return budgets


@torch.no_grad()
def _quantized(plan: SitePlan, spec: QuantizationSpec, moments: Tensor | None) -> dict[nn.Linear, Tensor | Stored]:
    """Return W^T of each matrix of a site as it is stored."""
    order = None if plan.order is None else plan.order.long()
    factor = None
    if moments is not None:
        ordered = moments if order is None else moments[order][:, order]
        factor = reverse_cholesky(ordered) if spec.quantizer == "gptq" else None
    importance = None if moments is None or order is None else moments.diagonal()[order]
    by_linear: dict[nn.Linear, Tensor | Stored] = {}
    for linear, runs in plan.runs.items():
        weight_t = linear.weight.detach().t()
        weight_t = (weight_t if order is None else weight_t[order]).float().contiguous()
        if factor is not None:
            quantized_runs = error_compensated(weight_t, factor, [(run.inputs, run.bits) for run in runs], spec.group)
        else:
            quantized_runs = _rounded(weight_t, runs, spec, importance)
        stored = [
            run.to(_half_dtype(linear.weight.dtype)) if isinstance(run, Tensor) else run for run in quantized_runs
        ]
        # Without an order there is one run.
        by_linear[linear] = stored[0] if plan.order is None else MixedWeight(stored, plan.order)
    return by_linear


def _rounded(
    weight_t: Tensor, runs: Sequence[BitsRun], spec: QuantizationSpec, importance: Tensor | None
) -> list[QuantizedWeight | Tensor]:
    quantizers: dict[str, Callable[[Tensor, int, slice], QuantizedWeight]] = {
        "rtn": lambda rows, bits, inputs: round_to_nearest(
            rows, bits, spec.group, None if importance is None else importance[inputs]
        ),
        "hqq": lambda rows, bits, _: half_quadratic(rows, bits, spec.group),
    }
    quantize = quantizers.get(spec.quantizer, lambda rows, bits, _: by_package(spec.quantizer, rows, bits, spec.group))
    quantized_runs: list[QuantizedWeight | Tensor] = []
    for run, (start, stop) in zip(runs, pairwise(np.cumsum([0, *(run.inputs for run in runs)])), strict=True):
        rows, inputs = weight_t[start:stop], slice(start, stop)
        quantized_runs.append(rows if run.bits == 16 else quantize(rows, run.bits, inputs))
    return quantized_runs


def _half_dtype(dtype: torch.dtype) -> torch.dtype:
    return dtype if dtype.itemsize == 2 else torch.float16


def _layer(linear: nn.Linear, weight_t: Stored) -> QuantizedLinear:
    """Return the quantized layer on the device of the linear one."""
    made = PlaneLinear(linear, weight_t) if isinstance(weight_t, PlaneWeight) else QuantizedLinear(linear, weight_t)
    device = linear.weight.device
    return made if weight_t.device == device else made.to(device)


# ---- the quantizers of installed packages ----------------------------------------------------------------------------


def by_package(name: str, weight_t: Tensor, bits: int, group: int) -> QuantizedWeight:
    """Quantize W^T [n, m], float32, by a package's quantizer; raise WinaError for a result that does not fit."""
    quantizer = QUANTIZER_PLUGINS.get(name)
    if quantizer is None:
        raise QUANTIZER_PLUGINS.unknown(name, quantizer_names())
    with QUANTIZER_PLUGINS.blamed(name):
        codes, scale, zero = quantizer(weight_t, bits, group)
        _check(codes, scale, zero, weight_t, bits, group)
    return packed(codes, scale, zero, group, bits)


def _check(codes: Tensor, scale: Tensor, zero: Tensor | None, weight_t: Tensor, bits: int, group: int) -> None:
    """Raise ValueError for codes, scales or zeros of a wrong shape or range."""
    n, m = weight_t.shape
    low, high = levels(bits)
    groups = (-(-n // group), m)
    if codes.shape != (n, m) or not bool(((codes >= low) & (codes <= high) & (codes == codes.round())).all()):
        raise ValueError(f"its codes are not whole numbers from {low} to {high} of the shape {n} x {m}")
    if (zero is None) != is_symmetric(bits):
        raise ValueError("it gives 8 bits a zero, or fewer bits none")
    for kind, values in (("scales", scale), ("zeros", zero)):
        if values is not None and (values.shape != groups or not bool((values.abs() <= LARGEST_ZERO).all())):
            raise ValueError(f"its {kind} are not numbers of float16 of the shape {groups[0]} x {m}")
    if codes.device != weight_t.device or scale.device != weight_t.device:
        raise ValueError(f"its codes and scales are not on {weight_t.device}")


Stored = QuantizedWeight | MixedWeight | PlaneWeight
_FORM = "weights"


@dataclass(eq=False)
class QuantizedSites:
    """Quantized W^T of linear layers, by the name of their site and their own: "3.q" and "q", "k" or "v"."""

    weights: dict[tuple[str, str], Stored] = field(default_factory=dict)

    def save(self, path: Path) -> None:
        """Write the weights atomically; an order that several of a site share is written once.

        Raises WinaError if the disk refuses.
        """
        tensors: dict[str, Tensor] = {}
        forms: list[dict[str, Any]] = []
        for (site, name), weight in self.weights.items():
            runs = weight.runs if isinstance(weight, MixedWeight) else [weight]
            order = weight.order if isinstance(weight, MixedWeight) else None
            if order is not None:
                tensors[f"{site}.order"] = order.cpu()
            for index, run in enumerate(runs):
                tensors |= {
                    f"{site}/{name}.{index}.{kind}": tensor.contiguous().cpu()
                    for kind, tensor in tensors_of(run).items()
                }
            forms.append(
                {"site": site, "name": name, "ordered": order is not None, "runs": [form_of(run) for run in runs]}
            )
        try:
            save_atomically(tensors, path, {_FORM: json.dumps(forms)})
        except (OSError, SafetensorError) as error:
            raise WinaError(
                f"The quantized weights could not be written to {path} ({error}); free some space."
            ) from error

    @classmethod
    def load(cls, path: Path) -> QuantizedSites:
        """Read what `save` wrote; WinaError for a damaged file."""
        try:
            with safe_open(path, framework="pt") as file:
                forms = json.loads((file.metadata() or {})[_FORM])
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
            return cls({(form["site"], form["name"]): _weight(form, tensors) for form in forms})
        except (SafetensorError, KeyError, TypeError, ValueError) as error:
            raise WinaError(f"{path} holds no complete quantized weights ({error}).") from error


def _weight(form: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Stored:
    name = f"{form['site']}/{form['name']}"
    # Checked like those of files from others: kernels rely on shapes.
    runs = [weight_of(run, tensors, f"{name}.{index}.") for index, run in enumerate(form["runs"])]
    if isinstance(runs[0], PlaneWeight) or (not form["ordered"] and isinstance(runs[0], QuantizedWeight)):
        return runs[0]
    return MixedWeight(runs, tensors[f"{form['site']}.order"])
