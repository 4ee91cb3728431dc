"""KL divergences from dense of many plans on one text, each pass starting where the plan first differs.

A search's progress is a journal on disk, from which a cancelled or killed search resumes.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from wina_core.compute import pausable_clock
from wina_core.compute.allocation.cells import AllocationSubject, Cells, PlanCandidate
from wina_core.compute.hooks import hooked
from wina_core.compute.models.finite import check_numbers
from wina_core.compute.models.logits import ScoredPositions, divergences, scored_log_probabilities
from wina_core.compute.models.passage import replaced
from wina_core.compute.models.view import ModelView
from wina_core.compute.reporter import Reporter
from wina_core.errors import WinaError
from wina_core.files.tables import write_atomically
from wina_core.files.user_file import read_file

BATCH_TOKENS = 512
"""Tokens of a pass."""


def batches_of(tokens: Tensor) -> tuple[Tensor, ...]:
    """Return rows of tokens [rows, sequence] in batches of about `BATCH_TOKENS`."""
    return tokens.split(max(1, BATCH_TOKENS // tokens.shape[1]))


class Divergence:
    """Measure of mean KL(dense || gated) per scored token, in nats, on `tokens` [rows, sequence]."""

    def __init__(
        self, subject: AllocationSubject, cells: Cells, tokens: Tensor, journal: Journal, reporter: Reporter
    ) -> None:
        self._subject, self._loaded, self._cells = subject, subject.loaded, cells
        self._batches = batches_of(tokens)
        self._tokens, self._scored = tokens.numel(), ScoredPositions.of(self._loaded.view, tokens).count(tokens)
        self._journal, self._reporter = journal, reporter

    @property
    def passes(self) -> float:
        """Forward passes so far, in passes of the whole model over the whole text."""
        return float(self._journal.state.get("passes", 0.0))

    def measure(
        self, candidates: Sequence[PlanCandidate], base: PlanCandidate | None, progress: Callable[[float], None]
    ) -> list[float]:
        """Return the divergence of each candidate; `progress` receives the finished fraction.

        `base` is the plan that most candidates mostly share, None for dense: a pass begins at the first decoder layer
        that differs from it. The journal is written after every batch of the text, and the same question resumes from
        it; `Journal.save(measured=None)` starts another question. Raises WinaError if the dense or a gated model's
        logits are not numbers.
        """
        done, sums = self._journal.state.get("measured") or (0, [0.0] * len(candidates))
        for index in range(done, len(self._batches)):

            def report(fraction: float, index: int = index) -> None:
                progress((index + fraction) / len(self._batches))

            batch_sums = self._batch(self._batches[index], candidates, base, report)
            sums = [total + value for total, value in zip(sums, batch_sums, strict=True)]
            share = self._batches[index].numel() / self._tokens
            work = sum(1 - self._start(candidate, base) / self._cells.layout.layers for candidate in candidates)
            self._journal.save(measured=(index + 1, sums), passes=self.passes + share * (work + 1 + (base is not None)))
        return [total / self._scored for total in sums]

    @torch.no_grad()
    def _batch(
        self,
        rows: Tensor,
        candidates: Sequence[PlanCandidate],
        base: PlanCandidate | None,
        progress: Callable[[float], None],
    ) -> list[float]:
        rows = rows.to(self._loaded.device)
        hidden: list[Any] = []
        with recording(self._loaded.view, hidden):
            dense = scored_log_probabilities(self._loaded.view, rows)
        check_numbers(dense)
        if base is not None:  # candidates then start from the base's states, at their first different layer
            hidden.clear()
            with recording(self._loaded.view, hidden), self._gated(base, 0):
                self._loaded.model(rows, use_cache=False)
        sums = []
        for done, candidate in enumerate(candidates, start=1):
            self._reporter.check()
            first = self._start(candidate, base)
            with self._gated(candidate, first), replaying(self._loaded.view, hidden[:first]):
                gated_logs = scored_log_probabilities(self._loaded.view, rows)
            value = float(divergences(dense, gated_logs).sum(dtype=torch.float64))
            if not math.isfinite(value):
                raise WinaError("The gated model's logits are not numbers; choose less sparsity or another dtype.")
            sums.append(value)
            progress(done / len(candidates))
        return sums

    def _start(self, candidate: PlanCandidate, base: PlanCandidate | None) -> int:
        if base is None:
            pairs = [(value, 0.0) for value in candidate.values]
        else:
            pairs = list(zip(candidate.values, base.values, strict=True))
        differing = [block.layer for block, (one, other) in zip(self._cells.blocks, pairs, strict=True) if one != other]
        # A plan that equals the base needs its last layer alone, for the logits.
        return min(differing, default=self._cells.layout.layers - 1)

    @contextmanager
    def _gated(self, candidate: PlanCandidate, first: int) -> Iterator[None]:
        """Gate the layers from `first` to the last that drops anything, within the block."""
        last = max(
            (block.layer for block, value in zip(self._cells.blocks, candidate.values, strict=True) if value > 0),
            default=-1,
        )
        if last < first:
            yield
            return
        plan = self._cells.plan(candidate.values, "search", candidate.rho)
        with self._subject.gated(plan, range(first, last + 1)):
            yield


def recording(view: ModelView, hidden: list[Any]) -> AbstractContextManager[None]:
    """Append each decoder layer's output to `hidden` within the block."""
    return hooked(
        layer.module.register_forward_hook(lambda _module, _args, output: hidden.append(output))
        for layer in view.layers
    )


@contextmanager
def replaying(view: ModelView, hidden: Sequence[Any]) -> Iterator[None]:
    """Let the first decoder layers return their recorded outputs within the block."""
    with ExitStack() as stack:
        for layer, output in zip(view.layers, hidden, strict=False):
            # `output=output` binds the output of this layer; the name alone would mean the last one's.
            stack.enter_context(replaced(layer.module, lambda *_args, output=output, **_kwargs: output))
        yield


class Journal:
    """A JSON object in a file, replaced atomically at every step; in memory alone without a file.

    A digest of the file's name and the object comes first, so only what was written for the same question is read.
    """

    def __init__(self, file: Path | None, reporter: Reporter) -> None:
        self._file = file
        self._reporter = reporter
        self.state: dict[str, Any] = {} if file is None else self._read(file)
        self._start = pausable_clock.now() - float(self.state.get("seconds", 0.0))

    @property
    def seconds(self) -> float:
        """Duration of the search, with the time before an interruption."""
        return pausable_clock.now() - self._start

    def save(self, **changes: Any) -> None:
        """Change some entries, of finite numbers, and write them all; a full disk only loses the ability to resume."""
        self.state |= {**changes, "seconds": self.seconds}
        if self._file is None:
            return
        content = json.dumps(self.state, allow_nan=False).encode()
        try:
            write_atomically(self._file, _digest(self._file, content) + b"\n" + content)
        except WinaError as error:
            self._reporter.log("warning", f"The search could not be resumed if it ended now: {error}")
            self._file = None

    def _read(self, file: Path) -> dict[str, Any]:
        if not file.exists():
            return {}
        try:
            digest, _, content = read_file(file, "cache").partition(b"\n")
        except WinaError as error:
            self._reporter.log("warning", f"The search begins at the start. {error}")
            return {}
        if digest != _digest(file, content):
            self._reporter.log("warning", f"Searching from the start, {file} is damaged or of another search.")
            return {}
        state: dict[str, Any] = json.loads(content)
        return state


def _digest(file: Path, content: bytes) -> bytes:
    return hashlib.sha256(file.name.encode() + b"\n" + content).hexdigest().encode()
