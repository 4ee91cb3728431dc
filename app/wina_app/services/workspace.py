"""The workspace that every page reads: model, rotation, method and sparsity plan; saved and restored as the session."""

from collections.abc import Callable
from contextlib import suppress

from pydantic import BaseModel, ConfigDict, ValidationError
from PySide6.QtCore import QObject, QTimer, Signal

from wina_app.services.settings import Settings
from wina_core.errors import WinaError
from wina_core.records import ModelSummary, RotationReport
from wina_core.specs import (
    AUTO_ROTATION,
    MethodSpec,
    ModelSource,
    Quantization,
    QuantizationSpec,
    RotationSpec,
    quantization_label,
)
from wina_core.specs.methods import METHODS
from wina_core.specs.plans import SparsityPlan

START_SPARSITY = 0.5
"""Uniform target of a new plan."""
START_ROTATION = AUTO_ROTATION
"""Free at run time, and never worse than none by more than the error of its measurement."""
_SETTLED_MS = 150
"""Pause after which a changed quantization has settled."""

_SAVE_MS = 2_000
"""Delay of saving after the last change: painting a plan changes it many times a second."""


class Workspace(QObject):
    """State that the pages share, set by its methods alone; a signal fires after its attribute has changed."""

    model_changed = Signal()
    rotation_changed = Signal()
    method_changed = Signal()
    plan_changed = Signal()
    quantization_changed = Signal()
    """Another quantization of the same model."""
    quantization_settled = Signal()
    """The quantization has not changed for a while: a stroke over the map of bits changes it many times a second, and
    every text that names it is laid out again."""
    loading_changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.loading = ""
        """Name of the model that is being opened; empty while none is."""
        self.source: ModelSource | None = None
        """The model with its fingerprint; None before the first one is loaded."""
        self.summary: ModelSummary | None = None
        """Summary of the model; None until loaded."""
        self.rotation = START_ROTATION
        self.rotation_report: RotationReport | None = None
        """Measurement of the chosen rotation on the current model; None until measured."""
        self.method = MethodSpec(name="wina")
        self.plan: SparsityPlan | None = None
        """The plan being edited; None until a model is loaded."""
        self._rest = QTimer(self, singleShot=True, interval=_SETTLED_MS)
        self._rest.timeout.connect(self.quantization_settled)

    def set_loading(self, name: str) -> None:
        """Set the name of the model that is being opened; empty once it is loaded or has failed."""
        if name != self.loading:
            self.loading = name
            self.loading_changed.emit()

    def set_model(self, source: ModelSource, summary: ModelSummary) -> None:
        """Switch to a loaded model.

        A plan that does not fit it starts uniform. A rotation that is not exact for it becomes that of its heads
        alone, or none where an export rotated it.
        """
        self.source, self.summary = source, summary
        if not self.rotation.is_auto and self.rotation.mode not in summary.rotations:
            exported = summary.shape is not None and summary.shape.shortcuts != "none"
            self.rotation = RotationSpec(mode="none", per_head=not exported)
        self.rotation_report = None
        self.model_changed.emit()
        self.rotation_changed.emit()
        if self.plan is None or self.plan.layout != summary.layout:
            self.set_plan(SparsityPlan.uniform(summary.layout, START_SPARSITY))

    def set_rotation(self, rotation: RotationSpec, report: RotationReport | None = None) -> None:
        """Choose a rotation, with its measurement when there is one."""
        if rotation == self.rotation and report is None:
            return
        self.rotation, self.rotation_report = rotation, report
        self.rotation_changed.emit()

    def set_method(self, method: MethodSpec) -> None:
        if method != self.method:
            self.method = method
            self.method_changed.emit()

    def set_plan(self, plan: SparsityPlan) -> None:
        """Replace the plan; it must fit the loaded model (raises WinaError)."""
        if self.summary is not None:
            plan.for_layout(self.summary.layout)
        if plan != self.plan:
            self.plan = plan
            self.plan_changed.emit()

    @property
    def quantization(self) -> Quantization:
        return "none" if self.source is None else self.source.quantization

    def set_quantization(self, quantization: Quantization) -> None:
        """Quantize the model otherwise from the next run on; a plan of bits must fit it (raises WinaError)."""
        if self.source is None or quantization == self.source.quantization:
            return
        if self.summary is not None and isinstance(quantization, QuantizationSpec):
            quantization.plan(self.summary.layout)
        self.source = self.source.model_copy(update={"quantization": quantization})
        if self.rotation_report is not None:  # the rest of it is measured without quantization
            self.rotation_report = self.rotation_report.model_copy(update={"quantization": None})
        self.quantization_changed.emit()
        self._rest.start()

    def stop(self) -> None:
        self._rest.stop()

    def breadcrumb(self) -> list[tuple[str, str]]:
        """Return (page key, text) of model, rotation and method, for the page headers."""
        if self.source is None:
            return [("model", f"loading {self.loading}…" if self.loading else "no model")]
        name, bits = name_of(self.source.location), quantization_label(self.source.quantization)
        model = name if bits == "none" else f"{name} in {bits}"
        return [("model", model), ("rotation", self.rotation.label), ("sparsity", self.method.label)]


