"""Quantization that makes up for each input's error in the inputs that follow it (GPTQ).

Frantar, Ashkboos, Hoefler and Alistarh, "GPTQ: Accurate post-training quantization for generative pre-trained
transformers", 2022. With H = E[x x^T] = R R^T, R upper triangular, and U = R^-1, the rows of W^T are rounded one after
another; the error of row i, over U[i, i], is taken off the rows j > i, times U[i, j]. What remains is exactly the
sum of R[i, i]^2 times the squared rounding error of each row. R[i, i]^2 is the variance of x_i given the inputs that
follow.
Ranges are chosen with these weights when the first row of their group is reached.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from wina_core.compute.quantization.codes import Codes, encode
from wina_core.compute.quantization.ranges import best_ranges
from wina_core.compute.quantization.rounding import as_codes

DAMPING = 0.01
"""Fraction of the mean of H's diagonal that is added to it."""


def reverse_cholesky(moments: Tensor, damping: float = DAMPING) -> Tensor:
    """Return the upper triangular R, float64 [n, n], with R R^T = H + damping * mean(diag H) * I; H is the moments.

    Inputs that are always 0 get a variance of 1: their weights change nothing.
    """
    damped = moments.double().clone()
    diagonal = damped.diagonal()
    diagonal += damping * diagonal.mean()
    diagonal.masked_fill_(diagonal <= 0, 1.0)
    return torch.linalg.cholesky(damped.flip(0, 1)).flip(0, 1)


def error_compensated(
    weight_t: Tensor, factor: Tensor, runs: Sequence[tuple[int, int]], group: int
) -> list[Codes | Tensor]:
    """Quantize W^T [n, m], float32, in `runs` of (inputs, bits); `factor` is R of the moments of its inputs.

    A run of 16 bits gives its rows, which have taken up the errors of the rows before.
    """
    inverse = torch.linalg.solve_triangular(factor, torch.eye(len(factor)).to(factor), upper=True).float()
    importance = factor.diagonal().square().float()
    rows, start = weight_t.clone(), 0
    found: list[Codes | Tensor] = []
    for inputs, bits in runs:
        stop = start + inputs
        if bits == 16:
            found.append(rows[start:stop])
        else:
            parts = [
                _group(rows, inverse, importance, first, min(first + group, stop), bits)
                for first in range(start, stop, group)
            ]
            codes, scales, zeros = zip(*parts, strict=True)
            zero = None if zeros[0] is None else torch.stack(zeros)
            found.append(as_codes(torch.cat(codes), torch.stack(scales), zero, group, bits))
        start = stop
    return found


def _group(
    rows: Tensor, inverse: Tensor, importance: Tensor, start: int, stop: int, bits: int
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Quantize rows [start, stop), and change those that follow; return codes, scale [m] and zero."""
    own = rows[start:stop]
    scale, zero = best_ranges(own[None], importance[start:stop].view(1, -1, 1), bits)
    codes, errors = torch.empty_like(own), torch.empty_like(own)
    for row in range(stop - start):
        at = start + row
        codes[row] = encode(own[None, row : row + 1], scale, zero, bits)[0, 0]
        value = (codes[row] if zero is None else codes[row] - zero[0]) * scale[0]
        errors[row] = (own[row] - value) / inverse[at, at]
        own[row + 1 :] -= inverse[at, at + 1 : stop, None] * errors[row]
    rows[stop:] -= inverse[start:stop, stop:].T @ errors
    return codes, scale[0], None if zero is None else zero[0]
