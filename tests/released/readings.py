"""Every method and reading, the fields that request it from the project, and how far the project is from the oracle."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from tests.released import recomputed
from tests.released.recomputed import (
    MLP,
    PROJECTIONS,
    Cats,
    Cell,
    Gate,
    Larosa,
    RSparse,
    Scap,
    Search,
    SharedWina,
    Weights,
    Wina,
)
from tests.released.samples import MODELS, Sample, difference, random_text, sample
from tests.wina_core.tiny import tiny_tokens
from wina_core.compute.allocation import allocate
from wina_core.compute.calibration import Calibration, calibrate
from wina_core.compute.gating import attach
from wina_core.compute.models.text_tokens import read_tokens
from wina_core.compute.reporter import NullReporter
from wina_core.compute.rotation import rotate
from wina_core.specs import (
    AllocatedSparsity,
    AllocatorSpec,
    CalibrationSpec,
    MethodSpec,
    RotationSpec,
    TextSpec,
)
from wina_core.specs.evaluations import PREFILL_POLICIES
from wina_core.specs.plans import SparsityPlan, UniformSparsity

LIMIT = 1e-9
"""Largest difference of logits, relative to the largest logit, in float64."""

WINA_CODE = "microsoft/wina: utils/utils.py, wina/self_attn.py, wina/mlp.py"
TEAL_CODE = "FasterDecoding/TEAL: utils/utils.py"
CATS_CODE = "ScalingIntelligence/CATS: experiments/models/sparse_silu/ugly_utils.py"
RSPARSE_CODE = "VITA-Group/R-Sparse: models/modeling_llama.py, utils/setup.py"
SCAP_CODE = "IntelLabs/SCAP: calibrate.py"
LAROSA_CODE = "alibaba/EfficientAI: larosa/inference/modeling_llama_larosa.py"
TRANSFORM_CODE = "microsoft/wina: utils/tensor_transform.py"

_VARIED = {"q": 0.35, "k": 0.35, "v": 0.35, "o": 0.6, "gate": 0.7, "up": 0.7, "down": 0.25}
PLANS: tuple[Mapping[str, float], ...] = (
    dict.fromkeys(PROJECTIONS, 0.5),
    dict.fromkeys(PROJECTIONS, 0.65),
    _VARIED,
)
"""Targets by projection; matrices that fused models store as one have the same."""


@dataclass(frozen=True)
class Outcome:
    """The comparison of one reading on one model."""

    difference: float
    """Largest difference of logits, relative to the largest logit."""
    counts_equal: bool
    """Whether the project counts the same share of dropped weights in every cell."""

    @property
    def masks(self) -> str:
        """Return "yes" for equal masks: equal counts and equal logits, which another mask with that count changes."""
        if not self.counts_equal:
            return "no"
        return "yes" if self.difference <= LIMIT else "counts alone"


@dataclass(frozen=True)
class Reading:
    """One reading of a method."""

    method: str
    label: str
    source: str
    spec: Mapping[str, Any]
    """Fields of the project's MethodSpec."""
    oracle: Callable[..., Gate]
    """(weights, targets, thresholds) -> the oracle's gate."""
    names: tuple[str, ...] = PROJECTIONS
    """Matrices that the method gates."""
    shares: Mapping[str, float] | None = None
    """The plan's rho by projection."""

    @property
    def key(self) -> str:
        """Return a short name for test ids."""
        return f"{self.method}, {self.label}"

    def levels(self, targets: Mapping[str, float]) -> dict[str, float]:
        """Return the targets of the matrices that the method gates; CATS drops the same of up and of down."""
        levels = {name: targets[name] for name in self.names}
        return levels | {"up": levels["down"]} if self.method == "cats" else levels

    @property
    def method_spec(self) -> MethodSpec:
        """Return the project's spec; raises ValidationError where the project lacks the reading."""
        return MethodSpec.model_validate({"name": self.method, **self.spec})


def _threshold(reading: Reading) -> Reading:
    """Return the same reading with thresholds."""
    return replace(reading, label=f"{reading.label}, threshold", spec={**reading.spec, "selection": "threshold"})