def name_of(location: str) -> str:
    """Return the last part of a model's folder or hub id."""
    return location.rstrip("/\\").replace("\\", "/").rsplit("/", 1)[-1]


class _SessionEntry(BaseModel):
    """The stored session; an unreadable field becomes None and costs no other."""

    model_config = ConfigDict(extra="ignore", defer_build=True)

    model: ModelSource | None = None
    rotation: RotationSpec | None = None
    method: MethodSpec | None = None
    plan: SparsityPlan | None = None


class WindowSession(QObject):
    """Saving and restoring of the workspace."""

    def __init__(self, settings: Settings, workspace: Workspace) -> None:
        super().__init__()
        self._settings, self._workspace = settings, workspace
        self._waiting: _SessionEntry | None = None
        self._rest = QTimer(self, singleShot=True, interval=_SAVE_MS)
        self._rest.timeout.connect(self.save)
        for changed in (
            workspace.model_changed, workspace.rotation_changed, workspace.method_changed, workspace.plan_changed,
            workspace.quantization_changed,
        ):  # fmt: skip
            changed.connect(self._rest.start)
        workspace.model_changed.connect(self._take_up)

    def restore(self, open_model: Callable[[ModelSource], object]) -> None:
        """Open the model of the last session; its rotation, method, plan and bits follow once it is loaded.

        Quantizing takes minutes with some quantizers, so bits wait for the first run that needs them.
        """
        entry = _read_session(self._settings.session)
        if entry.model is not None:
            self._waiting = entry
            chosen = isinstance(entry.model.quantization, QuantizationSpec)
            open_model(entry.model.unquantized if chosen else entry.model)

    def save(self) -> None:
        """Save the workspace now."""
        self._rest.stop()
        work = self._workspace
        if work.source is not None:
            entry = _SessionEntry(model=work.source, rotation=work.rotation, method=work.method, plan=work.plan)
            self._settings.session = entry.model_dump(mode="json")

    def _take_up(self) -> None:
        """Restore rotation, method, plan and bits once, for the model that they belong to."""
        entry, self._waiting = self._waiting, None
        work = self._workspace
        if entry is None or entry.model is None or work.source is None or work.summary is None:
            return
        if entry.model.location != work.source.location:
            return
        if entry.rotation is not None and (entry.rotation.is_auto or entry.rotation.mode in work.summary.rotations):
            work.set_rotation(entry.rotation)
        if entry.method is not None and entry.method.name in METHODS:  # its package may be gone
            work.set_method(entry.method)
        with suppress(WinaError):  # the folder has another model by now
            if entry.plan is not None:
                work.set_plan(entry.plan)
            if isinstance(entry.model.quantization, QuantizationSpec):
                work.set_quantization(entry.model.quantization)


def _read_session(stored: dict[str, object]) -> _SessionEntry:
    entry = _SessionEntry()
    for name in _SessionEntry.model_fields:
        with suppress(ValidationError):
            read = _SessionEntry.model_validate({name: stored.get(name)})
            entry = entry.model_copy(update={name: getattr(read, name)})
    return entry
