"""TEAL's greedy allocation within one decoder layer (Liu et al., "Training-Free Activation Sparsity in Large Language
Models", algorithm 1): its search on numbers alone, and the errors of the layer's output that it minimizes.

The search is corrected, or as two repositories released it. `wina_released` (microsoft/wina, wina/greedyopt.py):
matrices count by their true sizes, fused ones as one block; the search masks by the dense model's thresholds and leaves
the first 1 % of each sequence dense. `teal_released` (FasterDecoding/TEAL, teal/greedyopt.py): k and v count an eighth
of q whatever their size, in Llama-3-8B a quarter; the first half of each sequence is dense, and its own base step is
0.05. Both may step beyond 1, and take the written row closest to the budget.

The search needs thousands of errors, of neighbours in a single cell, each recomputed only from where it differs. Three
facts save work:

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
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

import torch
from torch import Tensor, nn

from wina_core.compute.allocation.cells import MAX_TARGET, AllocationSubject, Block, Cells, Values
from wina_core.compute.gating.linear import GatedForward
from wina_core.compute.gating.rules import dense_prefix
from wina_core.compute.models.finite import check_numbers
from wina_core.compute.models.passage import layer_call, replaced, stopping_at
from wina_core.errors import WinaError
from wina_core.specs.allocations import GreedyVariant
from wina_core.specs.methods import get_method
from wina_core.specs.plans import PlanLayout, SparsityPlan

Error = Callable[[Values], float]
"""The error of a layer's output at these sparsities, one for each of its blocks."""

RELEASED_PREFIX: dict[GreedyVariant, float] = {"wina_released": 0.01, "teal_released": 0.5}
"""Fraction of each sequence's first tokens that the released searches leave dense."""
_ALL = 0.9999
"""Sparsity at which a released search tries targets of 1 and beyond: their inverse CDFs end at the largest values."""
_KEY_VALUE_WEIGHT, _OF_LLAMA_3_8B = 1 / 8, 1 / 4
"""Weight of k and v relative to q in TEAL's table of models."""


@dataclass(frozen=True)
class Steps:
    """The steps of a search, and its end."""

    weights: Values
    """Weight of each block in the budget, relative to the layer's whole."""
    sizes: Values
    """Sparsity that one step adds to each block."""
    budget: float
    exact: bool
    """Whether to stay within MAX_TARGET and end on the budget by a smaller last step. Otherwise the search ends after a
    whole step, at the one of the last two rows that is closer to the budget."""

    def spent(self, values: Values) -> float:
        return sum(weight * value for weight, value in zip(self.weights, values, strict=True))


def corrected_steps(blocks: Sequence[Block], layout: PlanLayout, budget: float, step: float) -> Steps:
    """Return steps that each drop as many weights as `step` of q does, for the blocks of one layer."""
    parameters = layout.parameters[blocks[0].layer]
    unit = step * parameters[layout.projections.index("q")] / sum(parameters)
    weights = tuple(block.weight for block in blocks)
    return Steps(weights, tuple(unit / weight for weight in weights), budget, exact=True)


def released_steps(
    blocks: Sequence[Block], layout: PlanLayout, budget: float, step: float, key_value_weight: float | None = None
) -> Steps:
    """Return the steps of released code: a block's weight is its size over q's, and its step is `step` over that.

    `key_value_weight` replaces the weight of k and v, as in TEAL's table. If it is not their size, the plan's own
    budget differs slightly from the requested one.
    """
    parameters = layout.parameters[blocks[0].layer]
    query = parameters[layout.projections.index("q")]
    relative = [
        key_value_weight if key_value_weight is not None and name in ("k", "v") else count / query
        for name, count in zip(layout.projections, parameters, strict=True)
    ]
    weights = [sum(relative[column] for column in block.columns) for block in blocks]
    total = sum(relative)
    return Steps(
        tuple(weight / total for weight in weights), tuple(step / weight for weight in weights), budget, exact=False
    )


def teal_key_value_weight(family: str, layout: PlanLayout) -> float:
    """Return the weight of k and v in TEAL's table: a quarter of q in Llama-3-8B, an eighth in all other models.

    Llama-3-8B is recognized by its family and a k of a quarter of q's size; Mistral-7B, of the same sizes, has an
    eighth.
    """
    q, k = (layout.parameters[0][layout.projections.index(name)] for name in ("q", "k"))
    return _OF_LLAMA_3_8B if family == "llama" and q == 4 * k else _KEY_VALUE_WEIGHT


def search(error: Error, steps: Steps, values: Values, accepted: Callable[[Values], None]) -> Values:
    """Repeat the step of lowest error from `values`, all 0 at the start, until the budget is met.

    `accepted` receives the values after every step; with released steps only while budget is left, because the end
    depends on the last two. The first block wins among equals.
    """
    blocks = range(len(values))
    while (room := steps.budget - steps.spent(values)) > 1e-9:
        best: tuple[float, Values] | None = None
        for block in blocks:
            value = values[block]
            # The released searches step up to 1, past the largest target of a plan.
            if value >= (MAX_TARGET if steps.exact else 1.0):
                continue
            step = steps.sizes[block]
            if steps.exact:
                step = min(step, room / steps.weights[block], MAX_TARGET - value)
            candidate = (*values[:block], value + step, *values[block + 1 :])
            candidate_error = error(tuple(min(target, MAX_TARGET if steps.exact else _ALL) for target in candidate))
            if best is None or candidate_error < best[0]:
                best = candidate_error, candidate
        if best is None:
            break  # only as released: its weights can ask for more than dropping everything
        before, values = values, best[1]
        beyond = steps.spent(values) - steps.budget
        if steps.exact or beyond < -1e-9:
            accepted(values)
        elif any(before) and steps.budget - steps.spent(before) <= beyond:
            return before
    return values


T = TypeVar("T")
Forward = Callable[[Tensor], Tensor]

_ATTENTION = ("q", "k", "v")
_MLP = ("gate", "up")
_LAST = 0.25
"""Fraction of each sequence's tokens, at its end, that errors cover (TEAL's `last_fraction`)."""


def first_gated(sequence: int) -> int:
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
        subject: AllocationSubject,
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
        """Whether gates read other parts of the layer, so that they are made together."""
        # A step evaluates one candidate for each block: entries that two steps did not use belong to older rows.
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
        is_cached = all(key in self._gates for key in keys.values())
        with nullcontext() if is_cached else self._subject.gated(plan, [self._view.index]):
            # Read within the block, where `forward` is the gated one.
            forwards = {linear: self._gates(key, partial(getattr, linear, "forward")) for linear, key in keys.items()}
        with ExitStack() as stack:
            for linear, forward in forwards.items():
                stack.enter_context(replaced(linear, forward))
            yield

    def _attended(self, targets: tuple[float, ...]) -> Tensor:
        """Return o's input for the counted tokens, [rows, tokens, n]."""
        # The pass ends at o's input: nothing behind it is needed.
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
        # The attention module returns its stored output, so that the pass computes the residual and the MLP alone.
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
        self._evaluation += 1
        oldest = self._evaluation - self._patience
        self._entries = {key: entry for key, entry in self._entries.items() if entry[0] >= oldest}

    def __contains__(self, key: Hashable) -> bool:
        return key in self._entries

    def __call__(self, key: Hashable, compute: Callable[[], T]) -> T:
        value = self._entries[key][1] if key in self._entries else compute()
        self._entries[key] = self._evaluation, value
        return value


def _owner(root: nn.Module, child: nn.Module) -> nn.Module:
    return next(module for module in root.modules() if child in module.children())
