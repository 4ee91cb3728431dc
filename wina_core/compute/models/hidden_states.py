"""Hidden states on their way through a model, in memory or, where it does not hold them, in a temporary file."""

import sys
from collections.abc import Sequence

from torch import Tensor

from wina_core.compute.models.file_memory import in_new_file
from wina_core.compute.models.mapped import drop_pages
from wina_core.files.memory import free_memory
from wina_core.model_info.cost.refinement import FREE_SHARE

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
        """Return the states of a batch in a lane."""
        return self._lanes[lane][batch]

    def set(self, lane: int, batch: int, states: Tensor) -> None:
        """Replace the states of a batch in a lane."""
        if self._room is None:
            self._lanes[lane][batch] = states
            return
        own = self._lanes[lane][batch]
        own.copy_(states)
        drop_pages(own)

    def fits(self, lane: int, states: Sequence[Tensor]) -> bool:
        """Return whether states of all batches have the shapes and the dtype of those in a lane."""
        own = self._lanes[lane]
        return [(each.shape, each.dtype) for each in own] == [(each.shape, each.dtype) for each in states]

    def release(self, lane: int, batch: int) -> None:
        """Give back the memory of the states of a batch, which are read anew if they are in a file, or else lost."""
        if self._room is None:
            self._lanes[lane][batch] = self._lanes[lane][batch].new_empty(0)
        else:
            drop_pages(self._lanes[lane][batch])

    def of(self, lane: int) -> list[Tensor]:
        """Return the states of all batches in a lane."""
        return self._lanes[lane]

    def forget(self, lane: int) -> None:
        """Free the states of a lane."""
        self._lanes[lane] = []

    def _put(self, states: Tensor) -> Tensor:
        assert self._room is not None
        own = self._room[self._used : self._used + states.numel()].view(states.shape)
        self._used += states.numel()
        own.copy_(states)
        drop_pages(own)
        return own


def exceeds_memory(size: float, like: Tensor) -> bool:
    """Return whether results of so many bytes, on the device of a tensor, belong into a file."""
    return sys.platform == "linux" and like.is_cpu and size > FREE_SHARE * free_memory()
