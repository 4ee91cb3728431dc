"""The Results page narrowed to a study, beside the paper's numbers; two runs compared."""

import pytest
from PySide6.QtCore import QItemSelectionModel, Qt
from PySide6.QtGui import QGuiApplication
from wina_app.theme import apply_theme
from wina_app.views.results_comparison import ResultsComparison
from wina_app.views.results_page import ResultsPage

from tests.wina_app.stored_runs import DirectStore, record_demo_study
from tests.wina_app.studies import PAPER, ROLE, record, write
from wina_core.paper import published_value
from wina_core.records import MetricRecord, SampleRecord, UnitRecord
from wina_core.store import Store
from wina_core.study import bind, expand, load_study


@pytest.fixture
def study(tmp_path):
    return bind(load_study(write(tmp_path, "paper", PAPER)), {ROLE: "demo"})


@pytest.fixture
def store(tmp_path, study):
    """Thirteen runs of another study, and the study's five; a little above the paper's numbers."""
    with Store(f"sqlite:///{tmp_path / 'results.sqlite'}") as opened:
        record_demo_study(opened)
        runs = expand(study)
        opened.save_study(study, runs)
        for number, run in enumerate(runs):
            record(opened, run, "piqa", "acc_norm", 0.79 - 0.01 * number)
        yield opened


@pytest.fixture
def page(qtbot, qapp, store):
    apply_theme(qapp, "light")
    access = DirectStore(store)
    page = ResultsPage(access)
    page.access = access
    qtbot.addWidget(page)
    page.resize(1200, 600)
    with qtbot.waitActive(page):
        page.show()
    return page


def titles(page):
    model = page.table.model()
    return [model.headerData(at, Qt.Orientation.Horizontal) for at in range(model.columnCount())]


def column(page, key):
    at = [column.key for column in page.table.model().columns].index(key)
    return [page.table.model().index(row, at).data() for row in range(page.table.model().rowCount())]


def select(page, *rows):
    page.table.clearSelection()
    flags = QItemSelectionModel.SelectionFlag.Select | QItemSelectionModel.SelectionFlag.Rows
    for row in rows:
        page.table.selectionModel().select(page.table.model().index(row, 0), flags)


def test_a_studys_results_are_its_runs_alone_until_all_are_asked_for(page, study, qtbot):
    assert page.table.model().rowCount() == 44
    page.controller.show_study(study)
    assert page.table.model().rowCount() == 5
    assert page.scope.whole() == "Study: Table 3: a tiny one"
    assert set(column(page, "task")) == {"piqa"}
    qtbot.mouseClick(page.everything, Qt.MouseButton.LeftButton)
    assert page.table.model().rowCount() == 44
    assert not page.everything.isVisible()
    assert "paper" not in titles(page)


def test_the_papers_numbers_are_a_column_in_the_units_that_are_stored(page, study):
    page.controller.show_study(study)
    dense = published_value("commonsense", ROLE, "dense", 0.0, "piqa", "acc_norm")
    wina = published_value("commonsense", ROLE, "WINA", 0.5, "piqa", "acc_norm")
    shown = column(page, "paper")
    assert float(shown[0]) == pytest.approx(dense / 100)
    assert float(shown[4]) == pytest.approx(wina / 100)
    at = titles(page).index("paper")
    page.table.sortByColumn(at, Qt.SortOrder.AscendingOrder)
    assert column(page, "paper") == sorted(shown)
    page.table.selectRow(0)
    assert page.table.model().text_of([0]).split("\n")[1].split("\t")[at] == min(shown)


