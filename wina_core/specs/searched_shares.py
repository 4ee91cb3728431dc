"""The shares that R-Sparse's authors searched, in their file format."""

import math
from pathlib import Path

from wina_core.errors import WinaError
from wina_core.files.user_file import read_file
from wina_core.specs.plans import PlanLayout, SparsityPlan

_ORDER = ("q", "k", "v", "o", "gate", "up", "down")


def read_searched_shares(path: Path, layout: PlanLayout) -> SparsityPlan:
    """Return the plan in a file of searched shares, such as R-Sparse's released config/llama3_sparsity_50_….npy.

    The file is text, in spite of its suffix: for each decoder layer and q, k, v, o, gate, up, down in this order a
    share rho of the mask in (0, 1] and a sparsity in [0, 1), one number a line. Raises WinaError for a file that cannot
    be read, has other content, or is of another model.
    """
    content = read_file(path, "file of shares")
    hint = "choose one like R-Sparse's released config/llama3_sparsity_50_evolutionary_search.npy"
    if layout.projections != _ORDER:
        raise WinaError(
            f"R-Sparse's searched shares are of {', '.join(_ORDER)}, but this model has "
            f"{', '.join(layout.projections)}; open a model with a gated MLP."
        )
    try:
        numbers = [float(word) for word in content.decode("ascii").split()]
    except ValueError as error:
        raise WinaError(f"The file {path} does not hold searched shares (it is not all numbers); {hint}.") from error
    wanted = 2 * layout.layers * len(_ORDER)
    if len(numbers) != wanted:
        raise WinaError(
            f"The file {path} holds {len(numbers)} numbers, but a share and a sparsity of each of {layout.layers} x "
            f"{len(_ORDER)} matrices are {wanted}; {hint} that was searched for this model."
        )
    shares, sparsities = numbers[::2], numbers[1::2]
    for place, values in enumerate(zip(shares, sparsities, strict=True)):
        if 0 < values[0] <= 1 and 0 <= values[1] < 1:
            continue
        pair = ", ".join("not a number" if math.isnan(each) else f"{each:g}" for each in values)
        layer, column = divmod(place, len(_ORDER))
        raise WinaError(
            f"In {path} {_ORDER[column]} of layer {layer} has the share and sparsity {pair}, but a share is above 0 "
            f"and at most 1, a sparsity at least 0 and below 1; {hint}."
        )
    return SparsityPlan(
        layout=layout, sparsity=_rows(sparsities, layout), rho=_rows(shares, layout), provenance="R-Sparse's search"
    )


def _rows(values: list[float], layout: PlanLayout) -> tuple[tuple[float, ...], ...]:
    width = len(layout.projections)
    return tuple(tuple(values[start : start + width]) for start in range(0, len(values), width))
