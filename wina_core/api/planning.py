"""Calibration of gates, and allocation of a budget to the matrices."""

from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

from wina_core.api.arguments import allocate_job, allocator_spec, calibrate_job, checked, joint_job, method_spec
from wina_core.api.model import Model
from wina_core.api.session import compute
from wina_core.records import AllocationRecord, CalibrationRecord, JointRecord
from wina_core.specs import (
    AllocatorName,
    CalibrationSpec,
    MethodSpec,
    QuantizationSpec,
    Quantizer,
    TextSpec,
)
from wina_core.specs.plans import SparsityPlan
from wina_core.specs.quantization import PlanPair

if TYPE_CHECKING:
    import pandas as pd

_CALIBRATION_TEXT = CalibrationSpec().text


@checked
def calibrate(
    model: Model,
    method: str | MethodSpec = "wina",
    *,
    text: str | PathLike[str] = _CALIBRATION_TEXT.source,
    tokens: int = _CALIBRATION_TEXT.tokens,
) -> "pd.DataFrame":
    """Measure score thresholds and error curves of a method, and store them.

    Gates and measurements that need a calibration make it themselves; this shows it.

    Parameters
    ----------
    model : Model
        The model.
    method : str or wina_core.specs.MethodSpec
        A gate rule: "wina", "teal", "cats", "rsparse", "scap", "larosa", or one of a package.
    text : str or path
        A UTF-8 file, "demo:training", "demo:calibration" or "demo:heldout".
    tokens : int
        Tokens to read of it.

    Returns
    -------
    pandas.DataFrame
        One row per number, with columns layer (int), projection (str), metric (str), sparsity (fraction, NaN for
        measurements of the weights) and value. Metrics are "threshold" (of scores), "relative_error" (of a matrix's
        output, L2), "kept_energy" (fraction), "norm_spread" and "off_diagonal_energy".

    Raises
    ------
    WinaError
        For an unknown method, or a text that cannot be read.

    Examples
    --------
    >>> import wina_core
    >>> model = wina_core.open_model("demo", dtype="float32")
    >>> curves = wina_core.calibrate(model, "wina", tokens=512)
    >>> errors = curves.query("metric == 'relative_error' and sparsity == 0.5")
    >>> bool(errors.value.between(0, 1).all())
    True
    """
    import pandas as pd

    read = TextSpec(source=fspath(text), tokens=tokens)
    job = calibrate_job(model.source, model.rotation, method_spec(method, None), read)
    record = compute(job, CalibrationRecord, model.database)
    rows = [(row.layer, row.projection, row.metric, row.x, row.value) for row in record.layers]
    return pd.DataFrame(rows, columns=["layer", "projection", "metric", "sparsity", "value"])


@checked
def allocate(
    model: Model,
    sparsity: float,
    method: str | MethodSpec = "wina",
    *,
    allocator: AllocatorName = "curves",
    step: float = 0.025,
    rounds: int = 20,
    seed: int = 0,
    text: str | PathLike[str] = "demo:calibration",
    tokens: int = 8192,
) -> SparsityPlan:
    """Spread a budget of sparsity over layers and projections.

    An interrupted search continues when it is called again; a finished one is in the cache.

    Parameters
    ----------
    model : Model
        The model.
    sparsity : float
        The budget, in [0, 1): the fraction of all gated weights to drop.
    method : str or wina_core.specs.MethodSpec
        The gate rule.
    allocator : {"curves", "greedy", "refine", "evolution", "marginal", "uniform"}
        The search; "curves" is the optimum of each matrix's own KL divergence. `allocate_jointly` chooses bits, too.
    step : float
        Greedy: sparsity that one step adds; others: the smallest move.
    rounds : int
        Rounds of "refine", generations of "evolution".
    seed : int
        Random seed of "evolution".
    text : str or path
        Text to measure on: a UTF-8 file or "demo:calibration".
    tokens : int
        Tokens to read of it.

    Returns
    -------
    wina_core.specs.plans.SparsityPlan
        `sparsity[layer][projection]` are its targets, fractions; `budget` is their mean, weighted by the matrices'
        sizes; `model_dump_json()` is its file, which window and command line open.

    Raises
    ------
    WinaError
        For an unknown allocator or a budget outside [0, 1).

    Examples
    --------
    >>> import wina_core
    >>> model = wina_core.open_model("demo", dtype="float32")
    >>> plan = wina_core.allocate(model, 0.5, "wina", allocator="marginal", tokens=512)
    >>> round(plan.budget, 2)
    0.5
    >>> len(plan.sparsity) == model.layout.layers
    True
    """
    read = TextSpec(source=fspath(text), tokens=tokens)
    spec = allocator_spec(allocator, step=step, rounds=rounds, seed=seed, text=read)
    job = allocate_job(model.source, model.rotation, method_spec(method, "topk"), float(sparsity), spec)
    return compute(job, AllocationRecord, model.database).plan


