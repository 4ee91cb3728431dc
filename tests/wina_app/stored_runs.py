"""A small real database, and a stand-in for the window's store thread that answers at once."""

import math
from collections.abc import Callable, Sequence
from typing import Any

from PySide6.QtCore import QObject, Signal

from wina_core.errors import WinaError
from wina_core.jobs import Event, Submit
from wina_core.records import CalibrationRecord, LayerRecord, MetricRecord, ModelShape, ModelSummary, UnitRecord
from wina_core.specs import (
    FIDELITY,
    NO_ROTATION,
    CalibrationSpec,
    Configuration,
    EvaluationSpec,
    MethodSpec,
    ModelSource,
    RotationSpec,
    RunSpec,
)
from wina_core.specs.plans import PlanLayout, SparsityPlan, UniformSparsity
from wina_core.specs.studies import StudySpec
from wina_core.store import Recorders, Store

PROJECTIONS = ("q", "k", "v", "o", "gate", "up", "down")
SOURCE = ModelSource(location="/models/demo-llama", fingerprint="f00d")
GLOBAL = RotationSpec()
CONFIGURATIONS = (("teal", NO_ROTATION), ("wina", NO_ROTATION), ("wina", GLOBAL))
SPARSITIES = (0.25, 0.4, 0.5, 0.65)


def layout(layers: int = 8) -> PlanLayout:
    """Weights as in a small model with grouped-query attention."""
    return PlanLayout(
        projections=PROJECTIONS, parameters=((65536, 16384, 16384, 65536, 172032, 172032, 172032),) * layers
    )


def summary(layers: int = 8) -> ModelSummary:
    """What the Model page would have loaded."""
    table = layout(layers)
    gated = sum(map(sum, table.parameters))
    return ModelSummary(
        location=SOURCE.location, fingerprint=SOURCE.fingerprint, architecture="LlamaForCausalLM", family="llama",
        layout=table, hidden_size=256, intermediate_size=672, heads=8, kv_heads=2, head_dim=32, vocabulary=4096,
        context=512, tied_embeddings=True, dtype="bfloat16", parameters=gated + 1_048_576, gated_parameters=gated,
        memory_bytes=2 * (gated + 1_048_576), shape=shape(layers),
    )  # fmt: skip


def shape(layers: int = 8) -> ModelShape:
    """Sizes of the same model, for its costs."""
    return ModelShape(
        layout=layout(layers), inputs=((256, 256, 256, 256, 256, 256, 672),) * layers, fused=False, hidden_size=256,
        heads=8, kv_heads=2, head_dim=32, rotary_dim=32, windows=(None,) * layers, head_weights=1_048_576,
        further_weights=0, embedding_row=256, rms_norm_inputs=256 * (2 * layers + 1), layer_norm_inputs=0,
        norm_weights=256 * (2 * layers + 1), biases=0, dtype="bfloat16",
    )  # fmt: skip


