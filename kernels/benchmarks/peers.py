"""Greedy decoding beside llama.cpp, in one run, with a Llama of 1.1 B random parameters:

    python kernels/benchmarks/run.py peers

llama.cpp reads GGUF files of the same weights (F16, Q8_0, Q4_0, Q4_K_M) through llama-cpp-python; transformers decodes
densely in bfloat16; the workbench's compiled decoder drops 0, 50 and 65 % by WINA (top k, one mask for q, k, v and one
for gate, up) in 16, 8 and 4 bits, and reads about 4.5, 3.5 and 2.5 bits of planes that hold 6. All use two threads and
the same prompt, and take turns; speeds are medians from the first new token to the last, ratios medians over turns.
Before, a small model's logits show that the peer computes the same.

llama.cpp's files are written here, without a tokenizer: they serve token ids, so that llama.cpp reads the very tokens
that a model here reads.

Expected: at 50 %, 1.6 times F16 in 16 bits, 1.4 times Q8_0 in 8 and 1.2 times Q4_0 in 4; at 0 %, 0.9 times each. The
file `results/peers-cpu.json` is rewritten at the end. Needs the optional extra `peers`.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from comparing import spread, threads, write_results
from random_models import Size, generate, random_llama
from torch import Tensor
from torch.nn import functional
from transformers import StoppingCriteria

from wina_core.compute.gating import attach
from wina_core.compute.generation.compiled import compile_model
from wina_core.compute.gguf.convert import LlamaCppModel, peer_package
from wina_core.compute.models.loading import LoadedModel
from wina_core.compute.models.logits import relative_deviation
from wina_core.compute.models.quantize import quantize
from wina_core.compute.reporter import NullReporter
from wina_core.errors import WinaError
from wina_core.specs import MethodSpec, QuantizationSpec
from wina_core.specs.plans import UniformSparsity

METHOD = MethodSpec(name="wina", masks="shared")
PEERS = ("F16", "Q8_0", "Q4_0", "Q4_K_M")
DENSE = "transformers"
BITS = {16: "F16", 8: "Q8_0", 4: "Q4_0"}
"""The peer of each width."""
QUANTIZATIONS = {
    8: QuantizationSpec(quantizer="rtn", bits=8, group=128, head_bits=8),
    4: QuantizationSpec(quantizer="rtn", bits=4, group=64, head_bits=6),
}
"""8.25 and 4.5 bits per weight with scales and zeros; Q8_0 and Q4_0 have 8.5 and 4.5. The head has the bits of their
files: 8 for Q8_0 and 6 (Q6_K) for Q4_0."""
PLANES = QuantizationSpec(quantizer="planes", bits=6, head_bits=6)
READ = (4.5, 3.5, 2.5)
"""Bits read per weight that the targets of planes are set to, one target for all matrices."""
WANTED = {(16, 0.5): 1.6, (8, 0.5): 1.4, (4, 0.5): 1.2, (16, 0.0): 0.9, (8, 0.0): 0.9, (4, 0.0): 0.9}
"""Speed over the peer's by (bits, sparsity)."""
DIFFERENT = 5e-3
"""Relative deviation of logits from which on the models differ; llama.cpp's cache has 16 bits."""
RESULTS = Path(__file__).parent / "results" / "peers-cpu.json"
_BLOCK = 256
"""Weights of a row that llama.cpp's k-quants store together."""
Line = dict[str, Any]


_LLAMA = Size(hidden=2048, intermediate=8192, layers=16, heads=32, kv_heads=8)
SMALL = Size(hidden=256, intermediate=768, layers=2, heads=8, kv_heads=2)


@dataclass(frozen=True)
class Setting:
    """The decoded model and text."""

    size: Size = _LLAMA
    vocabulary: int = 32_000
    prompt: int = 16
    tokens: int = 17
    turns: int = 7
    threads: int = 2
    sparsities: tuple[float, ...] = (0.0, 0.5, 0.65)


TOY = Setting(size=SMALL, vocabulary=8192, prompt=4, tokens=3, turns=1, threads=1)


