"""Passes of many batches and configurations through a model, a decoder layer at a time.

Each layer's weights are read once for all of them, from disk while the layer before is computed. Afterwards, model
calls on the same batches skip the layers. A long pass is kept on disk now and then, to continue bit for bit after an
interruption. Hidden states on their way are in memory or, where it does not hold them, in a temporary file.

Single forward passes may end early or have parts replaced.
"""

import hashlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from wina_core.compute import pausable_clock
from wina_core.compute.hooks import attributes, hooked
from wina_core.compute.memory import trim_memory
from wina_core.compute.models.finite import non_finite_error
from wina_core.compute.models.mapped import drop_pages, in_new_file
from wina_core.compute.models.view import LayerView, ModelView
from wina_core.compute.reporter import Reporter
from wina_core.compute.stages import Stages
from wina_core.files.hardware import free_memory
from wina_core.model_info.cost.refinement import FREE_SHARE


class Lane(Protocol):
    """A configuration that batches pass the layers with."""

    def begin(self, tokens: Tensor) -> None:
        """Begin a batch, ids [rows, sequence]."""

    def at(self, layer: LayerView) -> Any:
        """Return a context manager in which the layer is gated."""


@runtime_checkable
class CountedLane(Lane, Protocol):
    """A configuration that counts what passes."""

    def counts(self) -> dict[str, Tensor]:
        """Return all that has been counted, for `set_counts`."""

    def accepts(self, counts: Mapping[str, Tensor]) -> bool:
        """Return whether these are counts of the same configuration."""

    def set_counts(self, counts: Mapping[str, Tensor]) -> None:
        """Set what `counts` of the same configuration returned."""


_TOKENS = 2048
"""Tokens of a batch of a measurement: more are no faster on a processor and take more memory."""
CHECKPOINT_SECONDS = 15.0
"""Time between two checkpoints of a pass; a pass that took longer has one at its end, too."""
_WRITING = 0.05
"""Largest share of a pass's time that writing checkpoints takes."""
Hooks = Callable[[LayerView], Iterable[Any]]


@dataclass(frozen=True)
class PassCheckpoint:
    """A place on disk for the states of a pass, with the counts of its lanes."""

    stages: Stages
    name: str
    lanes: Sequence[str] = ("",)
    """A name for each lane; a pass may continue with fewer lanes than were kept."""
    earlier: str = ""
    """Name of the pass that is continued, if it is another one."""


