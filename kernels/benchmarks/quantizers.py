"""Divergence of quantizations from the original model: the workbench's and llama.cpp's.

    python kernels/benchmarks/run.py quantizers --model demo --text demo:heldout --calibration demo:calibration
    python kernels/benchmarks/run.py peers-kl --model demo --text demo:heldout --kinds Q8_0 Q4_K_M Q4_0 Q3_K_M

quantizers: the workbench's, unrotated and rotated, uniform and by energy. The original is dense, unrotated, and in
float32, so that the numbers contain no rounding of activations. KL is KL(original || quantized) in nats over all tokens
of a text that neither rotation nor quantizer read; its error is the standard error over rows, whose tokens are not
independent. The bits held are those in memory: codes, scales, zeros and orders.

peers-kl: llama.cpp's, on the tokens that `wina` reads of a text. The original is computed in float32 over the stored
weights and written as GGUF in float32; llama.cpp quantizes that file and reads the same rows of tokens. The file
itself is compared too: what it shows is the noise of llama.cpp's arithmetic (16-bit cache). KL is averaged over the
second half of each row, as llama-perplexity does.
"""

import argparse
import math
import tempfile
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import torch
from comparing import write_json
from peers import TensorStorage, quantize_gguf, tensor_storage, write_gguf
from torch import Tensor

from wina_core.compute.evaluation.fidelity import scored_positions
from wina_core.compute.gguf.convert import LlamaCppModel, peer_package
from wina_core.compute.models.loading import LoadedModel, load_model
from wina_core.compute.models.logits import divergences, log_probabilities
from wina_core.compute.models.text_tokens import read_tokens
from wina_core.compute.reporter import NullReporter
from wina_core.compute.session.model_session import Session
from wina_core.errors import WinaError
from wina_core.specs import NO_ROTATION, ModelSource, QuantizationSpec, RotationSpec, TextSpec

BITS = (8, 6, 4, 3, 2)
QUANTIZERS = ("rtn", "hqq", "gptq")
KINDS = ("Q8_0", "Q6_K", "Q5_K_M", "Q4_K_M", "Q4_0", "Q3_K_M", "Q2_K")
_OURS = (
    "Divergence of the workbench's quantizations from the original model, unrotated and rotated, uniform and by energy:"
)
_PEERS = "Divergence of llama.cpp's quantizations from the original model, on the tokens that `wina` reads of a text:"


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="run.py quantizers", description=_OURS)
    parser.add_argument("--model", default="demo", help="folder, hub id or demo")
    parser.add_argument("--text", default="demo:heldout", help="unseen text, to measure on")
    parser.add_argument("--calibration", default="demo:calibration", help="text for rotation and quantizer")
    parser.add_argument("--tokens", type=int, default=16_384, help="tokens of either text")
    parser.add_argument("--bits", nargs="+", type=float, default=BITS)
    parser.add_argument("--quantizers", nargs="+", default=QUANTIZERS)
    parser.add_argument("--out", type=Path, help="JSON file to write")
    options = parser.parse_args(arguments)
    lines = []
    print(f"{'rotation':18}{'quantization':24}{'bits held':>10}{'KL':>10}{'error':>10}")
    for line in quantizer_divergences(
        options.model,
        TextSpec(source=options.text, tokens=options.tokens),
        TextSpec(source=options.calibration, tokens=options.tokens),
        options.bits,
        options.quantizers,
    ):
        lines.append(line)
        print(
            f"{line['rotation']:18}{line['quantization']:24}{line['bits_held']:10.3f}{line['kl']:10.5f}"
            f"{line['kl_error']:10.5f}",
            flush=True,
        )
    if options.out:
        content = {"model": options.model, "text": options.text, "tokens": options.tokens, "quantizers": lines}
        write_json(options.out, content)


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
        kl = torch.stack(
            [_divergence(quantized, row, row_reference) for row, row_reference in zip(rows, reference, strict=True)]
        )
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
    bytes_by_address = {buffer.data_ptr(): buffer.nbytes for linear in linears for buffer in linear.buffers()}
    return 8 * sum(bytes_by_address.values()) / sum(linear.in_features * linear.out_features for linear in linears)


def _load(source: ModelSource, rotation: RotationSpec) -> LoadedModel:
    return Session().prepare(source, rotation, NullReporter())


def _scored(loaded: LoadedModel) -> slice:
    return slice(loaded.view.first_scored, None)


