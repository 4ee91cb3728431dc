"""Measurements of each width and sparsity of a block alone: divergence, bits read and bits held."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from wina_core.compute.allocation.cells import Block, Cells
from wina_core.compute.allocation.divergence import BATCH_TOKENS, recording, replaying
from wina_core.compute.allocation.gated import Subject
from wina_core.compute.allocation.journal import Journal
from wina_core.compute.gating.bits import stored_bits
from wina_core.compute.models.finite import check_numbers
from wina_core.compute.models.logits import divergences, scored_log_probabilities
from wina_core.compute.models.quantized_linear import places_of
from wina_core.compute.models.scored_positions import ScoredPositions
from wina_core.compute.reporter import Reporter
from wina_core.errors import WinaError

LEVELS = (0.0, 0.15, 0.35, 0.55, 0.75)
"""Sparsities at which each width of a block is measured."""

Variants = Mapping[float, Mapping[tuple[int, str], nn.Linear]]
"""The quantized layer of each (decoder layer, projection), by its width."""


@dataclass(frozen=True)
class Measured:
    """Measurements of all blocks, [blocks, widths, levels]; bits are sums over a block's weights."""

    divergence: np.ndarray
    """Nats per token."""
    read: np.ndarray
    """Bits read per token."""
    held: np.ndarray
    """Bits held, [blocks, widths]."""
    passes: float
    """Forward passes of the whole model over the whole text."""


class Measurement:
    """Passes of a model over a text, in each of which one block has other weights and gates."""

    def __init__(
        self, subject: Subject, cells: Cells, variants: Variants, levels: Sequence[float], reporter: Reporter
    ) -> None:
        self._subject, self._cells, self._variants = subject, cells, variants
        self._levels, self._reporter = levels, reporter
        self._places = places_of(subject.loaded.model)

    def measure(self, tokens: Tensor, journal: Journal, progress: Callable[[float], None]) -> Measured:
        """Measure every width and level of every block alone; an interrupted measurement resumes by `journal`.

        Raises WinaError if logits are not numbers, Cancelled between two passes.
        """
        batches = tokens.split(max(1, BATCH_TOKENS // tokens.shape[1]))
        shape = len(self._cells.blocks), len(self._variants), len(self._levels)
        done, sums = journal.state.get("measured") or (0, np.zeros((2, *shape)).tolist())
        total = np.array(sums)
        for index in range(done, len(batches)):

            def report(part: float, index: int = index) -> None:
                progress((index + part) / len(batches))

            found = self._batch(batches[index], report)
            total = total + batches[index].numel() * found
            journal.save(measured=(index + 1, total.tolist()))
        divergence, read = total / tokens.numel()
        held = [
            [sum(stored_bits(linear).held for linear in self._linears(block, width)) for width in self._variants]
            for block in self._cells.blocks
        ]
        layers = self._cells.layout.layers
        each = sum(1 - block.layer / layers for block in self._cells.blocks)
        return Measured(np.maximum(divergence, 0.0), read, np.array(held), 1 + each * shape[1] * shape[2])

    @torch.no_grad()
    def whole(self, tokens: Tensor, widths: Sequence[float], targets: Sequence[float]) -> float:
        """Return the divergence, in nats per token, with a width and a target for every block."""
        chosen, total = list(zip(self._cells.blocks, widths, strict=True)), 0.0
        plan, layers = self._cells.plan(targets, "search"), range(self._cells.layout.layers)
        for rows in tokens.split(max(1, BATCH_TOKENS // tokens.shape[1])):
            self._reporter.check()
            dense = scored_log_probabilities(self._subject.loaded.view, rows)
            with self._installed(chosen), self._with(chosen).gated(plan, layers):
                total += float(
                    divergences(dense, scored_log_probabilities(self._subject.loaded.view, rows)).sum(
                        dtype=torch.float64
                    )
                )
        return total / ScoredPositions.of(self._subject.loaded.view, tokens).count(tokens)

    @torch.no_grad()
    def _batch(self, rows: Tensor, progress: Callable[[float], None]) -> np.ndarray:
        hidden: list[Any] = []
        view = self._subject.loaded.view
        with recording(view, hidden):
            dense = scored_log_probabilities(self._subject.loaded.view, rows)
        check_numbers(dense)
        found = np.zeros((2, len(self._cells.blocks), len(self._variants), len(self._levels)))
        for place, block in enumerate(self._cells.blocks):
            with replaying(view, hidden[: block.layer]):
                for column, width in enumerate(self._variants):
                    chosen = block, width
                    with self._installed([chosen]):
                        for level, target in enumerate(self._levels):
                            self._reporter.check()
                            found[:, place, column, level] = self._alone(rows, dense, place, chosen, target)
            progress((place + 1) / len(self._cells.blocks))
        return found

    def _alone(
        self, rows: Tensor, dense: Tensor, place: int, chosen: tuple[Block, float], target: float
    ) -> tuple[float, float]:
        """Return the mean divergence and the bits read per token with one block gated."""
        values = [target if other == place else 0.0 for other in range(len(self._cells.blocks))]
        plan = self._cells.plan(values, "search")
        with self._with([chosen]).gated(plan, [chosen[0].layer]) as gates:
            divergence = float(
                divergences(dense, scored_log_probabilities(self._subject.loaded.view, rows)).mean(dtype=torch.float64)
            )
            read = gates.bits_of(self._linears(*chosen))
        if not np.isfinite(divergence):
            raise WinaError(
                "The gated model's logits are not numbers; choose more bits, less sparsity or another dtype."
            )
        return divergence, read

    def _linears(self, block: Block, width: float) -> list[nn.Linear]:
        return list({self._variants[width][block.layer, name]: None for name in self._names(block)})

    def _names(self, block: Block) -> list[str]:
        return [self._cells.layout.projections[column] for column in block.columns]

    def _with(self, chosen: Sequence[tuple[Block, float]]) -> Subject:
        """Return the subject with these blocks' quantized layers in its view."""
        view = self._subject.loaded.view
        layers = list(view.layers)
        for block, width in chosen:
            projections = dict(layers[block.layer].projections)
            for name in self._names(block):
                projections[name] = replace(projections[name], linear=self._variants[width][block.layer, name])
            layers[block.layer] = replace(layers[block.layer], projections=projections)
        return replace(self._subject, loaded=replace(self._subject.loaded, view=replace(view, layers=tuple(layers))))

    @contextmanager
    def _installed(self, chosen: Sequence[tuple[Block, float]]) -> Iterator[None]:
        """Put these blocks' quantized layers into the model within the block."""
        layers = self._subject.loaded.view.layers
        swaps = {
            layers[block.layer].projections[name].linear: self._variants[width][block.layer, name]
            for block, width in chosen
            for name in self._names(block)
        }
        for own, other in swaps.items():
            setattr(*self._places[own], other)
        try:
            yield
        finally:
            for own in swaps:
                setattr(*self._places[own], own)
