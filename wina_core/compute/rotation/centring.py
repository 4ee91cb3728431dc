"""Bases that keep the mean, as LayerNorm requires: it subtracts the mean, so the all-ones direction must stay.

With e = (1, ..., 1) / sqrt(d), LayerNorm sees h (I - e e^T), which commutes with every Q for which Q e = +-e: the
rotated model keeps its LayerNorms, and any loader runs it. (SliceGPT instead folds the centring into the weights and
uses RMSNorm.) The price is one dimension of the stream that Q cannot choose.
"""

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from wina_core.compute.rotation.apply import LayerBases

_ROUNDING = 1e-12


def centred_gram(gram: Tensor) -> Tensor:
    """Set G [d, d] to (I - e e^T) G (I - e e^T) in place: the part that a centred input can see."""
    gram -= gram.mean(0, keepdim=True)
    gram -= gram.mean(1, keepdim=True)
    return gram


def mean_kept(bases: Iterator[LayerBases]) -> Iterator[LayerBases]:
    """Yield the same bases, those of the stream turned by `keeping_mean`; shared objects stay shared."""
    latest: list[tuple[Tensor, Tensor]] = []

    def kept(basis: Tensor | None) -> Tensor | None:
        if basis is None:
            return None
        for before, after in latest:
            if before is basis:
                return after
        latest[:] = [(basis, keeping_mean(basis))]
        return latest[0][1]

    for each in bases:
        yield replace(each, attention=kept(each.attention), mlp=kept(each.mlp))


def keeping_mean(basis: Tensor) -> Tensor:
    """Return Q R [d, d], R the rotation in one plane by the smallest angle for which Q R e = +-e.

    A basis with +-e among its columns only loses that the stream's mean lies in one coordinate, as LayerNorm subtracts
    it from all of them. A basis with Q e = +-e comes back unchanged.
    """
    d = basis.shape[0]
    image = basis.T @ basis.new_full((d,), d**-0.5)
    target = basis.new_full((d,), d**-0.5).copysign(image.sum())
    if float((image - target).detach().abs().max()) <= _ROUNDING:
        return basis
    # R^T = I - (a + b)(a + b)^T / (1 + a.b) + 2 b a^T takes the unit vector a to b and moves nothing off their plane.
    between = image + target
    turned = basis - torch.outer(basis @ between, between) / (1.0 + image @ target)
    return turned + 2.0 * torch.outer(basis @ image, target)
