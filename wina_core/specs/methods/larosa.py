"""LaRoSA (Liu et al., "La RoSA: Enhancing LLM Efficiency via Layerwise Rotated Sparse Activation", 2025).

Magnitude decides, in the principal axes of each layer's attention input (`presets.LAROSA_ROTATION`).
"""

from typing import Any, ClassVar

from wina_core.errors import WinaError
from wina_core.specs.methods.base import Method, released_kept, tr

_READ, _WRITE = 0.8, 1.2
"""Factors of the uniform target in matrices that read the stream (q, k, v, gate, up), and that write it."""


class Larosa(Method):
    """Score |x_i|; top k keeps every input that scores at least as high as the k-th, k = int((1 - s) n).

    A uniform target s is 0.8 s in q, k, v, gate, up and 1.2 s in o, down (alibaba/EfficientAI,
    larosa/inference/modeling_llama_larosa.py), so that the dropped fraction of all weights is not quite s. The rotation
    is merged into the weights as in the paper's text, not applied at run time as in that file.
    """

    name: ClassVar[str] = "larosa"
    summary: ClassVar[str] = tr("Keeps the inputs of largest magnitude, fewer in o and down; meant for principal axes")
    keeps_ties: ClassVar[bool] = True

    def kept(self, inputs: Any, sparsity: Any) -> Any:
        """Return `released_kept`."""
        return released_kept(inputs, sparsity)

    def cell_target(self, name: str, sparsity: float) -> float:
        """Return 0.8 s or 1.2 s; WinaError from 1 on."""
        target = sparsity * (_WRITE if name in ("o", "down") else _READ)
        if target >= 1:
            raise WinaError(
                f"LaRoSA drops {_WRITE:g} times its target in {name}, so {100 * sparsity:.4g} % is out of its reach; "
                f"choose a target below {100 / _WRITE:.3g} %."
            )
        return target
