"""A greedy allocation that reuses nothing between candidates: the peer, and the oracle of tests."""

import torch
from torch import Tensor

from wina_core.compute.allocation.cells import AllocationSubject, Cells, Values
from wina_core.compute.allocation.greedy import first_gated, output_error
from wina_core.compute.models.passage import layer_call


class NaiveErrors:
    """The errors of `LayerErrors`, each by a whole forward pass of the layer over all tokens."""

    def __init__(self, subject: AllocationSubject, cells: Cells, layer: int, tokens: Tensor) -> None:
        self._subject, self._cells, self._layer = subject, cells, layer
        self._module = subject.loaded.view.layers[layer].module
        self._hidden, self._arguments = layer_call(subject.loaded.view, layer, tokens)
        self._first = first_gated(tokens.shape[1])
        self._dense = self._outputs()
        self.evaluations = 0

    def __call__(self, values: Values) -> float:
        """Return the error at these sparsities, one for each of the layer's blocks."""
        self.evaluations += 1
        with self._subject.gated(self._cells.plan(values, "greedy"), [self._layer]):
            return output_error(self._dense, self._outputs())

    @torch.no_grad()
    def _outputs(self) -> Tensor:
        result = self._module(self._hidden, **self._arguments)
        return (result[0] if isinstance(result, tuple) else result)[:, self._first :]
