"""Launches and bytes of a decoding step outside its matrix products, counted without a GPU:

    python kernels/benchmarks/run.py launches

A step of Llama-3-8B's shape runs on the meta device, where nothing is computed, and every operation and kernel is
counted: transformers' step and the fused one, dense and gated, by threshold and by top k, with masks that q, k, v and
gate, up share and with separate ones. A launch is taken to cost 2 microseconds within a CUDA graph, and bytes to move
at 4 TB/s. Bytes are those of all tensors that an operation reads or writes, each once, with the cache as long as the
context. Attention of transformers counts as one launch. Products are taken to read their weights, or the kept part of
them, at 4 TB/s, and to hide their own launches.

Expected: at most 15 % of a gated token outside of its products, at 50 % sparsity and 256 tokens of context.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from unittest import mock

import torch
from comparing import write_json
from gpu import PAGE
from gpu_decoding import LLAMA_3_8B, VOCABULARY
from random_models import Size, random_llama
from torch import Tensor
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from triton.runtime.jit import KernelInterface
from wina_kernels import dispatch
from wina_kernels.gpu import operands

from wina_core.compute.gating import Gates
from wina_core.compute.gating.rules import Rule
from wina_core.compute.generation.fused import fuse
from wina_core.compute.latency.graphs import GraphDecoder
from wina_core.compute.models.loading import LoadedModel
from wina_core.compute.scoring import InputSelection, ThresholdSelection, TopKSelection
from wina_core.specs import MethodSpec
from wina_core.specs.methods.base import BLOCKS

LAUNCH_SECONDS, BYTES_PER_SECOND = 2e-6, 4e12
SPARSITY = 0.5
_PRODUCTS = ("sparse_linear_kernel", "masked_linear_kernel")
_MULTIPLY = ("mm", "addmm", "mv")
_NO_LAUNCH = ("empty", "empty_like", "new_empty", "empty_strided", "detach", "_unsafe_view", "lift_fresh")
Way = Literal["transformers", "fused"]
_METHODS = (
    None,
    MethodSpec(name="wina", masks="shared", selection="threshold"),
    MethodSpec(name="wina", masks="shared", selection="topk"),
    MethodSpec(name="wina", masks="separate", selection="threshold"),
    MethodSpec(name="wina", masks="separate", selection="topk"),
)
"""The gates that are counted; None for the dense model."""


@dataclass
class Counted:
    """Launches and bytes of a step."""

    outside: Counter[str] = field(default_factory=Counter)
    """Launches outside of products, by name."""
    outside_bytes: int = 0
    products: int = 0
    product_bytes: float = 0

    @property
    def seconds_outside(self) -> float:
        return LAUNCH_SECONDS * self.outside.total() + self.outside_bytes / BYTES_PER_SECOND

    @property
    def share(self) -> float:
        """Fraction of the token's time outside of products."""
        return self.seconds_outside / (self.seconds_outside + self.product_bytes / BYTES_PER_SECOND)

    def add(self, name: str, tensors: list[Tensor], is_product: bool, read_share: float = 1.0) -> None:
        """Count a launch; a product reads only the fraction `read_share` of its largest tensor, the weight."""
        sizes = sorted(tensor.nbytes for tensor in {id(tensor): tensor for tensor in tensors}.values())
        if is_product:
            self.products += 1
            self.product_bytes += sum(sizes[:-1]) + read_share * sizes[-1]
        else:
            self.outside[name] += 1
            self.outside_bytes += sum(sizes)


class _Operations(TorchDispatchMode):
    """Within: torch's operations are counted."""

    def __init__(self, counted: Counted) -> None:
        super().__init__()
        self._counted = counted

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        if not func.is_view and name not in _NO_LAUNCH:
            tensors = _tensors((args, kwargs, result))
            self._counted.add(name, _read(name, tensors, args), name in _MULTIPLY)
        return result


def _read(name: str, tensors: list[Tensor], args: Any) -> list[Tensor]:
    """Return the tensors that an operation moves: only the selected rows of an indexed table or a cache."""
    if name in ("index_select", "embedding"):
        return [tensor for tensor in tensors if tensor is not args[0]]
    return [args[2], args[3]] if name == "index_copy_" else tensors