class DirectStore(QObject):
    """Has the interface of `StoreThread`, on the calling thread."""

    changed = Signal()
    opened = Signal(object)
    unwritable = Signal(str)
    unanswered = 0

    def __init__(self, store: Store) -> None:
        super().__init__()
        self.store = store
        self._recorders = Recorders(store)

    def ask(
        self,
        question: Callable[[Any], object],
        answer: Callable[[Any], None] = lambda _: None,
        refused: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Answer at once."""
        try:
            value = question(self.store)
        except WinaError as error:
            refused(str(error))
        else:
            answer(value)

    def record(self, messages: Sequence[Submit | Event], refused: Callable[[str], None]) -> None:
        """Record at once."""
        for message in messages:
            self.write(lambda _store, message=message: self._recorders.record(message), refused)

    def write(self, change: Callable[[Any], object], refused: Callable[[str], None]) -> None:
        """Write at once."""
        try:
            change(self.store)
        except WinaError as error:
            refused(str(error))
        else:
            self.changed.emit()


def run_spec(method: str, rotation: RotationSpec, sparsity: float | SparsityPlan) -> RunSpec:
    """One run of the demo evaluation."""
    plan = UniformSparsity(sparsity=sparsity) if isinstance(sparsity, float) else sparsity
    evaluation = EvaluationSpec(tasks=("demo_choice",))
    return RunSpec(model=SOURCE, rotation=rotation, method=MethodSpec(name=method), plan=plan, evaluation=evaluation)


def record_run(store: Store, spec: RunSpec, shift: float = 0.0, name: str = "demo study", miss: float = -0.002) -> str:
    """Store a finished run with plausible numbers and return its hash; `miss`: measured minus target sparsity."""
    store.save_study(StudySpec(name=name, models=(SOURCE,), configurations=(Configuration(),)), [spec])
    return _record_units(store, spec, shift, miss)


def _record_units(store: Store, spec: RunSpec, shift: float = 0.0, miss: float = -0.002) -> str:
    run, target = spec.content_hash(), spec.plan.budget
    loss = target**3 * (1.0 + shift)
    dense = spec.method.name == "dense"
    layers = () if dense else tuple(
        LayerRecord(layer=layer, projection=projection, metric="sparsity", value=value)
        for layer, projection, value in _measured(spec)
    )  # fmt: skip
    counted = None if dense else target + miss
    store.record_unit(
        UnitRecord(
            run=run, unit=FIDELITY, seconds=1.0, layers=layers, gated_sparsity=counted, net_sparsity=counted,
            metrics=(
                _metric("demo:heldout", "kl", loss, None, 16384, False),
                _metric("demo:heldout", "perplexity", 6.2 * math.exp(loss), None, 16384, False),
            ),
        )
    )  # fmt: skip
    store.record_unit(
        UnitRecord(
            run=run, unit="demo_choice", seconds=2.0, gated_sparsity=counted, net_sparsity=counted,
            metrics=(_metric("demo_choice", "acc", 0.71 - 0.5 * loss, 0.0161, 800, True),),
        )
    )  # fmt: skip
    return run


def record_demo_study(store: Store) -> list[str]:
    """Dense, TEAL, WINA and rotated WINA at four sparsities; returns the runs' hashes."""
    runs = {run_spec("dense", NO_ROTATION, 0.0): 0.0}
    for number, (method, rotation) in enumerate(CONFIGURATIONS):
        runs |= {run_spec(method, rotation, sparsity): 0.8 - 0.4 * number for sparsity in SPARSITIES}
    store.save_study(StudySpec(name="demo study", models=(SOURCE,), configurations=(Configuration(),)), [*runs])
    return [_record_units(store, spec, shift) for spec, shift in runs.items()]


def record_calibration(store: Store, method: MethodSpec, rotation: RotationSpec) -> None:
    """Error curves that grow with depth and sparsity."""
    records = tuple(
        LayerRecord(
            layer=layer, projection=name, metric="relative_error", x=x, value=x**2 * (1 + layer / 8 + column / 7)
        )
        for layer in range(8)
        for column, name in enumerate(PROJECTIONS)
        for x in (0.05 * step for step in range(20))
    )
    record = CalibrationRecord(key="cache-key", tokens=16384, layers=records, seconds=3.0)
    store.record_calibration(SOURCE, rotation, method, CalibrationSpec(), record)


def _measured(spec: RunSpec) -> list[tuple[int, str, float]]:
    table = spec.plan.for_layout(layout()).sparsity
    return [
        (layer, name, table[layer][column] + 0.01 * math.sin(3 * layer + column))
        for layer in range(8)
        for column, name in enumerate(PROJECTIONS)
    ]


def _metric(task: str, metric: str, value: float, stderr: float | None, n: int, up: bool) -> MetricRecord:
    return MetricRecord(task=task, metric=metric, value=value, stderr=stderr, n=n, higher_is_better=up)