_SHARES = {"q": 0.9, "k": 0.6, "v": 1.0, "o": 0.3, "gate": 0.8, "up": 0.02, "down": 0.95}
_TOP_K = (
    Reading("wina", "paper", "paper, section 3", {"variant": "paper"}, Wina),
    Reading("wina", "as released", WINA_CODE, {"variant": "as_released"}, partial(Wina, released=True)),
    Reading("wina", "shared masks", "own", {"variant": "paper", "masks": "shared"}, SharedWina),
    Reading("teal", "paper", "paper, section 4", {"variant": "paper"}, Gate),
    Reading("teal", "as released", TEAL_CODE, {"variant": "as_released"}, partial(Gate, released=True)),
    Reading("cats", "paper", CATS_CODE, {"variant": "paper"}, Cats, ("up", "down")),
    Reading("rsparse", "paper, rho 0.95", "paper, section 3", {"variant": "paper"}, partial(RSparse, rho=0.95)),
    Reading(
        "rsparse", "paper, rho 0.6", "paper, section 3", {"variant": "paper", "rho": 0.6}, partial(RSparse, rho=0.6)
    ),
    Reading("rsparse", "as released", RSPARSE_CODE, {"variant": "as_released"}, partial(RSparse, released=True)),
    Reading(
        "rsparse",
        "as released, rho 0.8",
        RSPARSE_CODE,
        {"variant": "as_released", "rho": 0.8},
        partial(RSparse, released=True, rho=0.8),
    ),
    Reading(
        "rsparse",
        "as released, searched shares",
        RSPARSE_CODE,
        {"variant": "as_released"},
        partial(RSparse, released=True, searched=True),
        shares=_SHARES,
    ),
    Reading("scap", "paper", SCAP_CODE, {"variant": "paper"}, Scap, MLP),
    Reading("scap", "as released", SCAP_CODE, {"variant": "as_released"}, partial(Scap, released=True), MLP),
    Reading("scap", "own", "own", {"variant": "own"}, partial(Scap, names=PROJECTIONS)),
)
READINGS: tuple[Reading, ...] = (
    *_TOP_K,
    *(_threshold(reading) for reading in _TOP_K if "rho 0.6" not in reading.label),
)


def table(sample: Sample, reading: Reading, levels: Mapping[str, float]) -> SparsityPlan:
    """Return the project's plan with these targets in the cells that the method gates, and 0 in the others."""
    layout = sample.loaded.view.layout
    own = reading.levels(levels)
    row = tuple(own.get(name, 0.0) for name in layout.projections)
    rho = None
    if reading.shares is not None:
        rho = (tuple(reading.shares[name] for name in layout.projections),) * layout.layers
    return SparsityPlan(layout=layout, sparsity=(row,) * layout.layers, rho=rho)


def calibrated(sample: Sample, spec: MethodSpec, text: TextSpec, plan: SparsityPlan | None = None) -> Calibration:
    """Calibrate the project's method on the dense model, once for each question."""
    shares = None if plan is None or plan.rho is None else plan
    key = spec, text, None if shares is None else shares.rho
    if key not in sample.calibrations:
        given = {} if shares is None else {"shares": shares}
        sample.calibrations[key] = calibrate(sample.loaded, spec, CalibrationSpec(text=text), NullReporter(), **given)
    return sample.calibrations[key]


def _modes(calibration: Calibration) -> dict[Cell, Tensor]:
    return {(layer, PROJECTIONS[column]): mode.double() for (layer, column), mode in calibration.centres.items()}


def oracle_gate(sample: Sample, reading: Reading, levels: Mapping[str, float], calibration: Calibration | None) -> Gate:
    """Return the oracle's gate, with the project's own thresholds and modes where the reading needs them."""
    own = reading.levels(levels)
    targets = {(layer, name): own[name] for layer, name in sample.weights.cells if name in own}
    extra: dict[str, Any] = {}
    if reading.shares is not None:
        extra["rho"] = {(layer, name): reading.shares[name] for layer, name in sample.weights.cells}
    if calibration is not None and calibration.centres:
        extra["modes"] = _modes(calibration)
    gate = reading.oracle(sample.weights, targets, **extra)
    if reading.spec.get("selection") == "threshold":
        assert calibration is not None
        gate.thresholds = {
            (layer, name): calibration.threshold(layer, PROJECTIONS.index(name), dropped(gate, layer, name))
            for layer, name in targets
        }
    return gate


def dropped(gate: Gate, layer: int, name: str) -> float:
    """Return the share of inputs that a gate's mask is to drop in a cell."""
    return gate.masked_fraction(layer, name) if isinstance(gate, RSparse) else gate.targets[layer, name]


def _measured(gates: Any, cells: tuple[Cell, ...]) -> dict[Cell, float]:
    found = {(record.layer, record.projection): record.value for record in gates.measured()}
    return {cell: found.get(cell, 0.0) for cell in cells}


