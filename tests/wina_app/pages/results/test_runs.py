"""Runs of the Results page: of a study alone beside the paper's numbers, and the selection of table and plots."""

import pytest
from PySide6.QtCore import Qt
from wina_app.pages.results.runs import RunSelection

from tests.wina_app.stored_runs import record_demo_study
from tests.wina_app.studies import PAPER, ROLE, record, write
from wina_core.store import Store
from wina_core.studies.expand import bind, expand, load_study
from wina_core.studies.published import published_value


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
def page(show_page, store):
    return show_page(store, size=(1200, 600))


def titles(page):
    model = page.table.model()
    return [model.headerData(at, Qt.Orientation.Horizontal) for at in range(model.columnCount())]


def column(page, key):
    at = [column.key for column in page.table.model().columns].index(key)
    return [page.table.model().index(row, at).data() for row in range(page.table.model().rowCount())]


def test_a_studys_results_are_its_runs_alone_beside_the_papers_numbers_until_all_are_asked_for(page, study, qtbot):
    assert page.table.model().rowCount() == 44
    page.controller.show_study(study)
    assert page.table.model().rowCount() == 5
    assert page.list.scope.whole() == "Study: Table 3: a tiny one"
    assert set(column(page, "task")) == {"piqa"}
    dense = published_value("commonsense", ROLE, "dense", 0.0, "piqa", "acc_norm")
    wina = published_value("commonsense", ROLE, "WINA", 0.5, "piqa", "acc_norm")
    paper_values = column(page, "paper")
    assert [float(paper_values[0]), float(paper_values[4])] == pytest.approx([dense / 100, wina / 100]), "as stored"
    page.table.sortByColumn(titles(page).index("paper"), Qt.SortOrder.AscendingOrder)
    assert column(page, "paper") == sorted(paper_values)
    page.controller.set_filter("paper:0.7 method:wina")
    assert page.table.model().rowCount() == 2
    qtbot.mouseClick(page.list.everything, Qt.MouseButton.LeftButton)
    assert page.table.model().rowCount() == 44, "the filter is dropped with its column"
    assert "no column" in page.problem.text()
    assert not page.list.everything.isVisible()
    assert "paper" not in titles(page)


def test_the_papers_lines_are_dashed_hollow_and_labelled(page, study):
    page.controller.show_study(study)
    ours = [trace for trace in page.plots.frontier.plot.traces if not trace.hollow]
    paper = {trace.name: trace for trace in page.plots.frontier.plot.traces if trace.hollow}
    assert [trace.name for trace in ours] == ["TEAL", "WINA"], "as the study calls them"
    assert "WINA, paper" in paper
    wina = paper["WINA, paper"]
    assert wina.style == Qt.PenStyle.DashLine
    assert list(wina.x) == [25.0, 40.0, 50.0, 65.0]
    assert wina.colour == ours[1].colour
    assert "paper" in wina.readout(0)
    assert "dense, paper" in [reference.name for reference in page.plots.frontier.plot.references]
    page.plots.frontier.x_axis.setFocus()
    page.plots.frontier.x_axis.setCurrentIndex(page.plots.frontier.x_axis.findData("net"))
    page.plots.frontier.x_axis.activated.emit(page.plots.frontier.x_axis.currentIndex())
    assert not [trace for trace in page.plots.frontier.plot.traces if trace.hollow], "the paper counts no shortcuts"


pytestmark = pytest.mark.usefixtures("qapp")


@pytest.fixture
def selection():
    return RunSelection()


@pytest.fixture
def changes(selection):
    changes = []
    selection.changed.connect(lambda: changes.append(selection.runs))
    return changes


def test_runs_keep_their_order_of_selection_and_the_first_is_the_reference(selection, changes):
    selection.select(["b"])
    selection.select(["a", "b", "c"])
    assert selection.runs == ("b", "a", "c")
    selection.make_reference("c")
    selection.make_reference("unknown")
    selection.select(["a", "c"])
    selection.select(["a", "c", "a"])
    selection.retain({"a", "x"})
    selection.retain({"a"})
    assert changes == [("b",), ("b", "a", "c"), ("c", "b", "a"), ("c", "a"), ("a",)]


def test_an_answer_to_a_change_does_not_go_round_in_a_circle(selection, changes):
    other = RunSelection()
    selection.changed.connect(lambda: other.select(selection.runs))
    other.changed.connect(lambda: selection.select(other.runs))
    selection.select(["a", "b"])
    assert other.runs == ("a", "b")
    assert changes == [("a", "b")]
