"""Needs of a job before it begins: products that are not on disk, and memory and disk for large models and searches.

The command line prints them and the window asks, since a long computation would begin silently otherwise.
"""

import math
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from wina_core.errors import WinaError
from wina_core.files.hardware import free_memory, free_on_disk, gigabytes, machine_memory
from wina_core.files.paths import cache_folder
from wina_core.jobs import (
    AllocateJob,
    AllocateJointlyJob,
    CalibrateJob,
    DecodeJob,
    EvaluateJob,
    ExportGgufJob,
    ExportModelJob,
    GenerateJob,
    InspectGateJob,
    InspectJob,
    Job,
    RotateJob,
)
from wina_core.model_info import products
from wina_core.model_info.cost.refinement import NOTHING, ModelSizes, RefinementNeed, refinement_need
from wina_core.model_info.model_checks import read_supported
from wina_core.model_info.resolve import files_of, resolve
from wina_core.model_info.sizes import (
    BY_LAYER,
    ELEMENT_BYTES,
    WORKING,
    converted_bytes,
    fits_memory,
    largest_layer_bytes,
    on_processor,
    suited,
    weights_bytes,
)
from wina_core.records import ProductKind, RotationChoice
from wina_core.specs import (
    COST,
    NO_ROTATION,
    SYNTHETIC,
    AllocatedSparsity,
    CalibrationSpec,
    MethodSpec,
    ModelSource,
    Plan,
    QuantizationSpec,
    RotationSpec,
    RunSpec,
)
from wina_core.specs.methods import get_method
from wina_core.specs.plans import SparsityPlan

LONG_SECONDS = 60.0
"""Duration from which a product is worth a question."""


@dataclass(frozen=True)
class MissingProduct:
    """A product that a job would compute first."""

    kind: ProductKind
    label: str
    """Its name, for example "global refined + heads", "scap" or "curves"."""
    job: Job
    """The job that computes it alone."""
    seconds: float | None = None
    """Duration of an earlier computation; None if it was never computed here."""
    begun: bool = False
    """True if finished stages of an interrupted computation are on disk, from which it continues."""
    slow: bool = False
    """True if it counts as long while its duration is unknown."""

    @property
    def is_long(self) -> bool:
        """True if it takes a minute or more, by its last duration; if that is unknown, as `slow` says."""
        return self.slow if self.seconds is None else self.seconds >= LONG_SECONDS


@dataclass(frozen=True)
class _Need:
    """A rotated model, and the method whose products are needed; None for the rotation alone."""

    model: ModelSource
    rotation: RotationSpec
    method: MethodSpec | None = None
    calibration: CalibrationSpec | None = None
    plan: Plan | None = None


def missing_products(job: Job) -> tuple[MissingProduct, ...]:
    """Return the products that the job needs beside its own result, and that are not on disk, in the order of need.

    Without torch and without loading the model, but it digests files: call it on no thread that must answer. What
    cannot be known, such as of a model that is not downloaded, is left out.
    """
    # A job that computes one product is not preceded by that product: its own result is left out below.
    product_of_job = (job.model_copy(update={"spectra": False}) if isinstance(job, RotateJob) else job).model_dump()
    missing: dict[str, MissingProduct] = {}
    resolved, identity = cache(resolve), cache(_identity)  # each model's files are read once for all runs
    for need in dict.fromkeys(_needs(job)):
        try:
            missing |= {
                key: product for key, product in _missing(need, resolved, identity).items() if key not in missing
            }
        except (OSError, WinaError):  # the job itself reports a file that cannot be read better
            continue
    return tuple(product for product in missing.values() if product.job.model_dump() != product_of_job)


def missing_rotation(model: ModelSource, rotation: RotationSpec) -> MissingProduct | None:
    """Return a rotation that is not on disk; None if it is, or if that cannot be known. Digests files, too."""
    try:
        missing = _missing(_Need(model, rotation), resolve, _identity).values()
        return next((product for product in missing if product.kind == "rotation"), None)
    except WinaError:  # the job itself reports a missing file better
        return None