def _expected(gate: Gate, cells: tuple[Cell, ...]) -> dict[Cell, float]:
    """Return the share of each matrix that is not read; a low-rank part of rank r reads r (m + n) of m n weights."""
    shares = dict.fromkeys(cells, 0.0)
    for (layer, name), mask in gate.masks.items():
        shares[layer, name] = 1 - int(mask.sum()) / mask.numel()
        if isinstance(gate, RSparse):
            m, n = gate.weights.layers[layer].matrices[name].weight.shape
            shares[layer, name] -= min(gate.rank(layer, name), m, n) * (m + n) / (m * n)
    return shares


def _equal(left: Mapping[Cell, float], right: Mapping[Cell, float]) -> bool:
    return all(abs(left[cell] - right[cell]) < 1e-12 for cell in left)


def gated_outcome(
    sample: Sample,
    gate: Gate,
    method: MethodSpec,
    plan: SparsityPlan | UniformSparsity,
    calibration: Calibration | None = None,
    ids: Tensor | None = None,
    prefix: float = 0.0,
    weights: Weights | None = None,
) -> Outcome:
    """Compare the project's gated logits and counts with the oracle's."""
    ids = tiny_tokens(rows=2, length=24) if ids is None else ids
    expected = recomputed.forward(weights or sample.weights, sample.shape, ids, gate)
    with attach(sample.loaded, method, plan, calibration, dense_prefix=prefix) as gates:
        found = sample.logits(ids)
        measured = _measured(gates, sample.weights.cells)
    return Outcome(difference(found, expected), _equal(measured, _expected(gate, sample.weights.cells)))


def worst(outcomes: Iterable[Outcome]) -> Outcome:
    """Return the largest difference of several comparisons, and whether all counts agree."""
    differences, equal = zip(*((outcome.difference, outcome.counts_equal) for outcome in outcomes), strict=True)
    return Outcome(max(differences), all(equal))


def compare(reading: Reading, sample: Sample, text: TextSpec) -> Outcome:
    """Compare one reading on one model for every plan of PLANS."""
    spec, outcomes, calibration = reading.method_spec, [], None
    if spec.needs_calibration:
        calibration = calibrated(sample, spec, text, table(sample, reading, PLANS[0]))
    for levels in PLANS:
        gate = oracle_gate(sample, reading, levels, calibration)
        outcomes.append(gated_outcome(sample, gate, spec, table(sample, reading, levels), calibration))
    return worst(outcomes)


# ---- rotations ---------------------------------------------------------------------------------------------------


def published_rotation(text: TextSpec) -> RotationSpec:
    """Return the project's spec of the published transform."""
    return RotationSpec(mode="per_site", attention_basis=("k",), mlp_basis=("gate",), per_head=False, text=text)


def larosa_rotation(text: TextSpec) -> RotationSpec:
    """Return the project's spec of LaRoSA's rotation."""
    fields = {"mode": "per_layer", "attention_basis": ("activations",), "mlp_basis": (), "per_head": False}
    return RotationSpec.model_validate({**fields, "text": text})


def compare_transform(name: str, text: TextSpec) -> Outcome:
    """Compare the dense logits of the published transform with those of the model; it has no masks."""
    model = sample(name)
    ids = tiny_tokens(rows=2, length=24)
    expected = recomputed.forward(recomputed.transform(model.weights), model.shape, ids)
    rotate(model.loaded, published_rotation(text), NullReporter())
    return Outcome(difference(model.logits(ids), expected), True)


def compare_transformed(name: str, text: TextSpec, variant: str = "as_released") -> Outcome:
    """Compare WINA on the published transform, gated by top k."""
    model = sample(name)
    weights = recomputed.transform(model.weights)
    rotate(model.loaded, published_rotation(text), NullReporter())
    reading = next(each for each in READINGS if each.spec == {"variant": variant} and each.method == "wina")
    outcomes = []
    for levels in PLANS:
        targets = {(layer, each): levels[each] for layer, each in weights.cells}
        gate = reading.oracle(weights, targets)
        plan = table(model, reading, levels)
        outcomes.append(gated_outcome(model, gate, reading.method_spec, plan, weights=weights))
    return worst(outcomes)


def compare_larosa(name: str, text: TextSpec, *, folded: bool = True) -> Outcome:
    """Compare LaRoSA as released, by a uniform target; `folded` is the oracle's definition of the basis."""
    model = sample(name)
    tokens = read_tokens(text, model.loaded.tokenizer)
    bases = recomputed.larosa_bases(model.weights, model.shape, tokens, folded=folded)
    rotate(model.loaded, larosa_rotation(text), NullReporter())
    spec = MethodSpec(name="larosa")
    outcomes = []
    for sparsity in (0.25, 0.5, 0.6):
        targets = dict.fromkeys(model.weights.cells, sparsity)
        gate = Larosa(model.weights, targets, bases=bases, folded=folded)
        outcomes.append(gated_outcome(model, gate, spec, UniformSparsity(sparsity=sparsity)))
    return worst(outcomes)


