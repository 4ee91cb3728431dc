"""State that edits of a plan change: its tables, its constraints, the model's bits, and their undo history."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from PySide6.QtCore import QObject, Signal
from PySide6.QtGui import QUndoCommand

from wina_app.pages.sparsity.cell_values import MAX_BITS, SPARSITY, BitsValues, CellValues, ValueKey, values_for
from wina_app.services.workspace import Workspace
from wina_core.specs import BitsPlan, MethodSpec, Quantization, QuantizationSpec
from wina_core.specs.plans import Cell, PlanLayout, Rows, SparsityPlan, same_table, with_values


@dataclass(frozen=True)
class CellTable:
    """One value per decoder layer and projection."""

    layout: PlanLayout
    rows: Rows
    """[layer][projection]."""
    provenance: str = "edited"

    @classmethod
    def uniform(cls, layout: PlanLayout, value: float) -> "CellTable":
        return cls(layout, layout.uniform(value), "uniform")

    @property
    def budget(self) -> float:
        """Return the mean value weighted by each matrix's number of weights."""
        return float(np.average(self.array, weights=self.weights))

    @property
    def array(self) -> np.ndarray:
        """Return the values, float64 [layers, projections]."""
        return np.asarray(self.rows, dtype=float)

    @property
    def weights(self) -> np.ndarray:
        """Return each matrix's number of weights, float64 [layers, projections]."""
        return np.asarray(self.layout.parameters, dtype=float)

    @property
    def cells(self) -> frozenset[Cell]:
        return frozenset((row, column) for row, values in enumerate(self.rows) for column in range(len(values)))

    def with_cells(self, values: Mapping[Cell, float]) -> "CellTable":
        return CellTable(self.layout, with_values(self.rows, values))

    def with_array(self, values: np.ndarray) -> "CellTable":
        """Return a copy of the same provenance with other values, float64 [layers, projections]."""
        return replace(self, rows=tuple(map(tuple, values.tolist())))

    def span(self, cells: frozenset[Cell]) -> tuple[float, float] | None:
        """Return the lowest and highest value of the cells; None without cells."""
        values = [self.rows[row][column] for row, column in cells]
        return (min(values), max(values)) if values else None


@dataclass(frozen=True)
class Constraints:
    """Constraints on edits of a table: locked cells, and the kept budget if any."""

    locked: frozenset[Cell] = frozenset()
    budget: float | None = None

    def edit(self, table: CellTable, values: Mapping[Cell, float], kind: CellValues) -> CellTable:
        """Return the table with new values in unlocked cells; other cells compensate for a kept budget."""
        free_values = {cell: value for cell, value in values.items() if cell not in self.locked}
        if not free_values:
            return table
        return self._balance(table.with_cells(free_values), self.locked | free_values.keys(), kind)

    def substitute(self, table: CellTable, replacement: CellTable, kind: CellValues) -> CellTable:
        """Return the replacement with the locked cells of `table`, at the kept budget if any."""
        locked_values = {
            (row, column): table.rows[row][column]
            for row, column in self.locked
            if table.rows[row][column] != replacement.rows[row][column]
        }
        if not locked_values:
            return replacement
        return self._balance(replacement.with_cells(locked_values), self.locked, kind)

    def _balance(self, table: CellTable, fixed: frozenset[Cell], kind: CellValues) -> CellTable:
        if self.budget is None:
            return table
        free = np.ones_like(table.array, dtype=bool)
        for cell in fixed:
            free[cell] = False
        return table.with_array(kind.balanced(table.array, table.weights, free, self.budget))

    def remark(self, table: CellTable, cells: frozenset[Cell], kind: CellValues) -> str:
        """Return what an edit of the cells could not do, as a sentence; empty if nothing."""
        if cells and cells <= self.locked:
            return (
                "The cell is locked and stays unchanged; L on the heatmap unlocks the selection."
                if len(cells) == 1
                else f"The {len(cells):,} cells are locked and stay unchanged; L on the heatmap unlocks the selection."
            )
        if self.budget is not None and not kind.meets(table.budget, self.budget):
            return (
                f"The budget of {kind.text(self.budget)} cannot be kept: all other cells are at their limits. "
                f"It is now {kind.text(table.budget)}; unlock "
                "cells or undo the edit."
            )
        return ""


