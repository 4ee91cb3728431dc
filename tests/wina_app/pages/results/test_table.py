"""Rows and columns of the results table, and the frontier's lines, without any widget."""

import math
from itertools import product

import pytest
from PySide6.QtCore import QPersistentModelIndex, Qt
from PySide6.QtGui import QColor
from wina_app.pages.results.columns import ColumnChoice
from wina_app.pages.results.plots.frontier import (
    FrontierMeasure,
    kinds,
    names,
)
from wina_app.pages.results.table import ResultsTable
from wina_app.style.theme import tokens

from tests.wina_app.pages.results.results_content import PLAIN, filter_by, show_rows
from tests.wina_app.stored_runs import (
    record_run,
    run_spec,
)
from wina_core.analysis.comparison.frontier import FrontierLine
from wina_core.analysis.results.columns import BY_KEY
from wina_core.model_info.cost.warning import sparsity_warning
from wina_core.specs import NO_ROTATION

ACC = FrontierMeasure("demo_choice", "acc", True)


@pytest.fixture
def store(filled_store):
    return filled_store


@pytest.fixture
def entries(store):
    return store.metric_rows()


@pytest.fixture
def table(store):
    filled = ResultsTable()
    show_rows(filled, store.metric_rows())
    return filled


def values_of(table: ResultsTable, key: str) -> list[str]:
    return [getattr(entry, key) for entry in table.listed_rows]


# ---- table -----------------------------------------------------------------------------------------------------------


def test_an_empty_table_is_sorted_all_the_same():
    table = ResultsTable()
    table.sort(BY_KEY["value"])
    assert table.rowCount() == 0


def test_sorting_is_numeric_with_the_unknown_last_either_way(table):
    filter_by(table, "metric:acc")
    for key, order in product(("gated", "net"), Qt.SortOrder):
        table.sort(BY_KEY[key], order)
        values = [getattr(entry, f"{key}_sparsity") for entry in table.listed_rows]
        assert values[-1] is None, "dense was not gated"
        numbers = values[:-1]
        assert numbers == sorted(numbers, reverse=order == Qt.SortOrder.DescendingOrder)
    table.sort(-1)
    assert values_of(table, "method")[0] == "dense"


def test_rows_that_are_equal_by_one_column_stay_in_the_order_of_the_one_before(table):
    for key in ("method", "target", "metric", "target"):
        table.sort(BY_KEY[key])
    cells = [(entry.target_sparsity, entry.metric, entry.method) for entry in table.listed_rows]
    assert cells == sorted(cells)


@pytest.mark.parametrize(
    ("order", "expected"),
    [(Qt.SortOrder.AscendingOrder, [3, 2, 5, 0, 6, 1, 4]), (Qt.SortOrder.DescendingOrder, [0, 6, 2, 5, 3, 1, 4])],
)
def test_rows_of_equal_value_keep_their_order_either_way(entries, order, expected):
    values = (2.0, math.nan, 0.0, -math.inf, math.nan, 0.0, 2.0)
    table = ResultsTable()
    show_rows(table, [entries[0]._replace(unit=str(at), value=value) for at, value in enumerate(values)])
    table.sort(BY_KEY["value"], order)
    assert [int(entry.unit) for entry in table.listed_rows] == expected


def test_a_sparsity_below_nothing_is_marked_and_explained(entries):
    table, row = ResultsTable(), next(row for row in entries if row.gated_sparsity)

    def cell(key: str, role: Qt.ItemDataRole = Qt.ItemDataRole.DisplayRole) -> str:
        return table.data(table.index(0, BY_KEY[key]), role)

    show_rows(table, [row._replace(gated_sparsity=0.15, net_sparsity=-0.028)])
    sentence = sparsity_warning(0.15, -0.028)
    assert cell("net") == "\N{WARNING SIGN} \N{MINUS SIGN}2.8"
    assert cell("net", Qt.ItemDataRole.ToolTipRole) == cell("warning") == sentence
    assert cell("gated", Qt.ItemDataRole.ToolTipRole) == "15.0"
    assert table.cells["net"].value(0) == -2.8, "to sort and export by"
    show_rows(table, [row._replace(gated_sparsity=0.25, net_sparsity=0.072)])
    assert (cell("net"), cell("net", Qt.ItemDataRole.ToolTipRole), cell("warning")) == ("7.2", "7.2", "")


