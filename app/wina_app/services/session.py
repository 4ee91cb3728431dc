"""The session: model, rotation, method, plan and bits, saved while the window is open, restored at the next start."""

from collections.abc import Callable
from contextlib import suppress

from pydantic import BaseModel, ConfigDict, ValidationError
from PySide6.QtCore import QObject, QTimer

from wina_app.services.settings import Settings
from wina_app.services.workspace import Workspace
from wina_core.errors import WinaError
from wina_core.specs import MethodSpec, ModelSource, QuantizationSpec, RotationSpec
from wina_core.specs.methods import METHODS
from wina_core.specs.plans import SparsityPlan

_REST_MS = 2_000
"""Delay of saving after the last change: painting a plan changes it many times a second."""


class _Entry(BaseModel):
    """The stored session; an unreadable field becomes None and costs no other."""

    model_config = ConfigDict(extra="ignore", defer_build=True)

    model: ModelSource | None = None
    rotation: RotationSpec | None = None
    method: MethodSpec | None = None
    plan: SparsityPlan | None = None


class Session(QObject):
    """Saving and restoring of the workspace."""

    def __init__(self, settings: Settings, workspace: Workspace) -> None:
        super().__init__()
        self._settings, self._workspace = settings, workspace
        self._waiting: _Entry | None = None
        self._rest = QTimer(self, singleShot=True, interval=_REST_MS)
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
        entry = _read(self._settings.session)
        if entry.model is not None:
            self._waiting = entry
            chosen = isinstance(entry.model.quantization, QuantizationSpec)
            open_model(entry.model.unquantized if chosen else entry.model)

    def save(self) -> None:
        """Save the workspace now."""
        self._rest.stop()
        work = self._workspace
        if work.source is not None:
            entry = _Entry(model=work.source, rotation=work.rotation, method=work.method, plan=work.plan)
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


def _read(stored: dict[str, object]) -> _Entry:
    entry = _Entry()
    for name in _Entry.model_fields:
        with suppress(ValidationError):
            read = _Entry.model_validate({name: stored.get(name)})
            entry = entry.model_copy(update={name: getattr(read, name)})
    return entry