def run(out: Path | None, toy: bool) -> None:
    """Measure, print and write; exit with a message without the extra `peers`."""
    try:
        _, api = peer_package("gguf"), peer_package("llama_cpp")
    except WinaError as error:
        raise SystemExit(str(error)) from error
    setting = TOY if toy else Setting()
    with tempfile.TemporaryDirectory() as folder, threads(setting.threads):
        agreement = check_agreement(Path(folder))
        lines, bars = measure(setting, Path(folder))
    content = {
        "setting": {
            **setting.size.facts, "vocabulary": setting.vocabulary, "prompt": setting.prompt, "tokens": setting.tokens,
            "threads": setting.threads, "turns": setting.turns, "method": METHOD.label,
            "quantizations": {bits: spec.label for bits, spec in QUANTIZATIONS.items()},
        },
        "deviation_of_the_peers_logits": agreement,
        "speeds": lines,
        "bars": bars,
    }  # fmt: skip
    write_results(out or RESULTS, "peers", content, {"llama-cpp-python": api.__version__})


def check_agreement(folder: Path) -> float:
    """Return the relative deviation of llama.cpp's logits from transformers' on a small model; raise WinaError if
    it reaches DIFFERENT."""
    loaded, file = random_llama(SMALL), folder / "small.gguf"
    write_gguf(loaded.model, file, torch.float32)
    tokens = _prompt(64, SMALL.hidden)
    with torch.no_grad(), LlamaCppModel(file, 1) as peer:
        deviation = relative_deviation(peer.logits(tokens[0].tolist()), loaded.model(tokens).logits[0])
    if not deviation < DIFFERENT:
        raise WinaError(f"llama.cpp's logits of the same weights deviate by {deviation:.2g}; the GGUF file is wrong.")
    return deviation


@dataclass(frozen=True)
class PeerDecoder:
    """A contender: llama.cpp's quantization, transformers, or gates with a target."""

    name: str
    decode: Callable[[], float]
    """Decodes and returns tokens per second."""
    bits: int = 0
    sparsity: float = 0.0
    stored_bytes: int | None = None
    bits_read: float | None = None
    """Of planes."""


def measure(setting: Setting, folder: Path) -> tuple[list[Line], list[Line]]:
    """Return each contender's speed, and the bars."""
    prompt = _prompt(setting.prompt, setting.vocabulary)
    with ExitStack() as stack:
        decoders = list(_decoders(setting, prompt, folder, stack))
        turns = []
        for turn in range(setting.turns + 1):
            turns.append([decoder.decode() for decoder in decoders])
            _say(f"turn {turn}: {', '.join(f'{speed:.1f}' for speed in turns[-1])}")
    speeds = np.array(turns[1:])  # [turn, contender]; the first one warms up
    ratios = {decoder.name: speeds / speeds[:, [at]] for at, decoder in enumerate(decoders) if decoder.name in PEERS}
    lines = [
        {
            "contender": decoder.name, "bits": decoder.bits, "sparsity": decoder.sparsity,
            "tokens_per_second": asdict(spread(speeds[:, at])), "stored_bytes": decoder.stored_bytes,
            "bits_read": decoder.bits_read, "over Q4_0": float(np.median(ratios["Q4_0"][:, at])),
        }
        for at, decoder in enumerate(decoders)
    ]  # fmt: skip
    bars = []
    for (bits, sparsity), wanted in WANTED.items():
        key = ("gated", bits, sparsity)
        at = next(at for at, each in enumerate(decoders) if (each.name, each.bits, each.sparsity) == key)
        ratio, name = float(np.median(ratios[BITS[bits]][:, at])), f"{BITS[bits]}, {bits} bits, {100 * sparsity:g} %"
        bar = {"bar": f"tokens per second over {name}", "wanted": wanted, "measured": ratio, "met": ratio >= wanted}
        bars.append(bar)
        _say(f"{'met   ' if bar['met'] else 'MISSED'} {bar['bar']}: {ratio:.2f} of {wanted}")
    return lines, bars