_NAMED: dict[str, tuple[float, str]] = {"none": (16.0, "hqq"), "int8": (8.0, "rtn"), "int4": (4.0, "hqq")}
"""Bits of a quantization of another library, and the quantizer of the first edit of them."""


@dataclass(frozen=True)
class ModelBits:
    """A table of bits with the quantizer's settings, which stay chosen while all cells have 16 bits."""

    quantization: Quantization
    """Quantization of the model in runs."""
    settings: QuantizationSpec
    """Quantizer, group and so on; its bits are those of `quantization` in short, and not read."""
    table: CellTable

    @classmethod
    def of(cls, quantization: Quantization, layout: PlanLayout) -> "ModelBits":
        """Return the bits of a model's quantization. Raise WinaError for another model's plan."""
        if isinstance(quantization, QuantizationSpec):
            plan = quantization.plan(layout)
            return cls(quantization, quantization, CellTable(layout, plan.bits, plan.provenance))
        bits, quantizer = _NAMED[quantization]
        return cls(quantization, QuantizationSpec(quantizer=quantizer, bits=bits), CellTable.uniform(layout, bits))

    @cached_property
    def values(self) -> BitsValues:
        return values_for(self.settings)

    def with_table(self, table: CellTable) -> "ModelBits":
        """Return the same settings with other bits, rounded to whole bits where the settings need them."""
        if table.rows == self.table.rows:
            return self
        table = _allowed(table, self.settings)
        return replace(self, quantization=_quantization(self.settings, table), table=table)

    def with_settings(self, **changes: Any) -> "ModelBits":
        """Return the same bits with other settings, rounded to whole bits where these need them."""
        # Four bits are valid for every quantizer; the table's own bits are rounded for the new one below.
        settings = QuantizationSpec.model_validate(_plain(self.settings) | {"bits": 4.0} | changes)
        table = _allowed(self.table, settings)
        return ModelBits(_quantization(settings, table), settings, table)


def _allowed(table: CellTable, settings: QuantizationSpec) -> CellTable:
    """Return the table with the nearest bits that the settings allow."""
    rows = tuple(tuple(values_for(settings).snapped(bits) for bits in row) for row in table.rows)
    return table if rows == table.rows else CellTable(table.layout, rows)


def _quantization(settings: QuantizationSpec, table: CellTable) -> Quantization:
    """Return the shortest form of settings and bits, so that equal models are equal: one number for equal cells, the
    usual group where none is read, and "none" where nothing is quantized."""
    bits = {value for row in table.rows for value in row}
    if bits == {MAX_BITS} and settings.head_bits == MAX_BITS:
        return "none"
    fields = _plain(settings)
    if settings.quantizer == "planes":
        del fields["group"]
    if len(bits) == 1:
        return QuantizationSpec.model_validate(fields | {"bits": bits.pop()})
    plan = BitsPlan(layout=table.layout, bits=table.rows, provenance=table.provenance)
    return QuantizationSpec.model_validate(fields | {"bits": plan})


def _plain(settings: QuantizationSpec) -> dict[str, Any]:
    return {name: getattr(settings, name) for name in type(settings).model_fields if name != "bits"}


_FREE = Constraints()


