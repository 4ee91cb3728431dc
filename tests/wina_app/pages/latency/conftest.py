"""The Latency page by itself, over an engine and a store that answer on the calling thread."""

import pytest
from PySide6.QtWidgets import QWidget
from wina_app.pages.latency import wire
from wina_app.style.theme import apply_theme

from tests.wina_app.fakes import make_workbench


@pytest.fixture
def workbench(tmp_path, qapp):  # noqa: ARG001 - signals need an application
    opened, engine, store = make_workbench(tmp_path)
    opened.fake_engine = engine
    yield opened
    store.store.close()


@pytest.fixture
def page(qtbot, qapp, workbench):
    """The page, shown and connected to its controllers."""
    apply_theme(qapp, "light")
    pages: list[QWidget] = []
    control = wire(workbench, pages.append)
    (shown,) = pages
    control.setParent(shown)
    qtbot.addWidget(shown)
    shown.resize(1208, 660)
    with qtbot.waitActive(shown):
        shown.show()
    return shown
