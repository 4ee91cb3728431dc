"""Passes of a text that several measurements of one model share."""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from torch import Tensor

from wina_core.compute.gating import Gates
from wina_core.compute.models.passage import Passage, PassCheckpoint
from wina_core.compute.models.view import ModelView
from wina_core.compute.reporter import Reporter
from wina_core.compute.stages import Stages

_Lane = Gates | None
"""A configuration; None for the dense model."""


@dataclass(frozen=True, eq=False)
class _Carried:
    rows: Tensor
    size: int
    lanes: list[_Lane]
    passage: Passage


def report_scored(view: ModelView, rows: Tensor, done: int, metric: str, reporter: Reporter) -> None:
    """Report that so many rows of a text were scored after it has passed the layers."""
    passed = _layers_share(view)
    reporter.progress((passed + (1 - passed) * done / len(rows)) * rows.numel(), rows.numel(), "tokens", metric)


def _layers_share(view: ModelView) -> float:
    """Return the share of a pass that the decoder layers take, and not the head, by their weights."""
    layers = sum(map(sum, view.layout.parameters))
    return layers / (layers + view.head.in_features * view.head.out_features)


class SharedPasses:
    """Hidden states of texts after a model's last layer, for several measurements.

    Gates are passed once, so that their counts are those of the one pass; the dense model's states are kept for all.
    """

    def __init__(self, stages: Stages | None = None) -> None:
        self._carried: list[_Carried] = []
        self._stages = stages or Stages()
        self._names: dict[_Lane, str] = {None: "dense"}
        self._used: set[str] = set()
        """Checkpoints of these passes."""

    def name(self, lane: Gates, name: str) -> None:
        """Name a configuration's gates; a pass of named ones alone is kept, and continues after an interruption."""
        self._names[lane] = name

    def batch_size(self, rows: Tensor, otherwise: int) -> int:
        """Return the batch size in which ids [rows, sequence] were carried, if it is no larger than otherwise.

        What was carried in larger batches is forgotten: memory has run out with them.
        """
        self._carried = [each for each in self._carried if each.size <= otherwise or not each.rows.equal(rows)]
        return next((each.size for each in self._carried if each.rows.equal(rows)), otherwise)

    def carry(
        self,
        view: ModelView,
        rows: Tensor,
        size: int,
        lanes: Sequence[_Lane],
        reporter: Reporter,
        doing: str = "",
    ) -> None:
        """Carry a text through the layers in these lanes, except for those that it has passed."""
        wanted = [lane for lane in lanes if self._find(rows, size, lane) is None]
        if not wanted:
            return
        with ExitStack() as stack:
            for lane in wanted:
                if lane is not None:
                    lane.reset_counts()
                    stack.enter_context(lane.removed())
            passage = Passage(view, rows.split(size), wanted)
            checkpoint = None
            if all(lane in self._names for lane in wanted):
                checkpoint = self._checkpoint(passage.digest, [self._names[lane] for lane in wanted])
            for layer in passage.layers(reporter, where="on the fidelity text", checkpoint=checkpoint):
                done = layer.index + 1
                share = _layers_share(view) * done / len(view.layers)
                reporter.progress(
                    share * rows.numel(), rows.numel(), "tokens", f"{doing}layer {done} of {len(view.layers)}"
                )
        self._carried.append(_Carried(rows, size, wanted, passage))

    def _checkpoint(self, text: str, lanes: Sequence[str]) -> PassCheckpoint:
        """Return the place of a pass, named by its text and lanes; it continues one with more lanes, if there is one.

        Other engines may carry the same text in other lanes at the same time.
        """
        name = f"{text}-{hashlib.sha256(' '.join(lanes).encode()).hexdigest()[:16]}"
        stages = ((each, self._stages.read(each)) for each in self._stages.names(text))
        held = {each: set(stage.note.get("lanes", ())) for each, stage in stages if stage is not None}
        earlier = next((each for each, known in held.items() if set(lanes) <= known), name)
        self._used |= {name, earlier}
        return PassCheckpoint(self._stages, name, lanes, earlier)

    def finish(self) -> None:
        """Remove the checkpoints of these passes, and those that ended processes have left."""
        self._stages.remove({*self._used, *self._stages.left_behind()})

    @contextmanager
    def arriving(self, rows: Tensor, size: int, lane: _Lane) -> Iterator[None]:
        """Let model calls on batches of a carried text skip the layers within the block, in one lane."""
        found = self._find(rows, size, lane)
        assert found is not None
        with found.passage.arriving(found.lanes.index(lane)):
            yield

    def forget(self, lane: Gates) -> None:
        """Free what has passed these gates."""
        self._names.pop(lane, None)
        for each in self._carried:
            if lane in each.lanes:
                each.passage.forget(each.lanes.index(lane))
        self._carried = [each for each in self._carried if set(each.lanes) != {lane}]

    def _find(self, rows: Tensor, size: int, lane: _Lane) -> _Carried | None:
        same = (each for each in self._carried if each.size == size and each.rows.equal(rows))
        return next((each for each in same if lane in each.lanes), None)
