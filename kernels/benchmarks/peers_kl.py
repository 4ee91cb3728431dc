"""Divergence of llama.cpp's quantizations from the original model, on the tokens that `wina` reads of a text.

    python kernels/benchmarks/run.py peers-kl --model demo --text demo:heldout --kinds Q8_0 Q4_K_M Q4_0 Q3_K_M

The original is computed in float32 over the stored weights and written as GGUF in float32; llama.cpp quantizes that
file and reads the same rows of tokens. The file itself is compared too: what it shows is the noise of llama.cpp's
arithmetic (16-bit cache). KL(original || quantized) is in nats, averaged over the second half of each row, as
llama-perplexity does. The study demo-quantized measures the workbench's quantizations.
"""

import argparse
import math
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from comparing import write_json
from peers import TensorStorage, quantize_gguf, tensor_storage, write_gguf
from torch import Tensor

from wina_core.compute.evaluation.fidelity import scored_positions
from wina_core.compute.gguf.convert import LlamaCppModel, peer_package
from wina_core.compute.models.loading import load_model
from wina_core.compute.models.logits import divergences, log_probabilities
from wina_core.compute.models.text_tokens import read_tokens
from wina_core.compute.reporter import NullReporter
from wina_core.specs import ModelSource, TextSpec

KINDS = ("Q8_0", "Q6_K", "Q5_K_M", "Q4_K_M", "Q4_0", "Q3_K_M", "Q2_K")


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="run.py peers-kl", description=__doc__.splitlines()[0])
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