# ---- greedy allocation -------------------------------------------------------------------------------------------


STEP = 0.25
"""Base step of the compared searches."""
BUDGETS = {"wina": (0.29, 0.65), "teal": (0.48, 0.88)}
"""Budgets that no two visited rows are equally close to. In the last of TEAL's k or v has stepped beyond 1."""
GREEDY = (*((name, "wina") for name in MODELS), ("llama-mha", "teal"), ("llama-gqa", "teal"), ("qwen2-tied", "teal"))
"""(model, repository) of the compared searches: TEAL's knows no fused models."""


@dataclass(frozen=True)
class Greedy:
    """A released greedy search on one model: the rows that the oracle visits, and what the project needs."""

    model: Sample
    method: MethodSpec
    allocator: AllocatorSpec
    calibration: Calibration
    search: Search
    rows: list[list[recomputed.Row]]

    def expected(self, budget: float) -> dict[Cell, float]:
        """Return the oracle's plan."""
        return recomputed.greedy_plan(self.model.weights, self.rows, self.search, budget)

    def found(self, budget: float) -> dict[Cell, float]:
        """Return the project's plan."""
        plan = AllocatedSparsity(sparsity=budget, allocator=self.allocator)
        record = allocate(self.model.loaded, self.method, plan, "key", NullReporter(), self.calibration)
        return {
            (layer, name): record.plan.sparsity[layer][PROJECTIONS.index(name)]
            for layer, name in self.model.weights.cells
        }


def greedy(name: str, by: str, text: TextSpec) -> Greedy:
    """Run the oracle's search of one repository, with the project's thresholds below 1 and exact ones from there."""
    model = sample(name)
    method = MethodSpec.model_validate({"name": by, "variant": "as_released", "selection": "threshold"})
    fields = {"name": "greedy", "variant": f"{by}_released", "step": STEP, "text": text}
    calibration = calibrated(model, method, text)
    ids = read_tokens(text, model.loaded.tokenizer)
    search = recomputed.wina_search(model.weights, STEP) if by == "wina" else recomputed.teal_search(STEP)
    exact = recomputed.exact_thresholds(model.weights, model.shape, ids, search)

    def threshold(layer: int, projection: str, sparsity: float) -> float:
        if sparsity >= 1:
            return exact(layer, projection, sparsity)
        return calibration.threshold(layer, PROJECTIONS.index(projection), sparsity)

    rows = recomputed.greedy_rows(model.weights, model.shape, ids, search, threshold)
    return Greedy(model, method, AllocatorSpec.model_validate(fields), calibration, search, rows)


def compare_greedy(name: str, by: str, text: TextSpec) -> Outcome:
    """Return the largest difference of the plans of one model over all BUDGETS; what overshoots 1 counts as the most a
    plan may hold, 0.99."""
    case, gaps = greedy(name, by, text), []
    for budget in BUDGETS[by]:
        found, expected = case.found(budget), case.expected(budget)
        gaps += [abs(min(found[cell], 0.99) - min(expected[cell], 0.99)) for cell in expected]
    return Outcome(max(gaps), True)


# ---- thresholds --------------------------------------------------------------------------------------------------


def _scored_inputs(model: Sample, text: TextSpec, gate: Gate) -> dict[Cell, Tensor]:
    tokens = read_tokens(text, model.loaded.tokenizer)
    inputs = recomputed.dense_inputs(model.weights, model.shape, tokens)
    scores = {}
    for layer, name in gate.targets:
        x = inputs[layer, name]
        if isinstance(gate, Cats):
            z = model.weights.layers[layer].matrices["gate"](inputs[layer, "gate"])
            scores[layer, name] = z * torch.sigmoid(z)
        else:
            scores[layer, name] = gate.score(layer, name, x) * x.sign()
    return scores


def threshold_error(reading: Reading, model: Sample, text: TextSpec) -> Outcome:
    """Return the largest relative difference between the project's thresholds and the exact quantiles."""
    plan = table(model, reading, PLANS[2])
    calibration = calibrated(model, reading.method_spec, text, plan)
    gate = oracle_gate(model, reading, PLANS[2], calibration)
    assert gate.thresholds is not None
    signed = reading.method == "teal" and reading.spec["variant"] == "as_released"
    exact = recomputed.teal_threshold if signed else recomputed.score_threshold
    errors = [
        abs(gate.thresholds[cell] / exact(scores, dropped(gate, *cell)) - 1)
        for cell, scores in _scored_inputs(model, text, gate).items()
    ]
    return Outcome(max(errors), True)


