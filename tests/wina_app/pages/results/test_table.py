"""Rows, groups and columns of the results table, and the frontier's lines, without any widget."""

import math
from itertools import product

import pytest
from PySide6.QtCore import QPersistentModelIndex, Qt
from wina_app.pages.results.columns import ColumnChoice
from wina_app.pages.results.plots.frontier import (
    FrontierMeasure,
    distinct_references,
    frontier,
    kinds,
    models,
    names,
)
from wina_app.pages.results.table import ResultsTable

from tests.wina_app.pages.results.results_content import PLAIN, filter_by, show_rows
from tests.wina_app.stored_runs import (
    CONFIGURATIONS,
    GLOBAL,
    SPARSITIES,
    record_run,
    run_spec,
)
from wina_core.analysis.comparison.frontier import FrontierLine
from wina_core.analysis.results.columns import BY_KEY, COLUMNS
from wina_core.model_info.cost.warning import sparsity_warning
from wina_core.specs import NO_ROTATION
from wina_core.store.metric_frames import metric_rows_of, metrics_frame

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


def test_the_table_has_a_row_for_each_stored_metric(table):
    assert table.rowCount() == 3 * (1 + len(CONFIGURATIONS) * len(SPARSITIES))
    assert table.columnCount() == len(COLUMNS)
    assert table.headerData(BY_KEY["stderr"], Qt.Orientation.Horizontal) == "± stderr"
    index = table.index(0, BY_KEY["value"])
    assert table.data(index, Qt.ItemDataRole.TextAlignmentRole) & Qt.AlignmentFlag.AlignRight


def test_filtering_keeps_the_order_and_deselects_what_it_hides(table):
    before = [entry.key for entry in table.listed_rows]
    dense = next(row for row, entry in enumerate(table.listed_rows) if entry.method == "dense")
    selected = QPersistentModelIndex(table.index(dense, 0))
    filter_by(table, "method:wina metric:acc")
    assert set(values_of(table, "method")) == {"wina"}
    assert set(values_of(table, "metric")) == {"acc"}
    persistent = [entry.key for entry in table.listed_rows]
    assert persistent == [key for key in before if key in persistent]
    assert not selected.isValid()
    filter_by(table, "")
    assert [entry.key for entry in table.listed_rows] == before


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


def test_several_columns_sort_one_within_the_other(table):
    table.sort(BY_KEY["metric"])
    table.sort_further(BY_KEY["target"])
    table.sort_further(BY_KEY["method"])
    table.sort_further(BY_KEY["target"])
    order_of_rows = [(entry.metric, -entry.target_sparsity, entry.method) for entry in table.listed_rows]
    assert order_of_rows == sorted(order_of_rows), "the target, asked for again, the other way round"
    assert table.headerData(BY_KEY["target"], Qt.Orientation.Horizontal) == "target % ▾2"
    table.sort(BY_KEY["value"])
    assert table.headerData(BY_KEY["target"], Qt.Orientation.Horizontal) == "target %"
    assert table.headerData(BY_KEY["value"], Qt.Orientation.Horizontal) == "value ▴"


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


def test_numbers_read_well(entries, table):
    row = next(at for at, entry in enumerate(entries) if entry.method == "dense" and entry.metric == "acc")
    texts = {factor.column.key: factor.text(row) for factor in table.cells.cells}
    assert (texts["value"], texts["stderr"], texts["n"], texts["gated"]) == ("0.710", "0.016", "800", "–")
    show_rows(table, [entries[row]._replace(net_sparsity=-0.0512, value=math.nan)])
    assert table.cells["net"].text(0) == "−5.1"
    assert table.cells["value"].value(0) is None


def test_rows_of_pinned_runs_stand_before_all_others_however_sorted(table, store, entries):
    pinned = entries[-1].run
    show_rows(table, store.metric_rows(), **{pinned: PLAIN._replace(pinned=True)})
    assert [entry.run == pinned for entry in table.listed_rows][:4] == [True, True, True, False]
    table.sort(BY_KEY["target"])
    assert [entry.run == pinned for entry in table.listed_rows][:4] == [True, True, True, False]
    assert table.is_pinned(0)
    assert not table.is_pinned(3)


# ---- groups ----------------------------------------------------------------------------------------------------------


def test_groups_tell_how_many_rows_and_where_their_values_lie(table):
    filter_by(table, "metric:acc")
    table.group_by("method")
    lines = range(table.rowCount())
    groups = [group for line in lines if (group := table.group_at(line))]
    assert [(group.text, group.count) for group in groups] == [("dense", 1), ("teal", 4), ("wina", 8)]
    values = [entry.value for entry in metric_rows_of(table.passing()()) if entry.method == "teal"]
    assert groups[1].mean == pytest.approx(sum(values) / 4)
    assert (groups[1].low, groups[1].high) == (min(values), max(values))
    assert [entry.method for entry in table.listed_rows] == ["dense"] + ["teal"] * 4 + ["wina"] * 8


