"""Errors of one decoder layer's output at many sparsities, each recomputed only from where it differs.

TEAL's greedy search needs thousands of them, neighbours in a single cell. Three facts save work:

- The error covers the last quarter of every sequence, and all after the attention works token by token: o and what
  follows it are computed for those tokens alone.
- The layer's input is fixed, so an output of q, k or v depends on its own target alone, and o's input on those three.
- The MLP's input depends on q, k, v, o: outputs of gate and up are kept by these and their own target. After a step
  of down, only down is recomputed for a candidate; after one of gate, only gate and down.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from typing import Generic, TypeVar

import torch
from torch import Tensor, nn

from wina_core.compute.allocation.cells import Cells, Values
from wina_core.compute.allocation.gated import Subject
from wina_core.compute.gating.linear import GatedForward
from wina_core.compute.gating.tokens import dense_prefix
from wina_core.compute.models.finite import check_numbers
from wina_core.compute.models.passes import layer_call, replaced, stopping_at
from wina_core.errors import WinaError
from wina_core.specs.methods import get_method
from wina_core.specs.plans import SparsityPlan

T = TypeVar("T")
Forward = Callable[[Tensor], Tensor]

_ATTENTION = ("q", "k", "v")
_MLP = ("gate", "up")
_LAST = 0.25
"""Fraction of each sequence's tokens, at its end, that errors cover (TEAL's `last_fraction`)."""


def first_gated(sequence: int) -> int:
    """Return the position where the last quarter of a sequence begins."""
    return int(sequence * (1 - _LAST))


def output_error(dense: Tensor, output: Tensor) -> float:
    """Return the L2 norm over tokens of the difference of two outputs [rows, tokens, d], mean over rows and
    channels."""
    return float(torch.linalg.vector_norm((dense - output).double(), dim=1).mean())


class LayerErrors:
    """Errors of one decoder layer in the dense model's stream, on `tokens` [rows, sequence].

    `cells` are that layer's alone. `check` is called before each error and may raise. `prefix` is the fraction of each
    sequence's first tokens whose q, k and v stay dense, at most three quarters. Raises WinaError if the layer's output,
    dense or gated, is not numbers.
    """

    def __init__(
        self,
        subject: Subject,
        cells: Cells,
        layer: int,
        tokens: Tensor,
        check: Callable[[], None] = lambda: None,
        prefix: float = 0.0,
    ) -> None:
        self._subject, self._check = subject, check
        everything = torch.ones(tokens.shape, dtype=torch.bool, device=tokens.device)
        self._prefix = dense_prefix(everything, prefix) if prefix > 0 else None
        self.evaluations = 0
        """Number of evaluations."""
        self.latest = 0.0
        """Latest error."""
        self._cells = cells
        self._view = subject.loaded.view.layers[layer]
        self._hidden, self._arguments = layer_call(subject.loaded.view, layer, tokens)
        self._first = first_gated(tokens.shape[1])
        self._columns: dict[nn.Module, list[int]] = {}
        """{linear layer: its columns of the plan}, several for fused ones."""
        for projection in self._view.matrices(cells.layout.projections):
            column = cells.layout.projections.index(projection.name)
            self._columns.setdefault(projection.linear, []).append(column)
        self._output = self._view.projections["o"].linear
        self._attention = _owner(self._view.module, self._output)
        self._together = get_method(subject.method).by_gate_activation
        """Whether a gate needs another part of the layer, so that none works alone."""
        self._memory: _Memory[Tensor] = _Memory(2 * len(cells.blocks))
        self._gates: _Memory[Forward] = _Memory(2 * len(cells.blocks))
        self._dense = self._outputs((0.0,) * len(cells.blocks))
        check_numbers(self._dense, f"activations in layer {layer}")

    def __call__(self, values: Values) -> float:
        """Return the error at these sparsities, one for each of the layer's blocks."""
        self._check()
        self.evaluations += 1
        self.latest = output_error(self._dense, self._outputs(values))
        if not math.isfinite(self.latest):
            raise WinaError(
                f"The gated model's activations in layer {self._view.index} are not numbers; choose less sparsity or "
                "another dtype."
            )
        return self.latest

    @torch.no_grad()
    def _outputs(self, values: Values) -> Tensor:
        """Return the layer's output for the counted tokens, [rows, tokens, d]."""
        self._memory.next()
        self._gates.next()
        plan = self._cells.plan(values, "greedy")
        targets = plan.sparsity[self._view.index]
        names = self._cells.layout.projections
        attention = tuple(targets[names.index(name)] for name in _ATTENTION)
        with self._gated(plan):
            inner = self._memory(("inner", attention), lambda: self._attended(targets))
            return self._finished(inner, targets, attention)

    @contextmanager
    def _gated(self, plan: SparsityPlan) -> Iterator[None]:
        """Gate the layer by the plan within the block; each linear layer's gate is made once, since column norms are
        slow."""
        if self._together:
            with self._subject.gated(plan, [self._view.index]):
                yield
            return
        keys = {linear: (linear, self._targets(linear, plan.sparsity[self._view.index])) for linear in self._columns}
        known = all(key in self._gates for key in keys.values())
        with nullcontext() if known else self._subject.gated(plan, [self._view.index]):
            forwards = {linear: self._gates(key, partial(getattr, linear, "forward")) for linear, key in keys.items()}
        with ExitStack() as stack:
            for linear, forward in forwards.items():
                stack.enter_context(replaced(linear, forward))
            yield

    def _attended(self, targets: tuple[float, ...]) -> Tensor:
        """Return o's input for the counted tokens, [rows, tokens, n]."""
        with self._leaving_prefix(), self._remembering(_ATTENTION, targets, ()), stopping_at(self._output) as reached:
            self._view.module(self._hidden, **self._arguments)
        ((inner, *_), _), *_ = reached
        return inner[:, self._first :].contiguous()

    @contextmanager
    def _leaving_prefix(self) -> Iterator[None]:
        contexts = {linear.forward.context for linear in self._columns if isinstance(linear.forward, GatedForward)}
        for context in contexts:
            context.begin(dense=self._prefix)
        try:
            yield
        finally:
            for context in contexts:
                context.begin()

    def _finished(self, inner: Tensor, targets: tuple[float, ...], attention: tuple[float, ...]) -> Tensor:
        before = (attention, self._targets(self._output, targets))
        output = self._memory(("o", before), lambda: self._output(inner))
        with (
            replaced(self._attention, lambda *_args, **_kwargs: (output, None)),
            self._remembering(_MLP, targets, before),
        ):
            result = self._view.module(self._hidden[:, self._first :], **self._arguments)
        return result[0] if isinstance(result, tuple) else result

    @contextmanager
    def _remembering(self, names: Sequence[str], targets: tuple[float, ...], before: Hashable) -> Iterator[None]:
        """Compute each output of these projections only once within the block; `before` identifies their inputs."""
        with ExitStack() as stack:
            for linear in dict.fromkeys(projection.linear for projection in self._view.matrices(names)):
                key = (linear, before, self._targets(linear, targets))
                stack.enter_context(replaced(linear, partial(self._recall, linear.forward, key)))
            yield

    def _recall(self, forward: Forward, key: Hashable, x: Tensor) -> Tensor:
        return self._memory(key, lambda: forward(x))

    def _targets(self, linear: nn.Module, targets: tuple[float, ...]) -> tuple[float, ...]:
        return tuple(targets[column] for column in self._columns[linear])


class _Memory(Generic[T]):
    """A cache that forgets entries unused for `patience` evaluations."""

    def __init__(self, patience: int) -> None:
        self._patience = patience
        self._evaluation = 0
        self._entries: dict[Hashable, tuple[int, T]] = {}

    def next(self) -> None:
        """Start another evaluation."""
        self._evaluation += 1
        oldest = self._evaluation - self._patience
        self._entries = {key: entry for key, entry in self._entries.items() if entry[0] >= oldest}

    def __contains__(self, key: Hashable) -> bool:
        return key in self._entries

    def __call__(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Return the entry of this key, computing it if missing."""
        value = self._entries[key][1] if key in self._entries else compute()
        self._entries[key] = self._evaluation, value
        return value


def _owner(root: nn.Module, part: nn.Module) -> nn.Module:
    return next(module for module in root.modules() if part in module.children())
