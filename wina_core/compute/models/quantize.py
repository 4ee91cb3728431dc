"""Weight-only quantization of a loaded model's gated matrices: INT8 by torchao, INT4 by HQQ.

INT8: symmetric, one scale for each row of W (output channel). INT4: half-quadratic quantization (Badri and Shaji,
2023), one scale and one zero for each group of inputs of a row: 64, or where 64 does not divide their number, the
largest of 32 and 16 that does. Embedding, head and norms stay as they are. Both run on the CPU, where torchao has no
INT4. The libraries are imported when they are needed, and download nothing.
"""

import logging
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from wina_kernels.weights import QuantizedWeight, pack_halves

from wina_core.accounting.terms import INT4_GROUPS, int4_group
from wina_core.compute import pausable_clock
from wina_core.compute.models.architectures import view
from wina_core.compute.models.loading import LoadedModel
from wina_core.compute.models.logits import mean_divergence, probe_logits, relative_deviation
from wina_core.compute.models.quantized_linear import QuantizedLinear
from wina_core.compute.models.text_tokens import read_tokens
from wina_core.compute.models.view import ModelView
from wina_core.compute.reporter import Reporter
from wina_core.errors import WinaError
from wina_core.records import QuantizationReport
from wina_core.specs import Bits, TextSpec

PROBE = TextSpec(tokens=512, sequence=128)
"""Text on which the quantized model is compared with the model as it was."""
_DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def quantize(loaded: LoadedModel, bits: Bits, reporter: Reporter) -> QuantizationReport:
    """Quantize the gated matrices of `loaded.model` in place, one after the other, and measure what that changed.

    To be done after rotating: a rotation works on the weights themselves. Raises WinaError before the model is touched
    when a matrix cannot be quantized. When it is cancelled on the way, the model must be loaded anew.
    """
    linears = gated_linears(loaded.view)
    for name, linear in linears.items():
        check_quantizable(name, linear, bits)
    tokens = read_tokens(PROBE, loaded.tokenizer)
    before = probe_logits(loaded.model, tokens)
    reporter.check()

    start = pausable_clock.now()
    places = {child: (parent, name) for parent in loaded.model.modules() for name, child in parent.named_children()}
    for done, linear in enumerate(linears.values(), start=1):
        parent, name = places[linear]
        setattr(parent, name, _QUANTIZERS[bits](linear))
        linear.weight = None  # type: ignore[assignment]  # its memory is needed, whoever still holds the layer
        reporter.progress(done, len(linears), "matrices", f"quantizing to {bits}")
        reporter.check()
    loaded.view = view(loaded.model)
    seconds = pausable_clock.now() - start

    after = probe_logits(loaded.model, tokens)
    report = QuantizationReport(
        quantization=bits,
        logits_deviation=relative_deviation(after, before),
        kl=mean_divergence(before, after),
        seconds=seconds,
    )
    loaded.quantization_report = report
    if loaded.rotation_report is not None:
        loaded.rotation_report = loaded.rotation_report.model_copy(update={"quantization": report})
    return report


def gated_linears(view: ModelView) -> dict[str, nn.Linear]:
    """The distinct linear layers of all projections, by the name of the first one, for example "q of layer 0"."""
    linears: dict[nn.Linear, str] = {}
    for layer in view.layers:
        for name, projection in layer.projections.items():
            linears.setdefault(projection.linear, f"{name} of layer {layer.index}")
    return {name: linear for linear, name in linears.items()}


def check_quantizable(name: str, linear: nn.Linear, bits: Bits) -> None:
    """Raise WinaError when a matrix cannot be quantized."""
    if linear.weight.dtype not in _DTYPES:
        dtype = str(linear.weight.dtype).removeprefix("torch.")
        raise WinaError(f"{bits} quantization does not work on {dtype} weights; load the model in float32 or bfloat16.")
    if bits == "int4" and _group(linear) is None:
        raise WinaError(
            f"int4 quantization takes groups of {INT4_GROUPS[-1]} or more inputs, but {name} has {linear.in_features} "
            f"inputs and {linear.out_features} outputs, which do not divide into them; choose int8."
        )


def _group(linear: nn.Linear) -> int | None:
    return int4_group(linear.out_features, linear.in_features)


def int8(linear: nn.Linear) -> QuantizedLinear:
    """torchao's weight-only INT8."""
    _quiet_torchao()
    from torchao.quantization import Int8WeightOnlyConfig, quantize_

    holder = nn.Linear(linear.in_features, linear.out_features, bias=False, device="meta")
    holder.weight = nn.Parameter(linear.weight.detach(), requires_grad=False)
    quantize_(holder, Int8WeightOnlyConfig())
    weight: Any = holder.weight.data
    inputs = linear.in_features
    return QuantizedLinear(
        linear, QuantizedWeight(weight.qdata.t().contiguous(), weight.scale.reshape(1, -1), None, inputs, 8)
    )


def _quiet_torchao() -> None:
    """Silence what it says when it is imported, about extensions for accelerators that are not here."""
    for name in ("torchao", "torch.utils._pytree"):
        logging.getLogger(name).setLevel(logging.ERROR)


def int4(linear: nn.Linear) -> QuantizedLinear:
    """HQQ with 4 bits; scales and zeros in the model's dtype."""
    from hqq.core.quantize import BaseQuantizeConfig, HQQLinear

    dtype, device, group = linear.weight.dtype, str(linear.weight.device), _group(linear)
    assert group is not None  # check_quantizable has seen to it
    config = BaseQuantizeConfig(nbits=4, group_size=group, axis=1)
    layer: Any = HQQLinear.from_weights(linear.weight.detach(), None, config, compute_dtype=dtype, device=device)
    codes = layer.unpack(reshape=True, dtype=torch.uint8)
    scale, zero = (layer.meta[name].view(len(codes), -1).t().contiguous() for name in ("scale", "zero"))
    return QuantizedLinear(linear, QuantizedWeight(pack_halves(codes.t()), scale, zero, group, 4))


_QUANTIZERS: dict[Bits, Callable[[nn.Linear], QuantizedLinear]] = {"int8": int8, "int4": int4}