class Passage:
    """Hidden states of batches, one copy for each lane.

    `batches` are ids, int64 [rows, sequence] each. A lane of None is the model as it is.
    """

    def __init__(self, view: ModelView, batches: Sequence[Tensor], lanes: Sequence[Lane | None] = (None,)) -> None:
        self._view = view
        self.batches = batches
        self._lanes = lanes
        self._keys = [_key(batch) for batch in batches]
        self._row_keys = [[_key(row) for row in batch.split(1)] for batch in batches]
        self.digest = digest_of(batches)
        self._arguments: list[list[dict[str, Any]]] = []
        self._hidden = HiddenStates(sum(batch.numel() for batch in batches), len(lanes))
        for batch in batches:
            hidden, arguments = _entry(view, batch)
            self._hidden.add(hidden)
            self._arguments.append(arguments)

    @torch.no_grad()
    def layers(
        self,
        reporter: Reporter,
        hooks: Hooks = lambda _: (),
        where: str | None = None,
        checkpoint: PassCheckpoint | None = None,
    ) -> Iterator[LayerView]:
        """Yield each decoder layer, in order, after all batches have passed it in every lane, with its `hooks`.

        A layer may change once it was yielded: the next one still reads what it gave before. Memory of unchanged
        weights in files is given back with each layer. With a `checkpoint`, an interrupted pass continues after the
        layers that it had passed, which are not yielded again. Raises WinaError for hidden states that are not numbers
        if the measurement, `where`, is named, as in "on demo_choice".
        """
        first = 0 if checkpoint is None else self._resume(checkpoint, reporter)
        pass_start = saved = pausable_clock.now()
        interval = CHECKPOINT_SECONDS
        for layer in self._view.layers[first:]:
            self._view.read_ahead(self._view.layers[layer.index + 1 :])
            with hooked(hooks(layer)):
                for lane in range(len(self._lanes)):
                    self._pass(layer, lane, reporter, where)
            yield layer
            self._view.give_back(layer.module)
            # Else the heap keeps freed pieces of every layer: 5 GB in a pass with 1 GB of memory.
            trim_memory()
            # After the last layer, only a pass that took long is worth a checkpoint.
            since = pass_start if layer is self._view.layers[-1] else saved
            if checkpoint is not None and pausable_clock.now() - since > interval:
                start = pausable_clock.now()
                self._save(checkpoint, layer.index + 1)
                saved = pausable_clock.now()
                # Slow disks get fewer checkpoints, so that writing takes at most its share of the time.
                interval = max(CHECKPOINT_SECONDS, (saved - start) / _WRITING)

    def _save(self, checkpoint: PassCheckpoint, passed: int) -> None:
        tensors: dict[str, Tensor] = {}
        for lane, (name, gates) in enumerate(zip(checkpoint.lanes, self._lanes, strict=True)):
            tensors |= {f"states/{name}/{batch}": tensor for batch, tensor in enumerate(self._hidden.of(lane))}
            counts = gates.counts() if isinstance(gates, CountedLane) else {}
            tensors |= {f"counts/{name}/{key}": tensor for key, tensor in counts.items()}
        checkpoint.stages.write(
            checkpoint.name, tensors, passed=passed, batches=self.digest, lanes=list(checkpoint.lanes)
        )

    def _resume(self, checkpoint: PassCheckpoint, reporter: Reporter) -> int:
        """Restore an interrupted pass and return the number of layers that it has passed; 0 if no checkpoint fits."""
        stage = checkpoint.stages.read(checkpoint.earlier or checkpoint.name)
        if stage is None:
            return 0
        batches = range(len(self.batches))
        try:
            if stage.note["batches"] != self.digest:
                return 0
            passed = int(stage.note["passed"])
            states = [[stage.tensors[f"states/{name}/{batch}"] for batch in batches] for name in checkpoint.lanes]
            if not all(self._hidden.fits(lane, lane_states) for lane, lane_states in enumerate(states)):
                return 0
            named = zip(checkpoint.lanes, self._lanes, strict=True)
            counts = [
                (gates, _under(f"counts/{name}/", stage.tensors))
                for name, gates in named
                if isinstance(gates, CountedLane)
            ]
            if not all(gates.accepts(gate_counts) for gates, gate_counts in counts):
                return 0
        except (KeyError, TypeError, ValueError):  # of another version, or without one of the lanes
            return 0
        for gates, gate_counts in counts:
            gates.set_counts(gate_counts)
        for lane, lane_states in enumerate(states):
            for batch, batch_states in enumerate(lane_states):
                self._hidden.set(lane, batch, batch_states.to(self._hidden.get(lane, batch).device, copy=True))
        reporter.log("info", f"This continues after layer {passed} of {len(self._view.layers)}.")
        return passed

    def _pass(self, layer: LayerView, lane: int, reporter: Reporter, where: str | None) -> None:
        gates = self._lanes[lane]
        with ExitStack() as stack:
            if gates is not None:
                stack.enter_context(gates.at(layer))
            for index, (batch, arguments) in enumerate(zip(self.batches, self._arguments, strict=True)):
                if gates is not None:
                    gates.begin(batch)
                hidden = layer.module(self._hidden.get(lane, index), **arguments[layer.index])
                if where is not None and not hidden.isfinite().all():
                    raise non_finite_error(where, f" from decoder layer {layer.index} on")
                self._hidden.set(lane, index, hidden)
                reporter.check()

    def run(self, reporter: Reporter, checkpoint: PassCheckpoint | None = None) -> None:
        for _ in self.layers(reporter, checkpoint=checkpoint):
            pass

    def forget(self, lane: int) -> None:
        self._hidden.forget(lane)

    @contextmanager
    def arriving(self, lane: int = 0) -> Iterator[None]:
        """Skip the layers in model calls on the batches, or on single rows of them, within the block.

        The calls continue with the hidden states that have passed the layers in a lane.
        """
        arrived: dict[tuple[torch.Size, bytes], Tensor] = {}
        for key, rows, hidden in zip(self._keys, self._row_keys, self._hidden.of(lane), strict=True):
            arrived |= dict(zip(rows, hidden.split(1), strict=True))
            arrived[key] = hidden
        # The last layer does not get the ids of its call, by which the states are looked up.
        called: list[Tensor] = []

        def record(_module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            called[:] = [args[0] if args else kwargs["input_ids"]]

        *layers, last = (layer.module for layer in self._view.layers)
        with ExitStack() as stack:
            for layer in layers:
                stack.enter_context(replaced(layer, _unchanged))
            stack.enter_context(replaced(last, lambda *_, **__: arrived[_key(called[0])]))
            stack.enter_context(hooked([self._view.model.register_forward_pre_hook(record, with_kwargs=True)]))
            yield


def digest_of(batches: Sequence[Tensor]) -> str:
    digest = hashlib.sha256()
    for shape, ids in map(_key, batches):
        digest.update(repr(tuple(shape)).encode() + ids)
    return digest.hexdigest()[:16]


def in_batches(tokens: Tensor) -> tuple[Tensor, ...]:
    """Return rows of ids [rows, sequence] in batches of about `_TOKENS`."""
    return tokens.split(max(1, _TOKENS // tokens.shape[1]))


def _entry(view: ModelView, tokens: Tensor) -> tuple[Tensor, list[dict[str, Any]]]:
    """Return the hidden states that enter the first layer, and the other arguments of each layer."""
    tokens = tokens.to(view.embedding.weight.device)
    arguments: list[dict[str, Any]] = []

    def record(hidden_states: Tensor, **kwargs: Any) -> Tensor:
        arguments.append(kwargs)
        return hidden_states

    *layers, last = (layer.module for layer in view.layers)
    with ExitStack() as stack, torch.no_grad():
        for layer in layers:
            stack.enter_context(replaced(layer, record))
        # The layers pass their input on: a call computes the embedding and the masks, and no matrix.
        calls = stack.enter_context(stopping_at(last))
        view.model(tokens, use_cache=False)
    hidden, last_arguments = layer_inputs(*calls[0])
    return hidden, [*arguments, last_arguments]


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {key.removeprefix(prefix): tensor for key, tensor in tensors.items() if key.startswith(prefix)}


def _unchanged(hidden_states: Tensor, **_: Any) -> Tensor:
    return hidden_states


def _key(tokens: Tensor) -> tuple[torch.Size, bytes]:
    # Tensors themselves hash by identity.
    return tokens.shape, tokens.cpu().numpy().tobytes()


def replaced(module: nn.Module, forward: Callable[..., Any]) -> AbstractContextManager[None]:
    return attributes(module, forward=forward)


class _Reached(Exception):  # noqa: N818 - where a pass was meant to end, not an error
    """End of a forward pass, with the inputs it was started for."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        self.call = args, kwargs


@contextmanager
def stopping_at(module: nn.Module) -> Iterator[list[tuple[tuple[Any, ...], dict[str, Any]]]]:
    """End a pass within the block at the module's call; the yielded list receives the call's (args, kwargs)."""

    def stop(*args: Any, **kwargs: Any) -> None:
        raise _Reached(*args, **kwargs)

    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
    with replaced(module, stop):
        try:
            yield calls
        except _Reached as reached:
            calls.append(reached.call)


def layer_call(view: ModelView, layer: int, tokens: Tensor) -> tuple[Tensor, dict[str, Any]]:
    """Return a decoder layer's inputs in a pass over `tokens` [rows, sequence]: hidden states, other arguments."""
    with stopping_at(view.layers[layer].module) as calls, torch.no_grad():
        view.model(tokens, use_cache=False)
    return layer_inputs(*calls[0])


def layer_inputs(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Tensor, dict[str, Any]]:
    return (args[0], kwargs) if args else (kwargs.pop("hidden_states"), kwargs)


_ADVICE = "free some space, or choose fewer tokens"


class HiddenStates:
    """States [rows, sequence, d] of batches, in several lanes; `tokens` of all batches together will be added.

    The file of states that memory does not hold has no name, so that it is gone with the process.
    """

    def __init__(self, tokens: int, lanes: int) -> None:
        self._tokens = tokens
        self._lanes: list[list[Tensor]] = [[] for _ in range(lanes)]
        self._room: Tensor | None = None
        self._used = 0

    def add(self, states: Tensor) -> None:
        """Add the states of one more batch, the same in all lanes."""
        if not self._lanes[0]:
            size = self._tokens * states.shape[-1] * states.element_size() * len(self._lanes)
            if exceeds_memory(size, states):
                count = size // states.element_size()
                self._room = in_new_file(count, states.dtype, "The text's hidden states take", _ADVICE)
        for lane in self._lanes:
            lane.append(states if self._room is None else self._put(states))

    def get(self, lane: int, batch: int) -> Tensor:
        return self._lanes[lane][batch]

    def set(self, lane: int, batch: int, states: Tensor) -> None:
        if self._room is None:
            self._lanes[lane][batch] = states
            return
        slot = self._lanes[lane][batch]
        slot.copy_(states)
        drop_pages(slot)

    def fits(self, lane: int, states: Sequence[Tensor]) -> bool:
        held = self._lanes[lane]
        return [(tensor.shape, tensor.dtype) for tensor in held] == [(tensor.shape, tensor.dtype) for tensor in states]

    def release(self, lane: int, batch: int) -> None:
        """Give back the memory of the states of a batch, which are read anew if they are in a file, or else lost."""
        if self._room is None:
            self._lanes[lane][batch] = self._lanes[lane][batch].new_empty(0)
        else:
            drop_pages(self._lanes[lane][batch])

    def of(self, lane: int) -> list[Tensor]:
        return self._lanes[lane]

    def forget(self, lane: int) -> None:
        self._lanes[lane] = []

    def _put(self, states: Tensor) -> Tensor:
        assert self._room is not None
        slot = self._room[self._used : self._used + states.numel()].view(states.shape)
        self._used += states.numel()
        slot.copy_(states)
        drop_pages(slot)
        return slot


def exceeds_memory(size: float, like: Tensor) -> bool:
    """Return whether results of so many bytes, on the device of a tensor, belong into a file."""
    return sys.platform == "linux" and like.is_cpu and size > FREE_SHARE * free_memory()
