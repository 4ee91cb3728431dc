"""A Playground over an engine and a store that answer on the calling thread."""

import pytest
from wina_app.pages.playground import wire
from wina_app.pages.playground.page import PlaygroundPage

from tests.wina_app.fakes import load, make_workbench


class Playground:
    """The page with its controller, and a loaded model."""

    def __init__(self, qtbot, tmp_path) -> None:
        self.workbench, self.engine, thread = make_workbench(tmp_path)
        self.store, pages = thread.store, []
        self.control = wire(self.workbench, pages.append)
        self.page: PlaygroundPage = pages[0]
        self.form, self.history = self.page.form, self.page.history
        qtbot.addWidget(self.page)
        load(self.workbench)
        self.form.prompt.setPlainText("def median(data):")
        self.form.new_tokens.setValue(8)
        self.page.resize(1200, 560)
        self.page.show()

    @property
    def job(self):
        return self.engine.last.job

    def titles(self) -> list[str]:
        return [self.history.list.item(row).text() for row in range(self.history.list.count())]


@pytest.fixture
def setup(qtbot, tmp_path) -> Playground:
    return Playground(qtbot, tmp_path)