# ---- dense prefixes ----------------------------------------------------------------------------------------------

PREFIXES: Mapping[str, tuple[Callable[[int], int], float]] = {
    "WINA as released": (recomputed.wina_prefix, 0.01),
    "TEAL as released": (recomputed.teal_prefix, 0.5),
    "R-Sparse as released": (recomputed.rsparse_prefix, 0.9),
}
"""Name of the project's policy -> the oracle's rule, and the fraction to take where the project has no such policy."""
PROMPTS = (1, 2, 24, 25, 101, 150)
"""Tokens of the compared prompts."""


def compare_prefix(policy: str, model: Sample) -> Outcome:
    """Compare TEAL's gate at 50 % behind a released dense prefix, on PROMPTS."""
    rule, fraction = PREFIXES[policy]
    # R-Sparse's code asserts that there is more than one token.
    prompts = PROMPTS[1:] if policy == "R-Sparse as released" else PROMPTS
    gate = Gate(model.weights, dict.fromkeys(model.weights.cells, 0.5), prefix=rule)
    return worst(
        gated_outcome(
            model,
            gate,
            MethodSpec(name="teal"),
            UniformSparsity(sparsity=0.5),
            ids=tiny_tokens(rows=2, length=tokens),
            prefix=PREFILL_POLICIES.get(policy, fraction),
        )
        for tokens in prompts
    )


# ---- all comparisons ---------------------------------------------------------------------------------------------


EFFECT = "its evaluation code, gains kept"
"""The reading that the project does not have: its row shows the effect."""


class Texts(NamedTuple):
    """The texts of all comparisons; greedy searches read the short one."""

    long: TextSpec
    short: TextSpec


def texts(folder: Path) -> Texts:
    """Write the texts of all comparisons."""
    (folder / "short").mkdir()
    return Texts(random_text(folder, tokens=256), random_text(folder / "short", tokens=64, sequence=32))


@dataclass(frozen=True)
class Comparison:
    """A row of the table."""

    method: str
    label: str
    source: str
    measure: Callable[[str, Texts], Outcome]
    """Compares on the model of a name."""
    models: tuple[str, ...] = tuple(MODELS)
    unit: str = ""
    """Unit of the difference, if it is not that of logits."""
    limit: float = LIMIT


def shared(compare_on: Callable[..., Outcome], *arguments: Any) -> Callable[[str, Texts], Outcome]:
    """Return a measure on samples that comparisons share, since they do not change them."""
    return lambda name, texts: compare_on(*arguments, shared_sample(name), texts.long)


shared_sample = cache(sample)
_LONG: dict[tuple[str, str, str], Callable[[str, TextSpec], Outcome]] = {
    ("transform", "published, logits of the dense model", TRANSFORM_CODE): compare_transform,
    ("wina + transform", "as released", TRANSFORM_CODE): partial(compare_transformed, variant="as_released"),
    ("wina + transform", "paper", TRANSFORM_CODE): partial(compare_transformed, variant="paper"),
    ("larosa", "merged, gains folded", LAROSA_CODE): compare_larosa,
    ("larosa", EFFECT, LAROSA_CODE): partial(compare_larosa, folded=False),
}
"""Comparisons on a model of their own, which they rotate, by the long text."""


def _comparisons() -> Iterator[Comparison]:
    for each in READINGS:
        yield Comparison(each.method, each.label, each.source, shared(compare, each))
    for each in READINGS:
        if each.spec.get("selection") == "threshold":
            label, unit = f"{each.label}, against exact quantiles", "relative, of thresholds"
            yield Comparison(each.method, label, each.source, shared(threshold_error, each), unit=unit, limit=0.01)
    for (method, label, source), rotated in _LONG.items():
        limit = math.inf if label == EFFECT else LIMIT
        yield Comparison(method, label, source, lambda name, texts, it=rotated: it(name, texts.long), limit=limit)
    for policy in PREFIXES:
        prefix = lambda name, _, it=policy: compare_prefix(it, shared_sample(name))  # noqa: E731
        yield Comparison("dense prefix", policy, "see recomputed/selections.py", prefix, ("llama-gqa",))
    for by, file in (("wina", "microsoft/wina: wina/greedyopt.py"), ("teal", "FasterDecoding/TEAL: teal/greedyopt.py")):
        plans = lambda name, texts, it=by: compare_greedy(name, it, texts.short)  # noqa: E731
        models = tuple(name for name, search in GREEDY if search == by)
        yield Comparison("greedy", f"as released by {by.upper()}", file, plans, models, unit="of plans")


COMPARISONS = tuple(_comparisons())