def test_the_papers_lines_are_dashed_hollow_and_labelled(page, study):
    page.controller.show_study(study)
    ours = [trace for trace in page.frontier.traces if not trace.hollow]
    paper = {trace.name: trace for trace in page.frontier.traces if trace.hollow}
    assert [trace.name for trace in ours] == ["TEAL", "WINA"], "as the study calls them"
    assert "WINA, paper" in paper
    wina = paper["WINA, paper"]
    assert wina.style == Qt.PenStyle.DashLine
    assert list(wina.x) == [25.0, 40.0, 50.0, 65.0]
    assert wina.colour == ours[1].colour
    assert "paper" in wina.readout(0)
    assert "dense, paper" in [reference.name for reference in page.frontier.references]
    page.abscissa.setFocus()
    page.abscissa.setCurrentIndex(page.abscissa.findData("full"))
    page.abscissa.activated.emit(page.abscissa.currentIndex())
    assert not [trace for trace in page.frontier.traces if trace.hollow], "the paper counts no shortcuts"


def test_results_that_land_while_a_study_is_shown_stay_out_unless_they_are_its(page, study, store):
    page.controller.show_study(study)
    run = expand(study)[0]
    record(store, run, "piqa", "acc_norm", 0.5)
    page.controller.refresh()
    assert page.table.model().rowCount() == 5
    assert column(page, "value")[-1] == "0.5", "as measured last"


def test_a_filter_by_the_papers_column_is_dropped_with_it(page, study):
    page.controller.show_study(study)
    page.controller.set_filter("paper:0.7 method:wina")
    assert page.table.model().rowCount() == 2
    page.controller.show_study(None)
    assert page.table.model().rowCount() == 44
    assert "no column" in page.filter_error.text()


def test_two_runs_are_compared_task_by_task(page, study, qtbot):
    page.controller.show_study(study)
    select(page, 1)
    assert not page.compare.isEnabled()
    assert "two runs" in page.compare.toolTip()
    select(page, 1, 3)
    qtbot.mouseClick(page.compare, Qt.MouseButton.LeftButton)
    (dialog,) = page.findChildren(ResultsComparison)
    (row,) = [entry.row for entry in dialog.table.model().shown]
    assert row.effect == pytest.approx(0.02)
    assert (row.n, row.test) == (100, "unpaired z")
    model = dialog.table.model()
    cells = {column.key: model.index(0, at).data() for at, column in enumerate(model.columns)}
    assert (cells["effect"], cells["paired"]) == ("+0.02", "no")
    assert " to +" in cells["interval"]
    dialog._copy()
    lines = QGuiApplication.clipboard().text().split("\n")
    assert lines[0] == "A\tdemo, teal, 25.0 %"
    assert lines[2].split("\t")[:5] == ["task", "metric", "A", "B", "A \N{MINUS SIGN} B"]
    dialog.close()
    select(page, *range(5))
    assert not page.compare.isEnabled()


def test_runs_with_their_documents_answers_are_compared_in_pairs(page, study, store):
    runs = expand(study)
    for run, right in ((runs[1], range(60)), (runs[3], range(20, 100))):
        samples = tuple(
            SampleRecord(
                task="piqa", doc=doc, scores={"acc_norm": (float(doc in right), 1.0)}, target="a", response="1"
            )
            for doc in range(100)
        )
        value = len(right) / 100
        metric = MetricRecord(task="piqa", metric="acc_norm", value=value, stderr=0.04, n=100, higher_is_better=True)
        unit = UnitRecord(run=run.content_hash(), unit="piqa", metrics=(metric,), seconds=1.0, samples=samples)
        store.record_unit(unit)
    page.controller.refresh()
    page.controller.show_study(study)
    wanted = {runs[1].content_hash(), runs[3].content_hash()}
    select(page, *(row for row, entry in enumerate(page.table.model().shown) if entry.row.run in wanted))
    page.controller.compare()
    (dialog,) = page.findChildren(ResultsComparison)
    (row,) = [entry.row for entry in dialog.table.model().shown]
    assert (row.test, row.first_only, row.second_only) == ("exact McNemar", 20, 40)
    assert row.effect == pytest.approx(-0.2)
    dialog.close()


def test_runs_without_a_task_in_common_are_told_so(page):
    select(page, 0, page.table.model().rowCount() - 1)
    page.controller.compare()
    assert "no task in common" in page.message.label.text()
