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
"""The name of passes of a text, which have a row in all batches."""


@dataclass(frozen=True, eq=False)
class _Carried:
    where: str
    lanes: list[_Lane]
    passage: Passage
    counts: dict[Gates, dict[str, Tensor]]
    """Counts of the gates in this pass alone."""
    checkpoints: set[str]

    @property
    def size(self) -> int:
        return len(self.passage.batches[0])


def report_scored(view: ModelView, rows: Tensor, done: int, metric: str, reporter: Reporter) -> None:
    """Report that `done` rows of a text are scored, after all have passed the layers."""
    passed = _layers_share(view)
    reporter.progress((passed + (1 - passed) * done / len(rows)) * rows.numel(), rows.numel(), "tokens", metric)


def _layers_share(view: ModelView) -> float:
    layers = sum(map(sum, view.layout.parameters))
    return layers / (layers + view.head.in_features * view.head.out_features)


def passes_name(task: str) -> str:
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
        """Name a configuration's gates; a pass of named gates alone has a checkpoint, from which it continues."""
        self._names[lane] = name

    def batch_size(self, rows: Tensor, otherwise: int) -> int:
        """Return the batch size in which ids [rows, sequence] were carried, if it is no larger than otherwise.

        What was carried in larger batches is forgotten: memory has run out with them.
        """
        same = [carried for carried in self._carried if carried.passage.digest == digest_of(rows.split(carried.size))]
        self._carried = [carried for carried in self._carried if carried not in same or carried.size <= otherwise]
        return next((carried.size for carried in same if carried.size <= otherwise), otherwise)

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

        `passed` is called after each layer; `lane_of` returns the lane that gates these batches. Gates' counts restart.
        """
        missing = [lane for lane in lanes if self._find(batches, lane) is None]
        if not missing:
            return
        with ExitStack() as stack:
            for lane in missing:
                if lane is not None:
                    lane.reset_counts()
                    stack.enter_context(lane.removed())  # the passage attaches them again, one layer at a time
            passage = Passage(view, batches, [None if lane is None else lane_of(lane) for lane in missing])
            checkpoint = None
            if all(lane in self._names for lane in missing):
                checkpoint = self._checkpoint(passage.digest, [self._names[lane] for lane in missing])
            for layer in passage.layers(reporter, where=where, checkpoint=checkpoint):
                passed(layer)
        counts = {lane: lane.counts() for lane in missing if lane is not None}
        names = set() if checkpoint is None else {checkpoint.name, checkpoint.earlier}
        self._carried.append(_Carried(where, missing, passage, counts, names))

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
        return self._carried_pass(batches, lane).counts[lane]

    def _checkpoint(self, text: str, lanes: Sequence[str]) -> PassCheckpoint:
        """Return the checkpoint of a pass, named by its text and lanes; it continues one with more lanes, if any.

        Other engines may carry the same text in other lanes at the same time.
        """
        name = f"{text}-{hashlib.sha256(' '.join(lanes).encode()).hexdigest()[:16]}"
        stages = ((stored, self._stages.read(stored)) for stored in self._stages.names(text))  # one in memory at a time
        stored_lanes = {stored: set(stage.note.get("lanes", ())) for stored, stage in stages if stage is not None}
        earlier = next((stored for stored, held in stored_lanes.items() if set(lanes) <= held), name)
        self._used |= {name, earlier}
        return PassCheckpoint(self._stages, name, lanes, earlier)

    def finish(self) -> None:
        """Remove the checkpoints of these passes, and those that ended processes have left."""
        self._stages.remove({*self._used, *self._stages.left_behind()})

    def arriving(self, batches: Sequence[Tensor], lane: _Lane) -> AbstractContextManager[None]:
        """Let model calls on carried batches, or on single rows, skip the layers within the block, in one lane."""
        return self.arrival(batches, lane)()

    def arrival(self, batches: Sequence[Tensor], lane: _Lane) -> Callable[[], AbstractContextManager[None]]:
        """Return a function that makes the context of `arriving`; repeated calls do not search for the pass again."""
        carried = self._carried_pass(batches, lane)
        return partial(carried.passage.arriving, carried.lanes.index(lane))

    def forget(self, lane: Gates, where: str | None = None) -> None:
        """Free the states of these gates: of all passes, or of those named `where`, whose files are removed, too, once
        no other gates need the pass."""
        for carried in self._carried:
            if lane in carried.counts and where in (None, carried.where):
                carried.passage.forget(carried.lanes.index(lane))
                del carried.counts[lane]
                if where is not None and not carried.counts and None not in carried.lanes:
                    self._stages.remove(carried.checkpoints)
        self._carried = [carried for carried in self._carried if carried.counts or None in carried.lanes]
        if where is None:
            self._names.pop(lane, None)

    def _carried_pass(self, batches: Sequence[Tensor], lane: _Lane) -> _Carried:
        carried = self._find(batches, lane)
        assert carried is not None
        return carried

    def _find(self, batches: Sequence[Tensor], lane: _Lane) -> _Carried | None:
        digest = digest_of(batches)
        same = (carried for carried in self._carried if carried.passage.digest == digest)
        for carried in same:
            if lane in carried.counts or (lane is None and None in carried.lanes):
                return carried
        return None


T = TypeVar("T")

MAX_AUTO_BATCH = 64
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
        """Return the batch size if the longest sequence has this number of tokens."""
        size = self._limit
        if self._estimated:
            fitting = _SHARE * free_bytes(self._loaded.device) / sequence_bytes(self._loaded, max(tokens, 1))
            if self._loaded.device.type == "cpu":
                size = min(size, _TOKENS // max(tokens, 1))
            size = max(1, min(size, int(fitting)))
        self.largest = max(self.largest, size)
        return size


def with_batches(
    batch_size: int | Literal["auto"],
    loaded: LoadedModel,
    label: str,
    reporter: Reporter,
    measure: Callable[[Batches], T],
) -> T:
    """Return the result of `measure`. Under "auto", repeat it with half the batch size after running out of memory,
    down to 1."""
    if batch_size != "auto":
        return measure(Batches(loaded, batch_size, estimated=False))
    limit = MAX_AUTO_BATCH
    while True:
        batches = Batches(loaded, limit, estimated=True)
        try:
            result = measure(batches)
        except Exception as error:
            if not ran_out_of_memory(error) or batches.largest <= 1:
                raise
            limit = batches.largest // 2
        else:
            reporter.log("info", f"{label}: at most {batches.largest} sequences at once.")
            return result
        reporter.log("warning", f"{label}: memory ran out at {batches.largest} sequences at once; trying {limit}.")
        release_memory()  # here, because the error's traceback holds tensors until its block has ended


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
