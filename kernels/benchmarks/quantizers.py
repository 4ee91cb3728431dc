"""Divergence of the workbench's quantizations from the original model, unrotated and rotated, uniform and by energy:

    python kernels/benchmarks/run.py quantizers --model demo --text demo:heldout --calibration demo:calibration

The original is dense, unrotated, and in float32, so that no rounding of activations is in the numbers. KL is
KL(original || quantized) in nats over all tokens of a text that neither rotation nor quantizer read; its error is the
standard error over rows, whose tokens are not independent. The bits held are those in memory: codes, scales, zeros and
orders.
"""

import argparse
import json
import math
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from wina_core.compute.models.loading import LoadedModel
from wina_core.compute.models.logits import divergences, log_probabilities
from wina_core.compute.models.text_tokens import read_tokens
from wina_core.compute.reporter import NullReporter
from wina_core.compute.session.model_session import Session
from wina_core.errors import WinaError
from wina_core.specs import NO_ROTATION, ModelSource, QuantizationSpec, RotationSpec, TextSpec

BITS = (8, 6, 4, 3, 2)
QUANTIZERS = ("rtn", "hqq", "gptq")


def main(arguments: Sequence[str]) -> None:
    """Measure and print; with --out, write JSON."""
    parser = argparse.ArgumentParser(prog="run.py quantizers", description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="demo", help="folder, hub id or demo")
    parser.add_argument("--text", default="demo:heldout", help="unseen text, to measure on")
    parser.add_argument("--calibration", default="demo:calibration", help="text for rotation and quantizer")
    parser.add_argument("--tokens", type=int, default=16_384, help="tokens of either text")
    parser.add_argument("--bits", nargs="+", type=float, default=BITS)
    parser.add_argument("--quantizers", nargs="+", default=QUANTIZERS)
    parser.add_argument("--out", type=Path, help="JSON file to write")
    given = parser.parse_args(arguments)
    found = []
    print(f"{'rotation':18}{'quantization':24}{'bits held':>10}{'KL':>10}{'error':>10}")
    for line in quantizer_divergences(
        given.model,
        TextSpec(source=given.text, tokens=given.tokens),
        TextSpec(source=given.calibration, tokens=given.tokens),
        given.bits,
        given.quantizers,
    ):
        found.append(line)
        print(
            f"{line['rotation']:18}{line['quantization']:24}{line['bits_held']:10.3f}{line['kl']:10.5f}"
            f"{line['kl_error']:10.5f}",
            flush=True,
        )
    if given.out:
        content = {"model": given.model, "text": given.text, "tokens": given.tokens, "quantizers": found}
        given.out.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


@torch.no_grad()
def quantizer_divergences(
    model: str, text: TextSpec, calibration: TextSpec, bits: Sequence[float], quantizers: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """Yield a line for every rotation, quantizer, number of bits, and uniform bits or bits by energy.

    Bits that a quantizer lacks are left out.
    """
    source = ModelSource(location=model, dtype="float32")
    original = _load(source, NO_ROTATION)
    rows = read_tokens(text, original.tokenizer)
    reference = [
        log_probabilities(original.model(row[None], use_cache=False).logits[0])[_scored(original)] for row in rows
    ]
    rotations = (NO_ROTATION, RotationSpec(text=calibration))
    for width, rotation, by_energy, quantizer in product(bits, rotations, (False, True), quantizers):
        fields = {"quantizer": quantizer, "bits": width, "by_energy": by_energy}
        spec = QuantizationSpec.model_validate({**fields, "text": calibration})
        try:
            quantized = _load(source.model_copy(update={"quantization": spec}), rotation)
        except WinaError as error:
            print(f"{rotation.label:18}{width:g} bits {quantizer}: {error}")
            continue
        kl = torch.stack([_divergence(quantized, row, own) for row, own in zip(rows, reference, strict=True)])
        yield {
            "rotation": rotation.mode,
            "quantization": QuantizationSpec.model_validate(fields).label,
            "bits_held": bits_held(quantized),
            "kl": float(kl.mean()),
            "kl_error": float(kl.std() / math.sqrt(len(kl))),
        }


def bits_held(loaded: LoadedModel) -> float:
    """Return the bits in memory for each weight of the gated matrices, an order that several share counted once."""
    linears = {projection.linear for layer in loaded.view.layers for projection in layer.projections.values()}
    parts = {part.data_ptr(): part.nbytes for linear in linears for part in linear.buffers()}
    return 8 * sum(parts.values()) / sum(linear.in_features * linear.out_features for linear in linears)


def _load(source: ModelSource, rotation: RotationSpec) -> LoadedModel:
    return Session().prepare(source, rotation, NullReporter())


def _scored(loaded: LoadedModel) -> slice:
    """Return the positions of a row that are compared: all but BOS's."""
    return slice(loaded.view.first_scored, None)


def _divergence(loaded: LoadedModel, row: Tensor, reference: Tensor) -> Tensor:
    """Return the mean divergence of a row's tokens, float64."""
    logits = loaded.model(row[None], use_cache=False).logits[0][_scored(loaded)]
    return divergences(reference, log_probabilities(logits)).double().mean()