@contextmanager
def counting(sparsity: float) -> Iterator[Counted]:
    """Count operations and kernels, and launch no kernels; products keep 1 - sparsity of their weights."""
    counted = Counted()

    def launched(kernel: Any, _: Any) -> Callable[..., None]:
        name = kernel.fn.__name__
        return lambda *args, **__: counted.add(name, _tensors(args), name in _PRODUCTS, 1 - sparsity)

    def attention(query: Tensor, key: Tensor, value: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        counted.add("attention", _tensors((query, key, value, args, kwargs, query)), is_product=False)
        return torch.empty_like(query)

    with (
        mock.patch.object(KernelInterface, "__getitem__", launched),
        mock.patch.object(functional, "scaled_dot_product_attention", attention),
        _Operations(counted),
    ):
        yield counted


def _tensors(nested: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(nested) if isinstance(leaf, Tensor)]


def counted_step(way: Way, method: MethodSpec | None, context: int, size: Size, vocabulary: int) -> Counted | str:
    """Count a step at the end of a context, dense for no method; return the reason if it is not fused."""
    loaded = random_llama(size, torch.bfloat16, vocabulary, torch.device("meta"))
    with (
        mock.patch.object(operands, "INTERPRETED", new=True),  # otherwise the meta device is refused
        mock.patch.object(dispatch, "usable", return_value=("triton",)),
        mock.patch.object(dispatch, "fastest", return_value="triton"),
        nullcontext() if method is None else _gated(loaded, method) as gates,
        torch.no_grad(),
    ):
        fused = fuse(loaded, gates) if way == "fused" else None
        if isinstance(fused, str):
            return fused
        decoder = GraphDecoder(loaded.model, context, fused=fused)
        with counting(SPARSITY):  # makes the cache
            next(iter(decoder.tokens(torch.zeros(1, 1, dtype=torch.int64, device="meta"), 1)))
        with counting(0.0 if method is None else SPARSITY) as counted:
            decoder.advance()
        return counted


def _gated(loaded: LoadedModel, method: MethodSpec) -> Gates:
    """Gate by empty norms: on the meta device, only the kind of selection and the sizes matter."""
    table = []
    for layer in loaded.view.layers:
        row: dict[str, Rule] = {}
        for names in BLOCKS:
            inputs = layer.shape(names[0])[1]
            selection: InputSelection = ThresholdSelection("threshold", 1.0)
            if method.selection == "topk":
                selection = TopKSelection(round((1 - SPARSITY) * inputs))
            for sharing in (names,) if method.masks == "shared" else ((name,) for name in names):
                row |= dict.fromkeys(sharing, Rule(selection, torch.empty(inputs, device="meta")))
        table.append(row)
    return Gates(loaded.view, method, table, [{} for _ in table], dense_prefix=0.0, kernels=True)


def run(out: Path | None, toy: bool) -> None:
    size = Size(64, 128, 2, 4, 2) if toy else LLAMA_3_8B
    vocabulary = 1024 if toy else VOCABULARY
    steps = []
    for context in (256,) if toy else (256, 2048):
        for method in _METHODS:
            gates = "dense"
            if method is not None:
                gates = f"{'top k' if method.selection == 'topk' else 'threshold'}, {method.masks}"
            for way in ("transformers", "fused"):
                counted = counted_step(way, method, context, size, vocabulary)
                if isinstance(counted, str):
                    print(f"{way:12} {gates}, context {context}: not fused, since {counted}.", flush=True)
                    continue
                steps.append(
                    {
                        "step": way, "gates": gates, "sparsity": 0.0 if method is None else SPARSITY,
                        "context": context,
                        "launches_of_products": counted.products, "launches_outside": counted.outside.total(),
                        "megabytes_outside": counted.outside_bytes / 1e6,
                        "microseconds_outside": 1e6 * counted.seconds_outside,
                        "microseconds_of_products": 1e6 * counted.product_bytes / BYTES_PER_SECOND,
                        "share_outside": counted.share, "outside": dict(counted.outside.most_common()),
                    }
                )  # fmt: skip
    content = {
        "benchmark": "launches", **size.facts, "vocabulary": vocabulary, "launch_microseconds": 1e6 * LAUNCH_SECONDS,
        "terabytes_per_second": BYTES_PER_SECOND / 1e12, "steps": steps,
    }  # fmt: skip
    file = out or Path(__file__).parent / "results" / "launches.json"
    write_json(file, content)
    print("\n".join(table(steps)))
    if out is None:
        write_table(PAGE, steps)
    print(f"-> {file}")


def write_table(page: Path, steps: Sequence[Mapping[str, Any]]) -> None:
    """Replace the lines of the page's table of launches."""
    lines = page.read_text(encoding="utf-8").splitlines()
    new = list(table(steps))
    first = lines.index(new[0])
    end = lines.index("", first)
    page.write_text("\n".join([*lines[:first], *new, *lines[end:]]) + "\n", encoding="utf-8")


def table(steps: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the lines of the table of counted steps, those of `launches.json`."""
    yield "| step | gates | dropped | context | launches outside | MB outside | µs outside | of the token |"
    yield "|" + " --- |" * 8
    for step in steps:
        yield (
            f"| {step['step']} | {step['gates']} | {100 * step['sparsity']:g} % | {step['context']} | "
            f"{step['launches_outside']} | {step['megabytes_outside']:.1f} | {step['microseconds_outside']:.0f} | "
            f"{100 * step['share_outside']:.1f} % |"
        )