def _decoders(setting: Setting, prompt: Tensor, folder: Path, stack: ExitStack) -> Iterator[PeerDecoder]:
    model = random_llama(setting.size, torch.bfloat16, setting.vocabulary)
    source = folder / "F16.gguf"
    for kind in PEERS:
        file = folder / f"{kind}.gguf"
        if kind == "F16":
            write_gguf(model.model, source)
        else:
            quantize_gguf(source, file, kind)
        stored = sum(tensor.bytes for tensor in tensor_storage(file, setting.size.intermediate))
        peer = stack.enter_context(LlamaCppModel(file, setting.threads))
        decode = lambda peer=peer: peer.tokens_per_second(prompt[0].tolist(), setting.tokens)[0]  # noqa: E731
        yield PeerDecoder(kind, decode, stored_bytes=stored)
    yield PeerDecoder(DENSE, partial(_decode, model, prompt, setting.tokens), 16)
    for bits in BITS:
        # A model of its own for each width, because quantizing changes it in place.
        gated_model = model if bits == 16 else random_llama(setting.size, torch.bfloat16, setting.vocabulary)
        if bits != 16:
            quantize(gated_model, QUANTIZATIONS[bits], NullReporter())
        for sparsity in setting.sparsities:
            yield PeerDecoder("gated", partial(_gated, gated_model, sparsity, prompt, setting.tokens), bits, sparsity)
    plane_model = random_llama(setting.size, torch.bfloat16, setting.vocabulary)
    quantize(plane_model, PLANES, NullReporter())
    for bits_read in READ:
        sparsity = _reading(plane_model, bits_read, prompt)
        decode = partial(_gated, plane_model, sparsity, prompt, setting.tokens)
        yield PeerDecoder("planes", decode, 0, sparsity, bits_read=bits_read)


def _prompt(tokens: int, below: int) -> Tensor:
    return torch.randint(below, (1, tokens), generator=torch.Generator().manual_seed(0))


def _gated(loaded: LoadedModel, sparsity: float, prompt: Tensor, count: int) -> float:
    with attach(loaded, METHOD, UniformSparsity(sparsity=sparsity), kernels=True) as gates:
        compiled = compile_model(loaded, gates, prompt.shape[1] + count)
        if isinstance(compiled, str):
            raise WinaError(f"The gated model is not compiled: {compiled}.")
        tokens = compiled.greedy(prompt)
        next(tokens)
        start = time.perf_counter()
        for _ in range(count - 1):
            next(tokens)
        return (count - 1) / (time.perf_counter() - start)


def _reading(loaded: LoadedModel, bits: float, prompt: Tensor) -> float:
    """Return the target at which decoding reads so many bits per weight in planes, to a hundredth of them."""
    low, high = 0.0, 0.99
    for _ in range(8):
        middle = (low + high) / 2
        with attach(loaded, METHOD, UniformSparsity(sparsity=middle), kernels=True) as gates:
            compiled = compile_model(loaded, gates, prompt.shape[1] + 4)
            assert not isinstance(compiled, str)  # the other widths were compiled
            tokens = compiled.greedy(prompt)
            next(tokens)
            gates.reset_counts()
            next(tokens)
            low, high = (low, middle) if gates.bits_read < bits else (middle, high)
    return high


def _decode(loaded: LoadedModel, prompt: Tensor, tokens: int) -> float:
    """Decode by transformers' generate() and return tokens per second from the first new token to the last."""
    clock = _PeerClock()
    generate(loaded, prompt, tokens, [clock])
    return (tokens - 1) / (clock.times[-1] - clock.times[0])


