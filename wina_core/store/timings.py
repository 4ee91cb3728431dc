"""Timings beside the dense products of their machine, and their stability."""

import statistics
from collections.abc import Callable, Hashable, Sequence

from wina_core.specs import DENSE
from wina_core.specs.latency import STEADY, VENDOR
from wina_core.store.rows import DecodeRow, LatencyRow


def judge_products(rows: Sequence[LatencyRow], environments: Sequence[Hashable]) -> list[LatencyRow]:
    """Return the rows with the best dense product of their environment, shape, batch and dtype, and their stability.

    Speed-ups over PyTorch's product are measured in turns, so two of them compare points of different times: the
    speed-up over the best dense product is their ratio. It is unknown where no other dense product was timed.
    """
    work = [(each, r.outputs, r.inputs, r.batch, r.dtype) for each, r in zip(environments, rows, strict=True)]
    dense: dict[Hashable, LatencyRow] = {}
    compared = set()
    for key, row in zip(work, rows, strict=True):
        if row.method == DENSE.name:
            if row.backend != VENDOR:
                compared.add(key)
            if key not in dense or row.speedup > dense[key].speedup:
                dense[key] = row
    drifts = _drifts(rows, work, lambda row: row.dense_ms)
    judged = []
    for key, row, drift in zip(work, rows, drifts, strict=True):
        best = dense[key] if key in compared else None
        judged.append(
            row._replace(
                best_dense="" if best is None else best.backend,
                best_dense_ms=None if best is None else best.median_ms,
                best_speedup=None if best is None else row.speedup / best.speedup,
                spread=row.p90_ms / row.p10_ms,
                drift=drift,
                stable=row.p90_ms / row.p10_ms <= STEADY and drift <= STEADY,
            )
        )
    return judged


def judge_decoding(rows: Sequence[DecodeRow], subjects: Sequence[Hashable]) -> list[DecodeRow]:
    """Return the rows with the speed-up over the fastest dense decoding: PyTorch's, or our kernels at 0 %.

    `subjects` are the ids of each row's environment and model, since two models may share a label. The speed-up is
    unknown where no decoding at 0 % of this model was timed on the environment.
    """
    work = [(each, r.prompt_tokens, r.new_tokens, r.batch) for each, r in zip(subjects, rows, strict=True)]
    best: dict[Hashable, float] = {}
    for key, row in zip(work, rows, strict=True):
        if row.sparsity == 0.0:
            best[key] = max(best.get(key, 1.0), row.speedup)
    drifts = _drifts(rows, work, lambda row: row.dense_tokens_per_second)
    judged = []
    for key, row, drift in zip(work, rows, drifts, strict=True):
        spread = row.p90 / row.p10
        dense = row.dense_p90 / row.dense_p10 if row.dense_p10 and row.dense_p90 else 1.0
        judged.append(
            row._replace(
                best_speedup=row.speedup / best[key] if key in best else None,
                spread=spread,
                dense_spread=dense,
                drift=drift,
                stable=max(spread, dense, drift) <= STEADY,
            )
        )
    return judged


def _drifts(
    rows: Sequence[LatencyRow] | Sequence[DecodeRow], work: Sequence[Hashable], dense: Callable[..., float]
) -> list[float]:
    """Return how far each row's dense median, measured in turns with it, is from the middle of all on the same work:
    the larger over the smaller."""
    medians: dict[Hashable, list[float]] = {}
    for key, row in zip(work, rows, strict=True):
        medians.setdefault(key, []).append(dense(row))
    middles = {key: statistics.median(found) for key, found in medians.items()}
    return [max(dense(row) / middles[key], middles[key] / dense(row)) for key, row in zip(work, rows, strict=True)]
