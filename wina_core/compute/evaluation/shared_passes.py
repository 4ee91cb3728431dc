"""Passes of texts and requests that several measurements of one model share, in batches of as many sequences as
requested, or as memory allows.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeVar

from torch import Tensor

from wina_core.compute.gating import Gates
from wina_core.compute.latency.device import free_bytes
from wina_core.compute.memory import release_memory
from wina_core.compute.models.loading import LoadedModel
from wina_core.compute.models.passage import Lane, Passage, PassCheckpoint, digest_of
from wina_core.compute.models.view import LayerView, ModelView
from wina_core.compute.reporter import Reporter
from wina_core.compute.stages import Stages
from wina_core.errors import ran_out_of_memory

_Lane = Gates | None
"""A configuration; None for the dense model."""


TEXT = "on the fidelity text"
"""The place of passes of a text, which have a row in all batches."""


@dataclass(frozen=True, eq=False)
class _Carried:
    where: str
    lanes: list[_Lane]
    passage: Passage
    counts: dict[Gates, dict[str, Tensor]]
    """What the gates have counted in this pass alone."""
    checkpoints: set[str]

    @property
    def size(self) -> int:
        """The rows of the first batch."""
        return len(self.passage.batches[0])


def report_scored(view: ModelView, rows: Tensor, done: int, metric: str, reporter: Reporter) -> None:
    """Report that so many rows of a text were scored after it has passed the layers."""
    passed = _layers_share(view)
    reporter.progress((passed + (1 - passed) * done / len(rows)) * rows.numel(), rows.numel(), "tokens", metric)


def _layers_share(view: ModelView) -> float:
    """Return the share of a pass that the decoder layers take, and not the head, by their weights."""
    layers = sum(map(sum, view.layout.parameters))
    return layers / (layers + view.head.in_features * view.head.out_features)


def place_of(task: str) -> str:
    """Return the place of a task's passes."""
    return f"on {task}"


class SharedPasses:
    """Hidden states of batches after a model's last layer, for several measurements.

    The dense model's states are kept for all.
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
        same = [each for each in self._carried if each.passage.digest == digest_of(rows.split(each.size))]
        self._carried = [each for each in self._carried if each not in same or each.size <= otherwise]
        return next((each.size for each in same if each.size <= otherwise), otherwise)

    def carry(
        self,
        view: ModelView,
        batches: Sequence[Tensor],
        lanes: Sequence[_Lane],
        reporter: Reporter,
        passed: Callable[[LayerView], None],
        where: str = TEXT,
        lane_of: Callable[[Gates], Lane] = lambda gates: gates,
    ) -> None:
        """Carry batches through the layers in these lanes, except for those that they have passed.

        `passed` is called after each layer; `lane_of` returns what gates these batches. Gates count anew.
        """
        wanted = [lane for lane in lanes if self._find(batches, lane) is None]
        if not wanted:
            return
        with ExitStack() as stack:
            for lane in wanted:
                if lane is not None:
                    lane.reset_counts()
                    stack.enter_context(lane.removed())
            passage = Passage(view, batches, [None if lane is None else lane_of(lane) for lane in wanted])
            checkpoint = None
            if all(lane in self._names for lane in wanted):
                checkpoint = self._checkpoint(passage.digest, [self._names[lane] for lane in wanted])
            for layer in passage.layers(reporter, where=where, checkpoint=checkpoint):
                passed(layer)
        counts = {lane: lane.counts() for lane in wanted if lane is not None}
        names = set() if checkpoint is None else {checkpoint.name, checkpoint.earlier}
        self._carried.append(_Carried(where, wanted, passage, counts, names))

    def carry_text(self, view: ModelView, rows: Tensor, size: int, lanes: Sequence[_Lane], reporter: Reporter) -> None:
        """Carry ids [rows, sequence] in batches of a size; the counts of the gates become those of this text."""

        def passed(layer: LayerView) -> None:
            done = layer.index + 1
            share = _layers_share(view) * done / len(view.layers)
            reporter.progress(share * rows.numel(), rows.numel(), "tokens", f"layer {done} of {len(view.layers)}")

        batches = rows.split(size)
        self.carry(view, batches, lanes, reporter, passed)
        for lane in lanes:
            if lane is not None:
                lane.set_counts(self.counts(batches, lane))

    def counts(self, batches: Sequence[Tensor], lane: Gates) -> Mapping[str, Tensor]:
        """Return what gates have counted while carried batches passed the layers."""
        return self._there(batches, lane).counts[lane]

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

    def arriving(self, batches: Sequence[Tensor], lane: _Lane) -> AbstractContextManager[None]:
        """Let model calls on carried batches, or on single rows, skip the layers within the block, in one lane."""
        return self.arrival(batches, lane)()

    def arrival(self, batches: Sequence[Tensor], lane: _Lane) -> Callable[[], AbstractContextManager[None]]:
        """Return what makes the context of `arriving` any number of times, since finding the pass reads all ids."""
        found = self._there(batches, lane)
        return partial(found.passage.arriving, found.lanes.index(lane))

    def forget(self, lane: Gates, where: str | None = None) -> None:
        """Free what has passed these gates: all of it, or what was measured in one place, which leaves the disk, too,
        once no other gates need the pass."""
        for each in self._carried:
            if lane in each.counts and where in (None, each.where):
                each.passage.forget(each.lanes.index(lane))
                del each.counts[lane]
                if where is not None and not each.counts and None not in each.lanes:
                    self._stages.remove(each.checkpoints)
        self._carried = [each for each in self._carried if each.counts or None in each.lanes]
        if where is None:
            self._names.pop(lane, None)

    def _there(self, batches: Sequence[Tensor], lane: _Lane) -> _Carried:
        found = self._find(batches, lane)
        assert found is not None
        return found

    def _find(self, batches: Sequence[Tensor], lane: _Lane) -> _Carried | None:
        digest = digest_of(batches)
        same = (each for each in self._carried if each.passage.digest == digest)
        return next((each for each in same if lane in each.counts or (lane is None and None in each.lanes)), None)


T = TypeVar("T")

LARGEST = 64
"""Largest automatic batch: beyond, a batch is no faster and pads more."""
_TOKENS = 1024
"""Tokens of the largest automatic batch on a CPU: beyond, a batch is no faster, and its logits take more memory."""
_SHARE = 0.5
"""Share of the free memory that a batch's estimate may use."""


