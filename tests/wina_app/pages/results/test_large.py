"""A hundred thousand stored metrics: the table lists, filters, sorts, groups and scrolls them without a stall."""

import random

import pytest
from PySide6.QtCore import Qt
from sqlalchemy import make_url
from wina_app.pages.results import make_page
from wina_app.pages.results.plots.tabs import ResultsPlots
from wina_app.services.store_thread import StoreThread
from wina_app.style.theme import apply_theme

from tests.wina_app.pages.results.results_content import PLAIN
from wina_core.analysis.results.columns import BY_KEY
from wina_core.store import Backlog, MetricRow
from wina_core.store.metric_frames import metrics_frame

MODELS, SETTINGS, TARGETS, TASKS = 50, 8, 25, 10
RUNS = MODELS * SETTINGS * TARGETS


class LargeStore:
    """Has of a store what lists are made of."""

    problem = ""
    url = make_url("sqlite://")

    def retry(self) -> None:
        pass

    def has_news(self) -> bool:
        return False

    def __init__(self) -> None:
        chance = random.Random(7)
        first = MetricRow(
            run="", model="llama", rotation="none", method="wina", selection="topk", plan="uniform",
            target_sparsity=0.5, gated_sparsity=0.5, net_sparsity=0.5, task="", metric="acc", value=0.0, stderr=0.01,
            n=100, higher_is_better=True, version="1", num_fewshot=0, prompt_hash=None, truncated=None, settings="",
            status="done", finished=0.0, model_hash="m", unit="", chosen_on_evaluation="", seconds=1.5,
        )  # fmt: skip
        self.rows = []
        for run in range(RUNS):
            model, rest = divmod(run, SETTINGS * TARGETS)
            setting, target = divmod(rest, TARGETS)
            head = first._replace(
                run=f"{run:016x}", model=f"llama {model}", model_hash=f"m{model}", method=("wina", "teal")[setting % 2],
                settings=f"limit {100 * (setting // 2)}", target_sparsity=target / TARGETS,
                gated_sparsity=chance.random(), finished=1e9 + 60 * run,
            )  # fmt: skip
            self.rows += [
                head._replace(task=f"task {task}", unit=f"task {task}", value=chance.random()) for task in range(TASKS)
            ]
        self.details = {row.run: PLAIN for row in self.rows[::TASKS]}
        self.frame = metrics_frame(self.rows)

    def metrics(self):
        return self.frame.copy()

    def run_details(self):
        return dict(self.details)

    def latency_rows(self):
        return []

    def layer_map(self, *_):
        return None

    def run_spec(self, _run):
        return None

    def close(self):
        pass


@pytest.fixture(scope="module")
def large():
    return LargeStore()


@pytest.fixture
def page(qtbot, qapp, large, monkeypatch):
    apply_theme(qapp, "light")

    def opened(thread: StoreThread, _url: str | None) -> None:
        thread._store, thread._backlog = large, Backlog(large)

    monkeypatch.setattr(StoreThread, "_open", opened)
    store = StoreThread()
    page = make_page(store, ResultsPlots())
    page.store = store
    page.plots.show_plot("compare")  # none is drawn: this is about the table
    qtbot.addWidget(page)
    page.resize(1208, 700)
    with qtbot.waitActive(page):
        page.show()
    yield page
    store.finish()


@pytest.mark.nightly  # `test_every_page` lists and groups 10,000 runs always
def test_nothing_keeps_the_window_waiting(qtbot, page, stall_watchdog):
    table = page.controller.table

    def filtered(line: str, count: int) -> None:
        page.filter.setText(line)
        qtbot.waitUntil(lambda: table.count == count)

    stall_watchdog.start()
    page.store.start()
    qtbot.waitUntil(lambda: table.rowCount() == RUNS)
    table.sort(next(at for at, column in enumerate(table.columns) if column.key.endswith("task 3\tacc")))
    qtbot.wait(10)
    page.controller.table.group_by("model")
    qtbot.wait(10)
    page.controller.table.group_by("")
    filtered("method:wina target>=40", RUNS * 3 // 10)
    page.list.form.buttons["metrics"].click()
    filtered("", RUNS * TASKS)
    filtered("method:wina target>=40", RUNS * TASKS * 3 // 10)
    filtered(r"task:/task [0-4]$/ -method:teal", RUNS * TASKS // 4)
    filtered("", RUNS * TASKS)
    page.table.sortByColumn(BY_KEY["value"], Qt.SortOrder.DescendingOrder)
    qtbot.wait(10)
    page.table.selectRow(50_000)
    qtbot.wait(10)
    table.sort_further(BY_KEY["when"])
    qtbot.wait(10)
    page.list.differing.setChecked(True)
    qtbot.wait(10)
    for key in ("method", "model", "hash", "value"):
        page.controller.table.group_by(key)
        qtbot.wait(10)
        table.close_groups(True)
        qtbot.wait(10)
    page.controller.table.group_by("")
    qtbot.wait(10)
    for position in range(0, RUNS * TASKS, 20_000):
        page.table.verticalScrollBar().setValue(position)
        qtbot.wait(10)
    page.table.selectAll()
    qtbot.wait(10)
    qtbot.keyClick(page.table, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    qtbot.wait(50)
