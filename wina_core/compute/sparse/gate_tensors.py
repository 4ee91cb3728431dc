"""The module that holds the tensors of a sparse model's gates, and the gates themselves."""

from collections.abc import Callable, Mapping
from functools import partial
from threading import Lock, get_ident
from typing import Any, Self

from torch import Tensor, nn

from wina_core.compute.gating.gates import Gates
from wina_core.compute.models.quantized_linear import moved
from wina_core.compute.models.shortcuts import set_shortcuts
from wina_core.compute.models.uncompiled import uncompiled
from wina_core.compute.models.view import ModelView
from wina_core.compute.sparse.section import SparseSection
from wina_core.compute.sparse.state import gates_of

KERNELS = {"decoding": True}
"""Whether decoding reads only the weights of kept inputs, by kernels; what they return differs by rounding alone."""
SHORTCUT = "shortcut_"
"""Beginning of the names of residual shortcuts there."""


class GateTensors(nn.Module):
    """The tensors of a model's gates, stored and moved with it, and the gates themselves."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        super().__init__()
        for name, tensor in tensors.items():
            self.register_buffer(name, tensor)
        self.gates: Gates | None = None
        """The attached gates: `enabled`, `gated_sparsity`, counts."""
        self._gated: tuple[ModelView, SparseSection] | None = None
        self._calling: set[int] = set()
        """Threads whose calls of the model are in progress."""
        self._turn = Lock()

    def attach(self, found: ModelView, section: SparseSection) -> None:
        """Gate the model; raise WinaError if the gates do not fit it."""
        self._gated = found, section
        self._attach()
        found.model.register_forward_pre_hook(self._before_call, with_kwargs=True)
        found.model.register_forward_hook(self._after_call, always_call=True)

    def _attach(self) -> None:
        assert self._gated is not None
        found, section = self._gated
        section.plan.for_layout(found.layout)
        tensors = dict(self.named_buffers())
        set_shortcuts(
            found,
            {
                name.removeprefix(SHORTCUT).replace("_", "."): each
                for name, each in tensors.items()
                if name.startswith(SHORTCUT)
            },
        )
        rules, low_ranks, biases = gates_of(tensors, found, section.method, section.plan, ties=section.ties)
        self.gates = Gates(found, section.method, rules, low_ranks, section.dense_prefix, biases=biases)

    @uncompiled
    def _before_call(self, _model: nn.Module, _args: Any, kwargs: dict[str, Any]) -> None:
        past, gates = kwargs.get("past_key_values"), self.gates
        decodes = KERNELS["decoding"] and past is not None and past.get_seq_length() > 0
        with self._turn:  # calls wait while weights are transposed, but none are while another call reads them
            self._calling.add(get_ident())
            if decodes and gates is not None and not gates.has_kernels and len(self._calling) == 1:
                gates.attach_kernels()

    @uncompiled
    def _after_call(self, *_: object) -> None:
        self._calling.discard(get_ident())

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        super()._apply(partial(moved, fn), recurse)  # rules keep their data types
        if self.gates is not None:  # the layers, which come first, have moved
            before = self.gates
            counts = before.counts()
            before.detach()
            self._attach()
            self.gates.enabled = before.enabled
            if before.has_kernels:
                self.gates.attach_kernels()
            self.gates.set_counts(counts)
        return self
