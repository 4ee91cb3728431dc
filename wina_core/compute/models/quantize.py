"""Weight-only quantization of a loaded model: INT8 by torchao, INT4 by HQQ, or by a spec (`compute.quantization`).

INT8: symmetric, one scale for each row of W (output channel). INT4: half-quadratic quantization (Badri and Shaji,
2023), one scale and one zero for each group of a row's inputs: 64, or the largest of 32 and 16 that divides them.
Embedding, head and norms stay unchanged. Both run on the CPU, where torchao has no INT4. The libraries are imported on
use and download nothing.
"""

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

import torch
from torch import nn
from wina_kernels.weights import QuantizedWeight

from wina_core.compute import pausable_clock
from wina_core.compute.models.architectures import view
from wina_core.compute.models.loading import LoadedModel
from wina_core.compute.models.logits import mean_divergence, probe_logits, relative_deviation
from wina_core.compute.models.quantized_linear import QuantizedLinear, parents_of, replace_linear
from wina_core.compute.models.shortcuts import attach_shortcuts
from wina_core.compute.models.text_tokens import read_tokens
from wina_core.compute.models.view import ModelView
from wina_core.compute.quantization.apply import QuantizedSites, apply_spec, check_spec
from wina_core.compute.reporter import Reporter
from wina_core.errors import WinaError
from wina_core.model_info.cost.terms import INT4_GROUPS, int4_group
from wina_core.records import QuantizationReport
from wina_core.specs import Bits, QuantizationSpec, TextSpec, quantization_label

PROBE = TextSpec(tokens=512, sequence=128)
"""Text on which the quantized model is compared with the original."""


class WeightCache(Protocol):
    """Place of a spec's quantized weights between runs of the program."""

    def read(self) -> QuantizedSites | None:
        """Return the weights; None if they are not there."""

    def write(self, weights: QuantizedSites, seconds: float) -> None:
        """Keep the weights, and the time of quantizing."""


_DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def quantize(
    loaded: LoadedModel,
    quantization: Bits | QuantizationSpec,
    reporter: Reporter,
    cache: WeightCache | None = None,
) -> QuantizationReport:
    """Quantize the weights of `loaded.model` in place, one by one, and measure the change.

    The weights of a spec are taken from the `cache`, or put into it.

    Quantize after rotating. Raises WinaError before the model is touched if a matrix cannot be quantized. After a
    cancellation, load the model again.
    """
    linears = gated_linears(loaded.view)
    for name, linear in linears.items():
        check_quantizable(name, linear, quantization)
    plan = check_spec(loaded, quantization) if isinstance(quantization, QuantizationSpec) else None
    tokens = read_tokens(PROBE, loaded.tokenizer)
    before = probe_logits(loaded.view, tokens)
    reporter.check()

    start = pausable_clock.now()
    if isinstance(quantization, QuantizationSpec):
        assert plan is not None  # of a spec
        cached = None if cache is None else cache.read()
        made = apply_spec(loaded, quantization, plan, reporter, cached)
        if cache is not None and cached is None:
            cache.write(made, pausable_clock.now() - start)
    else:
        _apply_named(loaded, linears, quantization, reporter)
    # The view, and the forwards with shortcuts that are bound to it, still hold the replaced layers.
    loaded.view = replace(view(loaded.model), mapped=loaded.view.mapped, first_scored=loaded.view.first_scored)
    attach_shortcuts(loaded.view)
    seconds = pausable_clock.now() - start

    after = probe_logits(loaded.view, tokens)
    report = QuantizationReport(
        quantization=quantization_label(quantization),
        logits_deviation=relative_deviation(after, before),
        kl=mean_divergence(before, after),
        seconds=seconds,
    )
    loaded.quantization_report = report
    if loaded.rotation_report is not None:
        loaded.rotation_report = loaded.rotation_report.model_copy(update={"quantization": report})
    return report


def _apply_named(loaded: LoadedModel, linears: dict[str, nn.Linear], bits: Bits, reporter: Reporter) -> None:
    parents = parents_of(loaded.model)
    reporter.stage("quantization")
    for done, linear in enumerate(linears.values(), start=1):
        made = _QUANTIZERS[bits](linear)
        loaded.view.give_back(linear)
        replace_linear(linear, made, parents)
        reporter.progress(done, len(linears), "matrices", bits)
        reporter.check()


def gated_linears(view: ModelView) -> dict[str, nn.Linear]:
    """Return the distinct linear layers of all projections by the name of the first one, such as "q of layer 0"."""
    linears: dict[nn.Linear, str] = {}
    for layer in view.parts:
        owner = "" if layer.expert is None else f"expert {layer.expert} of "
        for name, projection in layer.projections.items():
            linears.setdefault(projection.linear, f"{name} of {owner}layer {layer.index}")
    return {name: linear for linear, name in linears.items()}


def check_quantizable(name: str, linear: nn.Linear, quantization: Bits | QuantizationSpec) -> None:
    """Raise WinaError if a matrix cannot be quantized."""
    if linear.weight.dtype not in _DTYPES:
        dtype = str(linear.weight.dtype).removeprefix("torch.")
        raise WinaError(
            f"{quantization_label(quantization)} quantization does not work on {dtype} weights; load the model in "
            "float32 or bfloat16."
        )
    if quantization == "int4" and _group(linear) is None:
        raise WinaError(
            f"int4 quantization takes groups of {INT4_GROUPS[-1]} or more inputs, but {name} has {linear.in_features} "
            f"inputs and {linear.out_features} outputs, which do not divide into them; choose int8."
        )


def _group(linear: nn.Linear) -> int | None:
    return int4_group(linear.out_features, linear.in_features)


def int8(linear: nn.Linear) -> QuantizedLinear:
    """Quantize by torchao's weight-only INT8."""
    # On import torchao warns of extensions for accelerators that are not here.
    for name in ("torchao", "torch.utils._pytree"):
        logging.getLogger(name).setLevel(logging.ERROR)
    from torchao.quantization import Int8WeightOnlyConfig, quantize_

    # torchao replaces the weight of a layer in place, and the original one is still needed.
    holder = nn.Linear(linear.in_features, linear.out_features, bias=False, device="meta")
    holder.weight = nn.Parameter(linear.weight.detach(), requires_grad=False)
    quantize_(holder, Int8WeightOnlyConfig())
    weight: Any = holder.weight.data
    inputs = linear.in_features
    return QuantizedLinear(linear, QuantizedWeight.of(weight.qdata.t(), weight.scale.reshape(1, -1), None, inputs, 8))


def int4(linear: nn.Linear) -> QuantizedLinear:
    """Quantize by HQQ with 4 bits; scales and zeros in the model's dtype."""
    from hqq.core.quantize import BaseQuantizeConfig, HQQLinear

    dtype, device, group = linear.weight.dtype, str(linear.weight.device), _group(linear)
    assert group is not None  # check_quantizable has seen to it
    config = BaseQuantizeConfig(nbits=4, group_size=group, axis=1)
    layer: Any = HQQLinear.from_weights(linear.weight.detach(), None, config, compute_dtype=dtype, device=device)
    codes = layer.unpack(reshape=True, dtype=torch.uint8)
    scale, zero = (layer.meta[name].view(len(codes), -1).t().contiguous() for name in ("scale", "zero"))
    return QuantizedLinear(linear, QuantizedWeight.of(codes.t(), scale, zero, group, 4))


_QUANTIZERS: dict[Bits, Callable[[nn.Linear], QuantizedLinear]] = {"int8": int8, "int4": int4}
