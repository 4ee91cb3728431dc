"""What LayerNorm asks of a rotation: it subtracts the mean of its input, so the all-ones direction must stay.

With e = (1, ..., 1) / sqrt(d), LayerNorm sees h (I - e e^T), which commutes with every Q for which Q e = +-e: then the
rotated model keeps its own LayerNorms, and any loader can run it. (SliceGPT instead writes the centring into the
weights and needs RMSNorm in place of LayerNorm.) The price is one dimension of the stream that Q cannot choose.
"""

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from wina_core.compute.rotation.apply import LayerBases

_ROUNDING = 1e-12


def centred_gram(gram: Tensor) -> Tensor:
    """(I - e e^T) G (I - e e^T) of G [d, d], in place: what of a Gram matrix a centred input can see."""
    gram -= gram.mean(0, keepdim=True)
    gram -= gram.mean(1, keepdim=True)
    return gram


def mean_kept(bases: Iterator[LayerBases]) -> Iterator[LayerBases]:
    """The same bases, those of the stream turned by `keeping_mean`; what was one object stays one."""
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
    """Q R [d, d] for the rotation R in one plane, and by the smallest angle, that makes Q R e = +-e.

    A basis that has +-e among its columns only loses that the stream's mean lies in one coordinate, as LayerNorm
    subtracts it from all of them; one that has Q e = +-e already comes back as it is.
    """
    d = basis.shape[0]
    image = basis.T @ basis.new_full((d,), d**-0.5)
    target = basis.new_full((d,), d**-0.5).copysign(image.sum())
    if float((image - target).abs().max()) <= _ROUNDING:
        return basis
    # R^T = I - (a + b)(a + b)^T / (1 + a.b) + 2 b a^T takes the unit vector a to b and moves nothing off their plane.
    between = image + target
    turned = basis - torch.outer(basis @ between, between) / (1.0 + image @ target)
    return turned + 2.0 * torch.outer(basis @ image, target)