def _divergence(loaded: LoadedModel, row: Tensor, reference: Tensor) -> Tensor:
    logits = loaded.model(row[None], use_cache=False).logits[0][_scored(loaded)]
    return divergences(reference, log_probabilities(logits)).double().mean()


def main_peers(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="run.py peers-kl", description=_PEERS)
    parser.add_argument("--model", default="demo", help="folder, hub id or demo")
    parser.add_argument("--dtype", default="float32", help="dtype of the original")
    parser.add_argument("--text", default="demo:heldout", help="text file, or demo:NAME")
    parser.add_argument("--tokens", type=int, default=8192)
    parser.add_argument("--sequence", type=int, default=512)
    parser.add_argument("--kinds", nargs="+", default=KINDS, metavar="KIND", help="llama.cpp's names, such as Q4_K_M")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--out", type=Path, help="JSON file to write")
    options = parser.parse_args(arguments)
    text = TextSpec(source=options.text, tokens=options.tokens, sequence=options.sequence, scored="second_half")
    lines = []
    print(f"{'':8}{'bits/weight':>12}{'bytes read':>14}{'KL':>12}{'error':>10}{'same top':>10}")
    for line in quantization_divergences(
        ModelSource(location=options.model, dtype=options.dtype), text, options.kinds, options.threads
    ):
        lines.append(line)
        print(
            f"{line['kind']:8}{line['bits_per_weight']:12.3f}{line['bytes_read']:14,}{line['kl']:12.6f}"
            f"{line['kl_error']:10.6f}{line['same_top']:10.4f}",
            flush=True,
        )
    if options.out:
        api = peer_package("llama_cpp")
        content = {"model": options.model, **text.model_dump(), "llama_cpp_python": api.__version__, "kinds": lines}
        write_json(options.out, content)


@torch.no_grad()
def quantization_divergences(
    model: ModelSource, text: TextSpec, kinds: Sequence[str], threads: int
) -> Iterator[dict[str, Any]]:
    """Yield a line for the file in float32 ("F32") and for each of llama.cpp's quantizations.

    `bits_per_weight` covers the gated matrices with their scales, and `bytes_read` every tensor that one token reads,
    which excludes an untied embedding. Zeros that pad the MLP are not counted. `kl_error` is the standard error over
    tokens.
    Raises WinaError as `write_gguf`, `quantize_gguf` and `load_model` do.
    """
    loaded = load_model(model, NullReporter())
    units = loaded.model.config.intermediate_size
    rows = read_tokens(text, loaded.tokenizer)
    scored = scored_positions(loaded.view, text.sequence, text.scored)
    original = [log_probabilities(loaded.model(row[None], use_cache=False).logits[0][scored]) for row in rows]
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "F32.gguf"
        write_gguf(loaded.model, source, torch.float32)
        for kind in ("F32", *kinds):
            file = source
            if kind != "F32":
                file = Path(folder) / f"{kind}.gguf"
                quantize_gguf(source, file, kind, threads)
            stored = tensor_storage(file, units)
            with LlamaCppModel(file, threads, text.sequence) as peer:
                measured = [
                    _distances(log_probability, peer.logits(row.tolist())[scored])
                    for log_probability, row in zip(original, rows, strict=True)
                ]
            kl, same = (torch.cat(values).double() for values in zip(*measured, strict=True))
            yield {
                "kind": kind,
                "bits_per_weight": bits_per_weight(stored),
                "bytes_read": bytes_read(stored),
                "kl": float(kl.mean()),
                "kl_error": float(kl.std() / math.sqrt(len(kl))),
                "same_top": float(same.mean()),
            }
            if file != source:
                file.unlink()


def bits_per_weight(stored: Sequence[TensorStorage]) -> float:
    """Return the mean bits of a weight of the layers' matrices, scales included."""
    matrices = [tensor for tensor in stored if tensor.is_matrix and tensor.name.startswith("blk.")]
    return 8 * sum(tensor.bytes for tensor in matrices) / sum(tensor.weights for tensor in matrices)


def bytes_read(stored: Sequence[TensorStorage]) -> int:
    # A token reads one row of the embedding, which counts as nothing, unless it is the head as well.
    tied = all(tensor.name != "output.weight" for tensor in stored)
    return sum(tensor.bytes for tensor in stored if tied or tensor.name != "token_embd.weight")


def _distances(original: Tensor, logits: Tensor) -> tuple[Tensor, Tensor]:
    """Return each token's KL(original || quantized) in nats and whether both prefer the same token."""
    return divergences(original, log_probabilities(logits)), original.argmax(-1) == logits.argmax(-1)