def needed_models(job: Job) -> tuple[tuple[ModelSource, RotationSpec], ...]:
    return tuple(dict.fromkeys((need.model, need.rotation) for need in _needs(job)))


def counts_alone(spec: RunSpec) -> bool:
    """Return whether the sizes of its model determine a run's cost, without an allocation or a choice of auto."""
    return not isinstance(spec.plan, AllocatedSparsity) and not spec.rotation.is_auto


def _needs(job: Job) -> Iterator[_Need]:
    match job:
        case EvaluateJob():
            for run in job.runs:
                if set(run.units) <= ({COST, SYNTHETIC} if counts_alone(run.spec) else {SYNTHETIC}):
                    continue
                yield _of_run(run.spec)
        case InspectGateJob():
            yield _Need(job.model, job.rotation)
            for gate in job.gates:
                yield _Need(job.model, job.rotation, gate.method, job.calibration)
        case GenerateJob():
            for spec in job.configurations:
                if not spec.is_dense:
                    yield _Need(job.model, spec.rotation, spec.method, spec.calibration, spec.plan)
        case ExportModelJob():
            yield _of_run(job.spec)
        case DecodeJob():
            yield _Need(job.spec.model, job.spec.rotation, job.spec.method, job.spec.calibration)
        case InspectJob():
            yield _Need(job.model, NO_ROTATION)
        case RotateJob() | ExportGgufJob():
            yield _Need(job.model, job.rotation)
        case CalibrateJob():
            yield _Need(job.model, job.rotation)
        case AllocateJointlyJob():
            yield _Need(job.model.unquantized, job.rotation)
        case AllocateJob():
            yield _Need(job.model, job.rotation, job.method, job.calibration, job.plan)
        case _:
            return


def _chosen(file: Path) -> RotationSpec | None:
    """Return the rotation that a stored choice names; None without a readable one, which the job itself reports."""
    try:
        return RotationChoice.model_validate_json(file.read_bytes()).rotation
    except (OSError, ValueError):
        return None


def _of_run(spec: RunSpec) -> _Need:
    return _Need(spec.model, spec.rotation, spec.method, spec.calibration, spec.plan)


def _identity(source: ModelSource) -> str:
    return products.identity(source, files_of(source))


def _missing(
    need: _Need, resolved: Callable[[ModelSource], ModelSource], identity: Callable[[ModelSource], str]
) -> Mapping[str, MissingProduct]:
    """Return the missing products of one need by their keys."""
    missing: dict[str, MissingProduct] = {}

    def add(kind: ProductKind, label: str, job: Job, *files: Path, slow: bool) -> None:
        """Note a product that is in none of the files, under the name of the first."""
        if not any(file.exists() for file in files):
            is_begun = any(map(products.has_stages, files))
            earlier = [products.remembered_seconds(file.stem) for file in files]
            duration = next((seconds for seconds in earlier if seconds is not None), None)
            missing[files[0].stem] = MissingProduct(kind, label, job, duration, is_begun, slow)

    method, plan = need.method, need.plan
    source = resolved(need.model)
    real = source.location != "demo"
    rotation = need.rotation
    if rotation.is_auto:
        file = products.choice_file(identity(source.unquantized), rotation)
        slow = real and rotation.objective != "eigen"
        add("rotation", rotation.label, RotateJob(model=need.model, rotation=rotation), file, slow=slow)
        rotation = _chosen(file) or rotation
    if not rotation.is_identity and not rotation.is_auto and not rotation.matrices:
        # Bases of the unquantized model serve all its quantizations; older versions wrote those without `whole`.
        plain = identity(source.unquantized)
        files = [products.bases_file(plain, rotation, whole=whole) for whole in (True, False)]
        slow = rotation.objective != "eigen" or (real and rotation.weighting == "sensitivity")
        add("rotation", rotation.label, RotateJob(model=need.model, rotation=rotation), *files, slow=slow)
    if isinstance(source.quantization, QuantizationSpec) and source.quantization.reads_text:
        file = products.quantized_file(identity(source.unquantized), rotation, source.quantization)
        # Loading a model quantizes it, as rotating it does with the rotated weights.
        alone = InspectJob(model=need.model) if rotation.is_identity else RotateJob(model=need.model, rotation=rotation)
        add("quantization", source.quantization.label, alone, file, slow=real)
    if method is None:
        return missing
    model = identity(source)
    spec = need.calibration or CalibrationSpec()
    if isinstance(plan, AllocatedSparsity):
        one = products.searched(method, plan.allocator)
        file, _ = products.allocation_files(model, rotation, one, plan, spec if one.needs_calibration else None)
        allocation = AllocateJob(model=need.model, rotation=rotation, method=method, plan=plan, calibration=spec)
        add("allocation", plan.provenance, allocation, file, slow=real and plan.allocator.name != "uniform")
    if method.untuned.needs_calibration:
        shares = plan if isinstance(plan, SparsityPlan) and plan.rho is not None else None
        shares = shares if get_method(method).scores_by_shares else None
        key = products.calibration_key(model, rotation, method, spec, shares)
        calibration = CalibrateJob(model=need.model, rotation=rotation, method=method, calibration=spec)
        add("calibration", method.label, calibration, products.calibration_file(key), slow=real)
    return missing


