"""Work of an evaluation's measurements and of what is prepared for them, in forward passes of one token."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence

from wina_core.jobs import PendingRun
from wina_core.jobs.phases import CALIBRATION, REFERENCE, Phase, allocating, gating, preparing
from wina_core.jobs.planning.products import config_number, counts_alone, hidden_size
from wina_core.jobs.run_sharing import Group, by_model, group_of
from wina_core.model_info.sizes import weights_bytes
from wina_core.specs import COST, DENSE, FIDELITY, ORIGINAL, SYNTHETIC, AllocatedSparsity, ModelSource, TextSpec

_TASK = 16_384.0
"""Tokens of a task, whose documents nobody has counted."""
_COUNTED = 10.0
"""Work of a measurement that reads no weights."""
_COMPARISON = 7_000.0
"""Work after the layers, the head and the comparison of logits, for each entry of the vocabulary, in weights that are
read: seen at 1.1 billion parameters."""
_AFTER = 0.15
"""The same as a share of a pass, where the sizes are unknown."""

Missing = Mapping[Group, Collection[str]]
"""Kinds of products that are not on disk, by rotated model."""


class RunWork:
    """Work of some runs; it reads the sizes of models from their files."""

    def __init__(self, runs: Sequence[PendingRun], missing: Missing) -> None:
        groups = by_model(runs)
        self.preparing = {group: _of_model(own, missing[group]) for group, own in groups.items()}
        """Preparations that the runs of a rotated model share."""
        self.own = {name: own for group, each in groups.items() for name, own in _of_runs(each, missing[group]).items()}
        """Preparations of each run, by its hash."""
        self.after = {group: after_share(group[0]) for group in groups}
        self.measuring = measuring_work(runs, self.after)

    def of(self, runs: Iterable[PendingRun]) -> float:
        """Return the work of some of the runs, or of some of their units, by an engine that holds no model."""
        total = 0.0
        for group, own in by_model(runs).items():
            total += sum(phase.work for phase in self.preparing[group])
            for run in own:
                name = run.spec.content_hash()
                total += sum(phase.work for phase in self.own[name])
                total += sum(self.measuring[name, unit] for unit in run.units)
        return total

    def after_layers(self, run: PendingRun, unit: str) -> float:
        """Return the work of a measurement after the layers, or all of it where no text is passed."""
        return _after(run, unit, self.after[group_of(run)])


def _of_model(runs: Sequence[PendingRun], missing: Collection[str]) -> tuple[Phase, ...]:
    """Return what the runs of one rotated model need before the first measurement."""
    if not any(map(_needs_model, runs)):
        return ()
    first = runs[0].spec
    load, *rotating = preparing(first.model, first.rotation, missing, hidden_size(first.model))
    text = first.evaluation.original
    referring = []
    if text is not None and any(ORIGINAL in run.units for run in runs):
        referring.append(Phase(REFERENCE, float(text.tokens)))
    return (load, *referring, *rotating)


def _needs_model(run: PendingRun) -> bool:
    return not set(run.units) <= ({COST, SYNTHETIC} if counts_alone(run.spec) else {SYNTHETIC})


def _of_runs(runs: Iterable[PendingRun], missing: Collection[str]) -> dict[str, tuple[Phase, ...]]:
    """Return what each run of a rotated model needs beside, by its hash: what another one before it does not make."""
    found: dict[str, tuple[Phase, ...]] = {}
    known = set()
    for run in runs:
        spec, phases, own = run.spec, list[Phase](), list[Phase]()
        if _needs_model(run):
            if isinstance(spec.plan, AllocatedSparsity) and "allocation" in missing:
                phases += allocating(spec.method, spec.plan, spec.calibration, missing)
            phases += gating(spec.method, spec.calibration, missing)
        for phase in phases:
            method = spec.method.model_copy(update={"selection": "topk"}) if phase.name == CALIBRATION else spec.method
            key = phase, method, None if phase.name == CALIBRATION else spec.plan
            if key not in known:
                known.add(key)
                own.append(phase)
        found[spec.content_hash()] = tuple(own)
    return found


def after_share(source: ModelSource) -> float:
    """Return the work of a measurement after the layers as a share of a pass."""
    vocabulary, weights = config_number(source, "vocab_size"), weights_bytes(source) / 2
    return _AFTER if vocabulary is None or math.isinf(weights) else min(1.0, _COMPARISON * vocabulary / weights)


def measuring_work(runs: Sequence[PendingRun], after: Mapping[Group, float]) -> dict[tuple[str, str], float]:
    """Return the work of each measurement, by the hash of its run and its unit; `after` are the shares of the head.

    A text passes the layers once for each configuration of a model; what is measured on it later is the head's work.
    """
    found: dict[tuple[str, str], float] = {}
    for group, own in by_model(runs).items():
        passed: set[tuple[str, TextSpec]] = set()
        for run in own:
            name = run.spec.content_hash()
            lane = DENSE.name if run.spec.method.name == DENSE.name else name
            for unit in sorted(run.units, key=lambda unit: unit != FIDELITY):
                work, text = _after(run, unit, after[group]), _text(run, unit)
                lanes = {lane, DENSE.name} if unit == FIDELITY else {lane}
                if text is not None:
                    work += text.tokens * len({(each, text) for each in lanes} - passed)
                    passed |= {(each, text) for each in lanes}
                found[name, unit] = work
    return found


def _text(run: PendingRun, unit: str) -> TextSpec | None:
    evaluation = run.spec.evaluation
    return {FIDELITY: evaluation.fidelity, ORIGINAL: evaluation.original}.get(unit)


def _after(run: PendingRun, unit: str, share: float) -> float:
    text = _text(run, unit)
    if text is not None:
        return share * text.tokens
    return _COUNTED if unit in (COST, SYNTHETIC) else _TASK