def test_a_value_that_is_unknown_is_no_part_of_the_mean(table, entries):
    rows = [entry for entry in entries if entry.metric == "acc" and entry.method == "teal"]
    show_rows(table, [rows[0]._replace(value=math.nan), *rows[1:]])
    table.group_by("method")
    group, numbers = table.group_at(0), [row.value for row in rows[1:]]
    assert group.count == len(rows)
    assert group.mean == pytest.approx(sum(numbers) / len(numbers))


def test_rows_of_several_metrics_have_no_mean(table):
    table.group_by("method")
    group = table.group_at(0)
    assert (group.count, group.mean) == (3, None)
    assert group.label == "▾ dense   3 rows"


def test_a_closed_group_is_its_heading_and_stays_closed(table, store):
    filter_by(table, "metric:acc")
    table.group_by("method")
    table.toggle(1 + 1)
    assert table.rowCount() == 3 + 1 + 8
    assert table.run_at(2) is None
    assert table.run_at(3) is None, "the next heading"
    assert table.data(table.index(2, 0), Qt.ItemDataRole.AccessibleTextRole).startswith("▸ teal   4 rows, mean 0.6")
    show_rows(table, store.metric_rows(), "metric:acc")
    assert table.rowCount() == 3 + 1 + 8
    table.close_groups(True)
    assert table.rowCount() == 3
    table.close_groups(False)
    assert table.rowCount() == 3 + 13
    table.group_by("")
    assert table.rowCount() == 13


def test_a_selected_row_stays_selected_in_its_group(table):
    persistent = QPersistentModelIndex(table.index(5, 0))
    key = table.listed_rows[5].key
    table.group_by("metric")
    assert table.cells.key(table.row_at(persistent.row())) == key
    table.close_groups(True)
    assert not persistent.isValid()


def test_an_empty_table_is_grouped_and_sorted_all_the_same():
    table = ResultsTable()
    table.group_by("method")
    table.sort(BY_KEY["value"])
    assert table.rowCount() == 0
    assert table.common == {}


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
    visible = table.snapshot(["value", "n", "method"])
    assert visible.text([0]).split("\n") == ["value\tn\tmethod", "0.696\t800\tteal"]
    assert visible.copy([0], ".md").split("\n")[0] == "| value | n | method |"
    assert "\\toprule" in visible.copy([0], ".tex")
    titles, rows = visible.table([0])
    assert titles == ["value", "n", "method"]
    assert list(rows) == [(table.listed_rows[0].value, 800, "teal")]


def test_a_copied_name_is_no_formula_for_a_spreadsheet(entries):
    table = ResultsTable()
    show_rows(table, [entries[0]._replace(model="=1+1", task="-x", method="wina")])
    assert table.snapshot(["model", "task", "method"]).text([0]).split("\n")[1] == "'=1+1\t'-x\twina"


def test_of_closed_groups_alone_a_copy_is_the_summary(table):
    filter_by(table, "metric:acc")
    table.group_by("method")
    table.toggle(0)
    titles, rows = table.snapshot(["method"]).table(range(table.rowCount()))
    assert (titles, len(rows)) == (["method"], 12), "rows of open groups are what is meant"
    table.close_groups(True)
    titles, rows = table.snapshot(["method"]).table(range(table.rowCount()))
    assert titles == ["method", "rows", "mean", "lowest", "highest"]
    assert rows[0] == ["dense", 1, 0.71, 0.71, 0.71]


# ---- frontier --------------------------------------------------------------------------------------------------------


def test_references_that_differ_are_named_apart(store):
    record_run(store, run_spec("dense", GLOBAL, 0.0), name="rotated")
    rows = store.metric_rows()
    moved = [
        entry._replace(value=0.7) if entry.rotation != "none" and entry.method == "dense" else entry for entry in rows
    ]
    model = next(iter(models(metrics_frame(rows))))
    assert len(distinct_references(frontier(metrics_frame(rows), ACC, model).dense)) == 1, (
        "an exact rotation changes nothing"
    )
    names = [name for name, _ in distinct_references(frontier(metrics_frame(moved), ACC, model).dense)]
    assert names == ["dense", "dense, global + heads"]


def test_names_say_only_what_sets_lines_apart(store):
    def line_names(**changes) -> list[str]:
        rows = [entry._replace(**changes) if entry.rotation != "none" else entry for entry in store.metric_rows()]
        return names(frontier(metrics_frame(rows), ACC, next(iter(models(metrics_frame(rows))))).lines)

    assert line_names() == ["teal", "wina", "wina, global + heads"]
    assert line_names(settings="limit 100")[2] == "wina, global + heads, limit 100"
    assert line_names(plan="edited") == ["teal, uniform", "wina, uniform", "wina, global + heads, edited"]


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
