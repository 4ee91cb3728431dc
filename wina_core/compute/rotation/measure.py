"""Measures of a rotation's effect on Gram matrices and column norms."""

from collections.abc import Callable
from dataclasses import replace
from statistics import fmean

import torch
from torch import Tensor
from wina_kernels.native.many_rows import multiply_in_float32

from wina_core.compute.models.view import ModelView, Projection
from wina_core.compute.reporter import Reporter
from wina_core.compute.rotation.products import fits
from wina_core.compute.scoring.column_norms import kept_column_norms
from wina_core.compute.stages import Stages
from wina_core.records import LayerRecord

_BLOCK = 1024
_ENERGIES = "energies"
"""Name of the stage of layers that were measured."""


@torch.no_grad()
def off_diagonal_energies(view: ModelView) -> tuple[LayerRecord, ...]:
    """Return `off_diagonal_energy` of every projection, as records; of experts their mean."""

    def energy(projection: Projection) -> float:
        return off_diagonal_energy(projection.weight, exact=projection.shape[1] <= view.hidden_size)

    return _records(view, "off_diagonal_energy", energy)


def layer_energies(view: ModelView, reporter: Reporter, stages: Stages | None = None) -> tuple[LayerRecord, ...]:
    """Return `off_diagonal_energies`, measured a layer at a time, between which the job can be cancelled.

    An interrupted measurement continues from its `stages`.
    """
    stages = stages or Stages()
    found = _kept_records(stages)
    reporter.stage("orthogonality of columns")
    for layer in view.layers[len({record.layer for record in found}) :]:
        reporter.check()
        found += off_diagonal_energies(replace(view, layers=(layer,)))
        view.give_back(layer.module)
        stages.write(_ENERGIES, {}, records=[record.model_dump(mode="json") for record in found])
        reporter.progress(layer.index + 1, len(view.layers), "layers")
    return tuple(found)


def _kept_records(stages: Stages) -> list[LayerRecord]:
    stage = stages.read(_ENERGIES)
    try:
        return [] if stage is None else [LayerRecord.model_validate(each) for each in stage.note["records"]]
    except (KeyError, TypeError, ValueError):  # of another version
        return []


@torch.no_grad()
def norm_spreads(view: ModelView) -> tuple[LayerRecord, ...]:
    """Return std / mean of the column norms ||W[:, i]||_2 of every projection, as records; 0 where all are equal, and
    of experts their mean."""

    def spread(projection: Projection) -> float:
        norms = kept_column_norms(projection)
        return float(norms.std(correction=0) / norms.mean().clamp(min=torch.finfo(norms.dtype).tiny))

    return _records(view, "norm_spread", spread)


def _records(view: ModelView, metric: str, measure: Callable[[Projection], float]) -> tuple[LayerRecord, ...]:
    return tuple(
        LayerRecord(
            layer=layer.index, projection=name, metric=metric, value=fmean(map(measure, layer.matrices((name,))))
        )
        for layer in view.layers
        for name in layer.names
    )


def off_diagonal_energy(weight: Tensor, exact: bool = True) -> float:
    """Return ||offdiag(W^T W)||_F^2 / ||W^T W||_F^2 of W [m, n], in float64 for float64 weights, else float32.

    With `exact`, products of columns are summed one by one in m n^2 / 2 operations. Without, ||W^T W|| = ||W W^T|| is
    used in n m^2 operations: good to the rounding of 1, for wide matrices (down).
    """
    w = weight if weight.dtype == torch.float64 or fits(weight) else weight.float()
    multiply = multiply_in_float32 if fits(weight) else torch.matmul
    digits = torch.promote_types(w.dtype, torch.float32)
    squares = torch.stack([part.to(digits).pow(2).sum(0).pow(2).sum() for part in w.split(_BLOCK, dim=1)]).sum()
    if not exact:
        total = multiply(w, w.T.contiguous()).pow(2).sum()
        return float(((total - squares) / total).clamp(min=0.0)) if total > 0 else 0.0
    off_diagonal = torch.zeros((), dtype=torch.float64, device=w.device)
    for start in range(0, w.shape[1], _BLOCK):
        products = multiply(w[:, start : start + _BLOCK].T, w[:, start:])  # those before mirror later ones
        products.diagonal().zero_()
        off_diagonal += products[:, :_BLOCK].pow(2).sum() + 2 * products[:, _BLOCK:].pow(2).sum()
    total = off_diagonal + squares
    return float(off_diagonal / total) if total > 0 else 0.0