@dataclass(frozen=True)
class EditState:
    """Immutable state that an undo step changes."""

    plan: SparsityPlan
    bits: ModelBits
    method: MethodSpec
    constraints: Mapping[ValueKey, Constraints] = field(default_factory=dict)

    def table(self, key: ValueKey) -> CellTable:
        if key == "bits":
            return self.bits.table
        return CellTable(self.plan.layout, self.plan.sparsity, self.plan.provenance)

    def values(self, key: ValueKey) -> CellValues:
        """Return the kind of one map's values."""
        return self.bits.values if key == "bits" else SPARSITY

    def constraints_on(self, key: ValueKey) -> Constraints:
        return self.constraints.get(key, _FREE)

    def with_table(self, key: ValueKey, table: CellTable) -> "EditState":
        if key == "bits":
            return replace(self, bits=self.bits.with_table(table))
        if table.rows == self.plan.sparsity:
            return self
        plan = SparsityPlan(layout=table.layout, sparsity=table.rows, provenance=table.provenance, rho=self.plan.rho)
        return replace(self, plan=plan)

    def reuse_equal(self, other: "EditState") -> "EditState":
        """Return the state with the very plan and bits of another where these are equal but for their provenance."""
        same_bits = (self.bits.settings, self.bits.table.rows) == (other.bits.settings, other.bits.table.rows)
        return replace(
            self,
            plan=other.plan if same_table(other.plan, self.plan) else self.plan,
            bits=other.bits if same_bits else self.bits,
        )

    def with_constraints(self, key: ValueKey, constraints: Constraints) -> "EditState":
        remaining = {map_key: value for map_key, value in self.constraints.items() if map_key != key}
        return replace(self, constraints=remaining if constraints == _FREE else remaining | {key: constraints})


class EditModel(QObject):
    """Owner of the state: the workspace, the quantizer's settings, and the constraints on edits."""

    constraints_changed = Signal()
    bits_changed = Signal()
    """Bits of the model, or settings of its quantizer."""

    def __init__(self, workspace: Workspace) -> None:
        super().__init__()
        self._workspace = workspace
        self._bits: ModelBits | None = None
        self.constraints: Mapping[ValueKey, Constraints] = {}
        workspace.quantization_changed.connect(self._drop_outdated_bits)
        workspace.model_changed.connect(self._drop_outdated_bits)

    @property
    def state(self) -> EditState | None:
        """Return the current state; None before there is a plan."""
        plan, bits = self._workspace.plan, self._bits
        if plan is None:
            return None
        if bits is None or bits.table.layout != plan.layout:
            self._bits = bits = ModelBits.of(self._workspace.quantization, plan.layout)
        return EditState(plan, bits, self._workspace.method, self.constraints)

    def apply(self, target: EditState, previous: EditState) -> None:
        """Apply what differs between `previous` and `target`; other later changes stay."""
        if target.method != previous.method:
            self._workspace.set_method(target.method)
        if target.constraints != previous.constraints:
            self.constrain(target.constraints)
        if target.bits != previous.bits:
            self._bits = target.bits  # first: the workspace's signal drops bits that differ from its quantization
            self._workspace.set_quantization(target.bits.quantization)
            self.bits_changed.emit()
        if target.plan is not previous.plan:
            self._workspace.set_plan(target.plan)

    def constrain(self, constraints: Mapping[ValueKey, Constraints]) -> None:
        if constraints != self.constraints:
            self.constraints = constraints
            self.constraints_changed.emit()

    def _drop_outdated_bits(self) -> None:
        """Take over a quantization that was chosen elsewhere."""
        if self._bits is not None and self._bits.quantization != self._workspace.quantization:
            self._bits = None
            self.bits_changed.emit()


class EditCommand(QUndoCommand):
    """An undo step. None refers to the stack: Qt deletes its steps, and a cycle would outlive them."""

    def __init__(self, model: EditModel, before: EditState, after: EditState, text: str, gesture: int) -> None:
        super().__init__(text)
        self._model = model
        self._before = before
        self._after = after
        self._gesture = gesture

    def id(self) -> int:
        return 1  # any number but -1, with which Qt never asks to merge two commands

    def mergeWith(self, other: QUndoCommand) -> bool:
        if not isinstance(other, EditCommand) or other._gesture != self._gesture:
            return False
        self._after = other._after
        self.setText(other.text())
        self.setObsolete(self._after == self._before)  # dragged there and back
        return True

    def redo(self) -> None:
        self._model.apply(self._after, self._before)

    def undo(self) -> None:
        self._model.apply(self._before, self._after)