class Batches:
    """Batch sizes of one attempt at a measurement."""

    def __init__(self, loaded: LoadedModel, limit: int, estimated: bool) -> None:
        self._loaded = loaded
        self._limit = limit
        self._estimated = estimated
        self.largest = 0
        """Largest batch so far."""

    def size(self, tokens: int) -> int:
        """Return the batch size if the longest sequence has so many tokens."""
        size = self._limit
        if self._estimated:
            fitting = _SHARE * free_bytes(self._loaded.device) / sequence_bytes(self._loaded, max(tokens, 1))
            if self._loaded.device.type == "cpu":
                size = min(size, _TOKENS // max(tokens, 1))
            size = max(1, min(size, int(fitting)))
        self.largest = max(self.largest, size)
        return size


def with_batches(
    asked: int | Literal["auto"],
    loaded: LoadedModel,
    what: str,
    reporter: Reporter,
    measure: Callable[[Batches], T],
) -> T:
    """Return the result of `measure`. Under "auto", repeat it with half the batch size after running out of memory,
    down to 1."""
    if asked != "auto":
        return measure(Batches(loaded, asked, estimated=False))
    limit = LARGEST
    while True:
        batches = Batches(loaded, limit, estimated=True)
        try:
            result = measure(batches)
        except Exception as error:
            if not ran_out_of_memory(error) or batches.largest <= 1:
                raise
            limit = batches.largest // 2
        else:
            reporter.log("info", f"{what}: at most {batches.largest} sequences at once.")
            return result
        reporter.log("warning", f"{what}: memory ran out at {batches.largest} sequences at once; trying {limit}.")
        release_memory()


def sequence_bytes(loaded: LoadedModel, tokens: int) -> int:
    """Estimate a forward pass's peak memory for one sequence, without weights.

    It holds the logits, and twice as many in 32 bits for log-probabilities; keys and values of all layers; and for one
    layer eight vectors as wide as the stream and four as wide as the MLP. Attention that keeps its scores takes more.
    """
    view, element = loaded.view, loaded.dtype.itemsize
    logits = view.head.out_features * (element + 2 * max(element, 4))
    cache = 2 * len(view.layers) * view.kv_heads * view.head_dim
    layer = 8 * view.hidden_size + 4 * view.layers[0].matrices_read("up") * view.layers[0].shape("up")[0]
    return tokens * (logits + element * (cache + layer))