@checked
def allocate_jointly(
    model: Model,
    method: str | MethodSpec = "wina",
    *,
    bits_read: float | None = None,
    bits_held: float | None = None,
    quantizer: Quantizer | QuantizationSpec = "planes",
    refined: bool = False,
    step: float = 0.025,
    text: str | PathLike[str] = "demo:calibration",
    tokens: int = 8192,
) -> PlanPair:
    """Choose the bits and the sparsity of every matrix together, within budgets.

    It is `wina allocate --allocator joint`. A finished search is in the cache.

    Parameters
    ----------
    model : Model
        The model; its own quantization is left out.
    method : str or wina_core.specs.MethodSpec
        The gate rule.
    bits_read : float, optional
        Budget: bits read per token for each gated weight, with scales. "planes" needs it.
    bits_held : float, optional
        Budget: bits held for each gated weight, with scales; without it, planes hold 8. One of the two is needed.
    quantizer : {"planes", "gptq", "rtn", "hqq"} or wina_core.specs.QuantizationSpec
        Planes are by energy; a QuantizationSpec also has group, head bits and `by_energy`.
    refined : bool
        In planes, also measure the divergence that each mask causes alone.
    step : float
        Distance of the sparsities to choose from.
    text : str or path
        Text to measure on: a UTF-8 file or "demo:calibration".
    tokens : int
        Tokens to read of it.

    Returns
    -------
    wina_core.specs.quantization.PlanPair
        `quantization` is for `quantize`, `plan` for `measure` and `gate` of the quantized model; `text()` is its file,
        which window and command line open. A plan in planes is made for ``selection="threshold"``.

    Raises
    ------
    WinaError
        Without a budget, for one that no bits meet, or if the architecture is not supported.

    Examples
    --------
    >>> import wina_core
    >>> model = wina_core.open_model("demo", dtype="float32")
    >>> from wina_core.specs import QuantizationSpec, TextSpec
    >>> planes = QuantizationSpec(quantizer="planes", bits=6, by_energy=True, text=TextSpec(tokens=512))
    >>> pair = wina_core.allocate_jointly(model, bits_read=2.5, quantizer=planes, tokens=512)
    >>> quantized = wina_core.quantize(model, pair.quantization)
    >>> with wina_core.gate(quantized, pair.plan) as gates:
    ...     _ = quantized.model(quantized.tokenizer("A list is", return_tensors="pt").input_ids)
    """
    settings: dict[str, Any] = {}
    if quantizer != "planes":  # those by energy are the default
        named = isinstance(quantizer, str)
        settings["quantization"] = QuantizationSpec(quantizer=quantizer) if named else quantizer
    budgets: dict[str, Any] = {"bits_read": bits_read, "bits_held": bits_held, "refined": refined, "step": step}
    read = TextSpec(source=fspath(text), tokens=tokens)
    job = joint_job(model.source, model.rotation, method_spec(method, None), text=read, **budgets, **settings)
    return compute(job, JointRecord, model.database).pair
