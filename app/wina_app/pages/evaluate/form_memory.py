"""The form of the Evaluate page as JSON, for the next start."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError
from PySide6.QtWidgets import QCheckBox, QWidget

from wina_app.pages.evaluate.configurations_panel import ConfigurationsPanel
from wina_app.pages.evaluate.tasks_panel import TasksPanel
from wina_app.widgets.form_memory import set_values, values_of
from wina_core.specs import RotationSpec


class _Lists(BaseModel):
    """Entries of the lists, with the tick of each."""

    model_config = ConfigDict(extra="ignore", defer_build=True)

    tasks: dict[str, bool] = {}
    folders: list[str] = []
    boxes: dict[str, bool] = {}
    rotations: list[tuple[RotationSpec, bool]] = []


def form_state(tasks: TasksPanel, configurations: ConfigurationsPanel) -> dict[str, object]:
    """Return what is ticked, typed and chosen; consent to run code holds for one launch and is left out."""
    lists = _Lists(
        tasks=tasks.ticks(),
        folders=tasks.folders,
        boxes={name: box.isChecked() for name, box in _boxes(configurations).items()},
        rotations=[(spec, box.isChecked()) for box, spec in configurations.rotations.items()],
    )
    return values_of(_fields(tasks, configurations)) | lists.model_dump(mode="json")


def restore_form(tasks: TasksPanel, configurations: ConfigurationsPanel, state: Mapping[str, Any]) -> None:
    """Restore a state of `form_state`; lists are restored whole or not at all."""
    set_values(_fields(tasks, configurations), state)
    try:
        lists = _Lists.model_validate(state)
    except ValidationError:
        return
    tasks.add_folders(lists.folders)
    tasks.set_ticks(lists.tasks)
    for name, box in _boxes(configurations).items():
        if box.isEnabled():
            box.setChecked(lists.boxes.get(name, box.isChecked()))
    ticks = dict(lists.rotations)
    for box, spec in configurations.rotations.items():
        if box.isEnabled():
            box.setChecked(ticks.get(spec, box.isChecked()))


def _fields(tasks: TasksPanel, configurations: ConfigurationsPanel) -> dict[str, QWidget]:
    inputs = (
        "original",
        "fidelity",
        "fidelity_text",
        "fidelity_tokens",
        "second_half",
        "limit",
        "fewshot",
        "chat_template",
        "batch",
        "context",
        "prefix",
    )
    measured: dict[str, QWidget] = {name: getattr(tasks, name) for name in inputs}
    options = ("sparsities", "selection", "masks", "thresholds", "rho", "correction", "calibration", "plan")
    compared: dict[str, QWidget] = {name: getattr(configurations, name) for name in options}
    return measured | compared | {"data": tasks.data.edit, "samples": tasks.options.samples}


def _boxes(configurations: ConfigurationsPanel) -> dict[str, QCheckBox]:
    """Return the boxes of methods, presets and allocators by their accessible names."""
    every = [*configurations.methods, *configurations.named, *configurations.allocators]
    return {box.accessibleName(): box for box in every}