_NOTICEABLE_BYTES = 1e9
"""Bytes from which on the need of a search is reported."""


@dataclass(frozen=True)
class MemoryNeed:
    """Memory and disk of a model whose weights stay in their files, or whose rotation search takes much.

    All sizes in bytes.
    """

    location: str
    weights: float
    memory: float
    """Free memory."""
    disk: float
    """Disk that its rotated and converted weights take while they are made; 0 in memory."""
    folder: Path
    """Folder of what is written."""
    free: float
    """Free disk of the folder."""
    by_layer: float = 0.0
    """Least memory for reading it layer by layer, beside quantized weights, which are not in files; 0 if unknown."""
    machine: float = 0.0
    """Memory that would be free without the user's limit."""
    in_files: bool = True
    """True if its weights stay in their files."""
    search: RefinementNeed = NOTHING
    """Memory and disk of the search for its rotation beside the weights; nothing if it is little or on disk already."""

    @property
    def identity(self) -> tuple[str, bool, float, RefinementNeed]:
        """Return the sizes that tell two needs apart; free memory and disk change all the time."""
        return self.location, self.in_files, self.disk, self.search

    @property
    def whole(self) -> float:
        return WORKING * self.weights

    @property
    def whole_disk(self) -> float:
        return self.disk + self.search.disk

    @property
    def taken(self) -> tuple[float, float]:
        return self.whole_disk, self.search.memory

    @property
    def beside(self) -> float:
        """Free memory beside the weights; weights in files take none of it."""
        return self.memory if self.in_files else max(self.memory - self.weights, 0.0)

    @property
    def has_search_memory(self) -> bool:
        return self.search.memory <= self.beside

    @property
    def has_disk(self) -> bool:
        return self.whole_disk <= self.free

    @property
    def text(self) -> str:
        """Return the need in a few sentences, with advice where something is short."""
        sentences, left = [], f"{self.folder} has {gigabytes(self.free)} left."
        if self.in_files:
            sentences.append(
                f"The weights of {self.location} take {gigabytes(self.weights)}, but {gigabytes(self.memory)} of "
                "memory are free: they are read from their files layer by layer."
            )
        if self.disk:
            sentences.append(f"Their rotated or converted copies take {gigabytes(self.disk)} of disk, and {left}")
        if self.search.memory:
            disk = f" and {gigabytes(self.search.disk)} of disk" if self.search.disk else ""
            sentences.append(
                f"Finding the rotation of {self.location} takes {gigabytes(self.search.memory)} of memory{disk} beside "
                f"its weights; {gigabytes(self.beside)} of memory are free beside them."
            )
            if self.search.disk and not self.disk:
                sentences.append(left)
        return " ".join((*sentences, *self.advice))

    @property
    def advice(self) -> tuple[str, ...]:
        """Return a sentence for each way that fits better: less of a limit, a smaller search, more memory or disk."""
        sentences = []
        if self.in_files and self.machine >= self.whole:
            sentences.append(
                f"Without the limit on memory it fits: {gigabytes(self.machine)} are free on this machine."
            )
        elif self.in_files and self.by_layer > self.memory:
            sentences.append(
                f"Layer by layer it takes {gigabytes(self.by_layer)}: allow or free that much memory, or choose a "
                "smaller data type."
            )
        if not self.has_search_memory:
            sentences.append(
                "For the rotation search, free memory, choose fewer tokens of its text, or choose the objective eigen."
            )
        if not self.has_disk:
            sentences.append("Free some space, set WINA_HOME to a folder on another disk, or choose no rotation.")
        return tuple(sentences)


