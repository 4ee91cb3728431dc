"""A database with the demo study, and the Results page over a store."""

import shutil

import pytest
from wina_app.pages.results import make_page
from wina_app.pages.results.plots.tabs import ResultsPlots
from wina_app.style.theme import apply_theme

from tests.wina_app.stored_runs import DirectStore, record_demo_study
from wina_core.store import Store


@pytest.fixture(scope="session")
def database(tmp_path_factory):
    path = tmp_path_factory.mktemp("store") / "results.sqlite"
    with Store(f"sqlite:///{path}") as store:
        record_demo_study(store)
    return path


@pytest.fixture
def filled_store(database, tmp_path):
    """A copy of the database for this test alone."""
    with Store(f"sqlite:///{shutil.copy(database, tmp_path / 'filled.sqlite')}") as opened:
        yield opened


@pytest.fixture
def show_page(qtbot, qapp):
    """Return a function that shows the page over a store; `page.access` is what it reads the store through."""

    def show(store, settings=None, size=(1208, 700), form="metrics"):
        apply_theme(qapp, "light")
        access = DirectStore(store)
        page = make_page(access, ResultsPlots(), settings)
        page.access = access
        page.list.form.buttons[form].click()
        qtbot.addWidget(page)
        page.resize(*size)
        with qtbot.waitActive(page):
            page.show()
        qapp.processEvents()
        return page

    return show
