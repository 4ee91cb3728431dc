"""Memory that a model's weights hold, from its sizes alone."""

from wina_core.model_info.cost.matrices import held_weights, matrices, total
from wina_core.model_info.cost.terms import Storage
from wina_core.records import ModelShape


def gated_bytes(shape: ModelShape, storage: Storage) -> float:
    """Return the bytes held by the gated matrices, with scales and zeros, those of all experts included."""
    tables = matrices(shape)
    return total(storage.matrix_bytes(tables.outputs, tables.inputs, tables.inputs, tables.together) * tables.held)


def held_bytes(shape: ModelShape, parameters: int, storage: Storage, *, tied: bool) -> float:
    """Return the bytes held by all `parameters` weights. A quantized head that is `tied` to the embedding is held
    beside it."""
    others: float = storage.element * (parameters - held_weights(shape))
    plain = storage.element * shape.head_weights
    head = storage.head_bytes(shape.head_weights, shape.hidden_size)
    if head != plain:
        others += head if tied else head - plain
    return gated_bytes(shape, storage) + others