def memory_needs(job: Job) -> tuple[MemoryNeed, ...]:
    """Return the needs of a job's models on the processor that exceed memory or have a large rotation search.

    Models of unknown size are left out, and all models on systems other than Linux.
    """
    if sys.platform != "linux":
        return ()
    needs: dict[str, MemoryNeed] = {}
    (machine, _), memory, folder = machine_memory(), free_memory(), cache_folder()
    free = free_on_disk(folder)
    for source, rotation in needed_models(job):
        size = weights_bytes(source)
        if math.isinf(size) or not on_processor(source):
            continue
        in_files = not fits_memory(size)
        disk = _copies(source, rotation, size) if in_files else 0.0
        search = _search_need(source, rotation, size, memory)
        least = BY_LAYER * largest_layer_bytes(source) + _quantized(source, size)
        need = MemoryNeed(source.location, size, memory, disk, folder, free, least, machine, in_files, search)
        if in_files or search.memory:
            # Of two rotations of a model, the one that takes more.
            needs[source.location] = max(need, needs.get(source.location, need), key=lambda candidate: candidate.taken)
    return tuple(needs.values())


def _copies(source: ModelSource, rotation: RotationSpec, size: float) -> float:
    """Return the bytes on disk of converted and rotated weights, for weights of `size` bytes as loaded."""
    stacked, cast = converted_bytes(source)
    rotated = 0.0 if rotation.is_identity else 2 * size + 2 * stacked  # layers and the folder, with stacks of their own
    return stacked + cast + rotated


def _quantized(source: ModelSource, size: float) -> float:
    """Return the bytes of quantized weights, of a model of `size` bytes in 16 bits."""
    chosen = source.quantization
    if chosen == "none":
        return 0.0
    return size * (chosen.mean_bits if isinstance(chosen, QuantizationSpec) else int(chosen.removeprefix("int"))) / 16


def _search_need(source: ModelSource, rotation: RotationSpec, size: float, memory: float) -> RefinementNeed:
    """Return what finding a rotation takes beside weights of a size; nothing if it is little, unknown or done."""
    try:
        config, _ = read_supported(files_of(source))
    except (OSError, WinaError):  # the job itself reports a folder that cannot be read better
        return NOTHING
    mapped = not fits_memory(size)
    need = refinement_need(_sizes(config, source, size), rotation, memory - (0 if mapped else size), mapped=mapped)
    if need.memory + need.disk < _NOTICEABLE_BYTES or missing_rotation(source, rotation) is None:
        return NOTHING
    return need


def _sizes(config: Mapping[str, Any], source: ModelSource, size: float) -> ModelSizes:
    """Return the sizes that a config.json states, of a model with weights of so many bytes."""
    hidden, layers, vocabulary = (config[name] for name in ("hidden_size", "num_hidden_layers", "vocab_size"))
    inner = config.get("intermediate_size") or config["ffn_dim"]  # OPT's name
    experts = config.get("num_experts_per_tok") or 0
    chosen = suited(source, files_of(source)).dtype
    named = chosen if chosen != "auto" else config.get("dtype") or config.get("torch_dtype")
    element = ELEMENT_BYTES.get(str(named), 2)
    heads = config["num_attention_heads"]
    return ModelSizes(
        hidden=hidden,
        attention=heads * (config.get("head_dim") or hidden // heads),
        inner=max(inner, experts * (config.get("moe_intermediate_size") or inner)),
        layers=layers,
        vocabulary=vocabulary,
        element=element,
        layer=max(size / layers, float(vocabulary * hidden * element)),  # the embedding may be the largest one
    )