def test_new_results_leave_selection_and_order_alone(table, store):
    table.sort(BY_KEY["value"], Qt.SortOrder.DescendingOrder)
    persistent = QPersistentModelIndex(table.index(10, 0))
    key = table.listed_rows[10].key
    before = table.stored
    record_run(store, run_spec("wina", NO_ROTATION, 0.1), name="more")
    show_rows(table, store.metric_rows())
    assert table.rowCount() == before + 3
    assert table.listed_rows[persistent.row()].key == key
    values = [entry.value for entry in table.listed_rows]
    assert values == sorted(values, reverse=True)


def test_rows_of_pinned_runs_stand_before_all_others_however_sorted(table, store, entries):
    pinned = entries[-1].run
    show_rows(table, store.metric_rows(), **{pinned: PLAIN._replace(pinned=True)})
    assert [entry.run == pinned for entry in table.listed_rows][:4] == [True, True, True, False]
    table.sort(BY_KEY["target"])
    assert [entry.run == pinned for entry in table.listed_rows][:4] == [True, True, True, False]
    colours = [table.data(table.index(line, 0), Qt.ItemDataRole.ForegroundRole) for line in (0, 3)]
    assert colours == [QColor(tokens().accent), None]


# ---- columns ---------------------------------------------------------------------------------------------------------


def test_columns_are_hidden_moved_and_remembered():
    choice = ColumnChoice()
    changes = []
    choice.changed.connect(lambda: changes.append(choice.visible_keys()))
    assert "seed" not in choice.visible_keys()
    choice.show("seed")
    choice.show("model", False)
    choice.move(["value", "task", "metric"])
    again = ColumnChoice(choice.written)
    assert again.visible_keys() == choice.visible_keys() == changes[-1]
    assert [key for key in again.visible_keys() if key in ("value", "task", "metric")] == ["value", "task", "metric"]
    assert "seed" in again.visible_keys()
    assert "model" not in again.visible_keys()
    again.reset()
    assert again.visible_keys() == ColumnChoice().visible_keys()


def test_a_choice_written_down_by_another_version_is_read_as_far_as_it_makes_sense():
    choice = ColumnChoice(["value", "-method", "no longer there", "value"])
    assert choice.visible_keys()[0] == "model", "columns that it did not know are where they usually are"
    assert "method" not in choice.visible_keys()
    assert "no longer there" not in choice.visible_keys()
    assert set(ColumnChoice().visible_keys()) - {"method"} == set(choice.visible_keys())


def test_the_last_column_cannot_be_hidden():
    choice = ColumnChoice([key if key == "value" else f"-{key}" for key in BY_KEY])
    choice.show("value", False)
    assert choice.visible_keys() == ["value"]


# ---- copies ----------------------------------------------------------------------------------------------------------


def test_a_copy_has_the_chosen_columns_in_their_order(table):
    filter_by(table, "metric:acc method:teal")
    visible = table.snapshot(["value", "n", "method"]).lines([0])
    assert visible.text().split("\n") == ["value\tn\tmethod", "0.696\t800\tteal"]
    assert visible.copy(".md").split("\n")[0] == "| value | n | method |"
    assert "\\toprule" in visible.copy(".tex")
    titles, rows = visible.table()
    assert titles == ["value", "n", "method"]
    assert list(rows) == [(table.listed_rows[0].value, 800, "teal")]


def test_a_copied_name_is_no_formula_for_a_spreadsheet(entries):
    table = ResultsTable()
    show_rows(table, [entries[0]._replace(model="=1+1", task="-x", method="wina")])
    assert table.snapshot(["model", "task", "method"]).text().split("\n")[1] == "'=1+1\t'-x\twina"


# ---- frontier --------------------------------------------------------------------------------------------------------


def test_lines_of_one_method_and_rotation_are_told_apart_by_their_kind():
    def line(method: str, selection: str = "topk", plan: str = "uniform", rotation: str = "none") -> FrontierLine:
        return FrontierLine("", "m", method, rotation, selection, plan, "", ())

    lines = [
        line("wina", plan="curves"), line("wina"), line("wina", rotation="global"), line("wina", "top_p"),
        line("wina (shared masks)"), line("teal", plan="curves"),
    ]  # fmt: skip
    assert names(lines) == [
        "wina, curves", "wina, uniform", "wina, global, uniform", "wina, top p, uniform",
        "wina (shared masks), uniform", "teal, curves",
    ]  # fmt: skip
    assigned = kinds(lines)
    assert assigned[1] == assigned[2] == 0
    assert assigned[0] == assigned[5], "the same spread has the same pattern"
    assert len({assigned[row] for row in (0, 1, 3, 4)}) == 4
