"""The results table marks a sparsity that a rotation's shortcuts have eaten up."""

import pytest
from PySide6.QtCore import Qt
from wina_app.pages.results.table import ResultsTable

from tests.wina_app.pages.results.results_content import show_rows
from tests.wina_app.stored_runs import record_demo_study
from wina_core.analysis.results.columns import BY_KEY
from wina_core.model_info.cost.warning import sparsity_warning
from wina_core.store import Store


@pytest.fixture
def row(tmp_path):
    with Store(f"sqlite:///{tmp_path / 'results.sqlite'}") as store:
        record_demo_study(store)
        return next(row for row in store.metric_rows() if row.gated_sparsity)


def cell(row, key: str, role: Qt.ItemDataRole):
    table = ResultsTable()
    show_rows(table, [row])
    return table.data(table.index(0, BY_KEY[key]), role)


def test_a_sparsity_below_nothing_is_marked_and_explained(row):
    paid = row._replace(gated_sparsity=0.15, net_sparsity=-0.028)
    sentence = sparsity_warning(0.15, -0.028)
    assert cell(paid, "net", Qt.ItemDataRole.DisplayRole) == "\N{WARNING SIGN} \N{MINUS SIGN}2.8"
    assert cell(paid, "net", Qt.ItemDataRole.ToolTipRole) == sentence
    assert cell(paid, "warning", Qt.ItemDataRole.DisplayRole) == sentence
    assert cell(paid, "gated", Qt.ItemDataRole.ToolTipRole) == "15.0"


def test_a_sparsity_that_is_left_over_is_not(row):
    free = row._replace(gated_sparsity=0.25, net_sparsity=0.072)
    assert cell(free, "net", Qt.ItemDataRole.DisplayRole) == "7.2"
    assert cell(free, "net", Qt.ItemDataRole.ToolTipRole) == "7.2"
    assert cell(free, "warning", Qt.ItemDataRole.DisplayRole) == ""


def test_the_mark_leaves_the_number_to_sort_and_export_by(row):
    table = ResultsTable()
    show_rows(table, [row._replace(gated_sparsity=0.15, net_sparsity=-0.028)])
    assert table.cells["net"].value(0) == -2.8
