"""Descent over orthogonal matrices by Cayley steps."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from wina_core.compute.rotation.bases import orthonormalized

LEARNING_RATE = 4e-3
"""Learning rate for the entries of A below: about the angle, in radians, that a plane may turn in one step."""


def cayley(skew: Tensor) -> Tensor:
    """Return (I + A)^-1 (I - A) of skew-symmetric A [.., n, n]: orthogonal, with determinant 1, and I for A = 0."""
    identity = torch.eye(skew.shape[-1], dtype=skew.dtype, device=skew.device)
    return torch.linalg.solve(identity + skew, identity - skew)


def descend(
    starts: Sequence[Tensor],
    loss: Callable[[Sequence[Tensor], int], Tensor],
    steps: int,
    rate: float = LEARNING_RATE,
) -> list[Tensor]:
    """Return orthogonal float64 matrices of lower loss near `starts` ([.., n, n] each).

    Each is its start times the Cayley transform of a skew-symmetric matrix, on which Adam descends with a cosine decay,
    so every iterate is orthogonal (the Cayley parametrization of Li et al., "Efficient Riemannian optimization on the
    Stiefel manifold via the Cayley transform", with a fixed base point). `loss` gets float32 matrices and the step's
    number.
    """
    bases = [start.float() for start in starts]
    free = [torch.zeros_like(base, requires_grad=True) for base in bases]
    optimizer = torch.optim.Adam(free, lr=rate, betas=(0.9, 0.95))
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for step in range(steps):
        with torch.enable_grad():
            current = [base @ cayley(_skew(each)) for base, each in zip(bases, free, strict=True)]
            value = loss(current, step)
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        turns = [cayley(_skew(each.double())) for each in free]
        return [orthonormalized(start.double() @ turn) for start, turn in zip(starts, turns, strict=True)]


def _skew(free: Tensor) -> Tensor:
    lower = free.tril(-1)
    return lower - lower.mT
