"""Quantization of a loaded model's gated matrices and head by a spec."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from wina_core.compute.models.loading import LoadedModel
from wina_core.compute.models.nested_linear import nested
from wina_core.compute.models.view import LayerView
from wina_core.compute.quantization.codes import Codes
from wina_core.compute.quantization.rounding import half_quadratic, round_to_nearest
from wina_core.compute.reporter import Reporter
from wina_core.errors import WinaError
from wina_core.specs import BitsPlan, QuantizationSpec

_QUANTIZERS: dict[str, Callable[[Tensor, int, int], Codes]] = {"rtn": round_to_nearest, "hqq": half_quadratic}


def check_spec(loaded: LoadedModel, spec: QuantizationSpec) -> BitsPlan:
    """Return the bits of each cell; WinaError for another model's plan, and for fused matrices of several widths."""
    if spec.quantizer not in (*_QUANTIZERS, "nested") or spec.by_energy:
        raise WinaError(f"Quantizing to {spec.label} is not possible yet; choose rtn or hqq without --by-energy.")
    plan = spec.plan(loaded.view.layout)
    for layer in loaded.view.layers:
        for names in fused(layer).values():
            bits = {name: cell(plan, layer.index, name) for name in names}
            if len(set(bits.values())) > 1:
                shown = ", ".join(f"{name} {value:g}" for name, value in bits.items())
                raise WinaError(
                    f"The matrices {', '.join(names)} of layer {layer.index} are one matrix in this model and take "
                    f"equal bits, but the plan has {shown}; give them the same."
                )
    return plan


def fused(layer: LayerView) -> dict[nn.Linear, list[str]]:
    """Return the projections of each linear layer."""
    found: dict[nn.Linear, list[str]] = {}
    for name, projection in layer.projections.items():
        found.setdefault(projection.linear, []).append(name)
    return found


def cell(plan: BitsPlan, layer: int, name: str) -> float:
    """Return the bits of one projection."""
    return plan.bits[layer][plan.layout.projections.index(name)]


@torch.no_grad()
def apply_spec(loaded: LoadedModel, spec: QuantizationSpec, plan: BitsPlan, reporter: Reporter) -> None:
    """Round the weights in place. After a cancellation, load the model again."""
    if spec.quantizer == "nested":
        _nest(loaded, spec, plan, reporter)
        return
    view, quantizer = loaded.view, _QUANTIZERS[spec.quantizer]
    jobs = [
        (linear, int(cell(plan, layer.index, names[0])), quantizer)
        for layer in view.layers
        for linear, names in fused(layer).items()
    ]
    if spec.head_bits < 16:
        jobs.append((_own_head(loaded), spec.head_bits, round_to_nearest))
    for done, (linear, bits, method) in enumerate(jobs, start=1):
        if bits < 16:
            codes = method(linear.weight.detach().t().float().contiguous(), bits, spec.group)
            linear.weight.data = codes.dequantize().t().to(linear.weight.dtype).contiguous()
        reporter.progress(done, len(jobs), "matrices", f"quantizing to {spec.label}")
        reporter.check()


def _nest(loaded: LoadedModel, spec: QuantizationSpec, plan: BitsPlan, reporter: Reporter) -> None:
    places = {child: (parent, name) for parent in loaded.model.modules() for name, child in parent.named_children()}
    jobs = [(linear, names, layer.index) for layer in loaded.view.layers for linear, names in fused(layer).items()]
    for done, (linear, names, layer_index) in enumerate(jobs, start=1):
        bits = int(cell(plan, layer_index, names[0]))
        if bits < 16:
            parent, name = places[linear]
            setattr(parent, name, nested(linear, bits, spec.group))  # type: ignore[arg-type]  # checked by the spec
            linear.weight = None  # type: ignore[assignment]  # its memory is needed, whoever still holds the layer
        reporter.progress(done, len(jobs), "matrices", f"quantizing to {spec.label}")
        reporter.check()


def _own_head(loaded: LoadedModel) -> nn.Linear:
    """Return the head with weights of its own: a tied embedding keeps the model's dtype."""
    head = loaded.view.head
    if head.weight is loaded.view.embedding.weight:
        head.weight = nn.Parameter(head.weight.detach().clone(), requires_grad=False)
        loaded.model.config.tie_word_embeddings = False
    return head