class _PeerClock(StoppingCriteria):
    """Stopping criterion that records each token's time; it never stops."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def __call__(self, input_ids: Tensor, scores: Tensor, **_: Any) -> Tensor:  # noqa: ARG002 - transformers' signature
        self.times.append(time.perf_counter())
        return torch.zeros(len(input_ids), dtype=torch.bool)


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')}  {text}", flush=True)


def write_gguf(model: Any, file: Path, dtype: torch.dtype = torch.float16) -> None:
    """Write a Llama of transformers as GGUF, matrices in float16 or float32, vectors in float32.

    The MLP is padded with zeros to a multiple of 256, which changes no output: llama.cpp leaves rows of other lengths
    in more bits.

    Raises WinaError for other models, scaled rotary embeddings and missing packages.
    """
    gguf = peer_package("gguf")
    config, rope = model.config, model.config.rope_parameters or {}
    if config.model_type != "llama" or rope["rope_type"] != "default":
        raise WinaError(
            f"Only a Llama without scaled rotary embeddings is written as GGUF, not a model of type {config.model_type}"
            "; choose another model, or wina export-gguf."
        )
    writer = gguf.GGUFWriter(file, "llama")
    writer.add_tokenizer_model("no_vocab")
    writer.add_vocab_size(config.vocab_size)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(_multiple(config.intermediate_size))
    writer.add_block_count(config.num_hidden_layers)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(config.head_dim)
    writer.add_value_length(config.head_dim)
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_rope_freq_base(float(rope["rope_theta"]))
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config.num_hidden_layers)
    tied = model.get_output_embeddings().weight is model.get_input_embeddings().weight
    for name, tensor in model.state_dict().items():
        if tied and name == "lm_head.weight":  # llama.cpp uses the embedding if there is none
            continue
        values = _as_in_llama_cpp(name.split(".")[-2], tensor.detach().float(), config)
        target = names.get_name(name, try_suffixes=(".weight", ".bias"))
        writer.add_tensor(target, values.to(torch.float32 if values.dim() == 1 else dtype).contiguous().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _as_in_llama_cpp(module: str, values: Tensor, config: Any) -> Tensor:
    """Return a matrix of the MLP with zeros for the added hidden units, and rows of q and k in another order.

    The rotary embedding of llama.cpp's Llamas turns neighbours (0, 1), (2, 3), ... instead of the halves of a head.
    """
    added = _multiple(config.intermediate_size) - config.intermediate_size
    if module == "down_proj":
        return functional.pad(values, (0, added))
    if module in ("gate_proj", "up_proj"):
        return functional.pad(values, (0, 0, 0, added))
    if module in ("q_proj", "k_proj"):
        heads = config.num_attention_heads if module == "q_proj" else config.num_key_value_heads
        return values.unflatten(0, (heads, 2, -1)).transpose(1, 2).flatten(0, 2)
    return values


def quantize_gguf(source: Path, target: Path, kind: str, threads: int = 2) -> None:
    """Write llama.cpp's quantization `kind`, such as Q4_K_M, of a GGUF file; raise WinaError on failure."""
    llama_cpp = peer_package("llama_cpp")
    ftype = getattr(llama_cpp, f"LLAMA_FTYPE_MOSTLY_{kind}", None)
    if ftype is None:
        raise WinaError(f'llama.cpp has no quantization "{kind}"; take one such as Q8_0, Q4_0, Q4_K_M or Q3_K_M.')
    parameters = llama_cpp.llama_model_quantize_default_params()
    parameters.ftype, parameters.nthread = ftype, threads
    if llama_cpp.llama_model_quantize(str(source).encode(), str(target).encode(), parameters) != 0:
        raise WinaError(f"llama.cpp could not quantize {source} to {kind}.")


@dataclass(frozen=True)
class TensorStorage:
    """One tensor of a GGUF file."""

    name: str
    weights: int
    bytes: int
    is_matrix: bool


def tensor_storage(file: Path, units: int) -> tuple[TensorStorage, ...]:
    """Return the storage of every tensor of a GGUF file, without the zeros that pad an MLP of `units` hidden units."""
    gguf = peer_package("gguf")
    storage = []
    for tensor in gguf.GGUFReader(file).tensors:
        real = units / _multiple(units) if ".ffn_" in tensor.name and len(tensor.shape) > 1 else 1.0
        weights, stored = round(real * int(tensor.n_elements)), round(real * int(tensor.n_bytes))
        storage.append(TensorStorage(str(tensor.name), weights, stored, len(tensor.shape) > 1))
    return tuple(storage)


def _multiple(units: int) -> int:
    return -(-units // _BLOCK) * _BLOCK
