"""The way of somebody who opens the window for the first time, from the start page to exported results, by shortcuts,
Tab, arrows and the palette."""

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtWidgets import QAbstractButton, QApplication, QDialog, QFileDialog, QLineEdit
from wina_app.application import Application
from wina_app.widgets.controls import CollapsibleSection

from tests.end_to_end.hands import Devices, Keyboard, Script, Seen, plain
from wina_core.files.paths import resources_folder

DOCUMENTS = 8
"""Of each task: enough for standard errors, few enough for seconds."""
TOKENS = 14
"""Of the longest answer: enough to be watched."""
_TRIES = 5
"""A dialog for files that has just read its folder selects the name, which what is typed meanwhile then replaces, or
selects the folder itself, which it then takes for the file."""
_LOOKS = 200
"""At a dialog before its name is typed again."""


class FirstUse:
    """The order of things, and what has to be seen on the way."""

    def __init__(self, application: Application, folder: Path, patch: pytest.MonkeyPatch, devices: Devices) -> None:
        self.application, self.window = application, application.window
        self.workspace, self.jobs = application.workbench.workspace, application.workbench.jobs
        self.pages, self.folder = self.window.pages, folder
        self.hands, self.keys, self.type = Keyboard(devices), devices.keys, devices.type
        self._patch = patch
        self._pictures = 0

    def script(self) -> Script:
        """All of it."""
        yield from self.open_demo()
        for key in self.pages:
            yield from self.go_to(key)
        yield from self.rotate()
        yield from self.edit_the_plan()
        yield from self.evaluate()
        yield from self.look_at_results()
        yield from self.generate()
        self.keys("Ctrl+Q")
        yield Seen("the window is gone", lambda: self.window.has_stopped)

    def take_picture(self, stage: str) -> None:
        """Save what the screen shows, for a person to look at, if a folder for pictures is named."""
        folder = os.environ.get("WINA_PICTURES")
        if folder and QApplication.platformName() == "xcb":
            self._pictures += 1
            preferences = self.application.workbench.settings.preferences
            name = f"{preferences.theme}-{preferences.text_size}-{self._pictures:02}-{stage}.png"
            assert self.window.screen().grabWindow(0).save(str(Path(folder) / name)), f"{folder} cannot be written"

    def go_to(self, key: str) -> Script:
        """Another page, on which nothing has gone wrong."""
        self.keys(f"Ctrl+{list(self.pages).index(key) + 1}")
        page = self.pages[key]
        yield Seen(f"the {key} page is shown", lambda: self.window.current_page is page and page.isVisible())
        self.take_picture(key)
        texts = [plain(button.text()) for button in page.findChildren(QAbstractButton)]
        for label in labels_in_guide(page.title):
            pattern = re.compile(re.escape(label) + r"( \d.*)?")  # some count what they start
            assert any(map(pattern.fullmatch, texts)), f"{key} has no button {label}, which the guide names: {texts}"
        assert page.message.isHidden(), f"the {key} page says: {page.message.label.text()}"
        assert self.window.message.isHidden(), self.window.message.label.text()

    def open_demo(self) -> Script:
        """From the start page."""
        start = self.pages["model"].begin
        yield Seen("the start page is shown", start.isVisible)
        self.take_picture("start")
        yield from self.hands.press(start.demo.button)
        yield Seen("the demo is loaded", lambda: self.workspace.summary is not None)
        self.take_picture("demo")

    def rotate(self) -> Script:
        """With a rotation that is found at once."""
        yield from self.go_to("rotation")
        page = self.pages["rotation"]
        yield from self.hands.choose(page.panel.preset, "Global, weights only")
        yield Seen("rotating is possible", page.primary.isEnabled)
        yield from self.act()
        yield Seen("the rotation is measured", lambda: self.workspace.rotation_report is not None)
        self.take_picture("rotated")
        assert self.workspace.rotation_report.shortcut_parameters == 0

    def edit_the_plan(self) -> Script:
        """Change cells, take a step back, and go on to Evaluate."""
        yield from self.go_to("sparsity")
        first = self.workspace.plan
        yield from self.change_cells()
        yield Seen("the plan has changed", lambda: self.workspace.plan.budget > first.budget)
        edited = self.workspace.plan
        self.keys("Shift+Right")
        self.type("+")
        yield Seen("the plan has changed again", lambda: self.workspace.plan != edited)
        self.take_picture("edited")
        self.keys("Ctrl+Z")
        yield Seen("that is undone", lambda: self.workspace.plan == edited)
        yield from self.act()
        yield Seen("the Evaluate page is shown", lambda: self.window.current_page is self.pages["evaluate"])

    def evaluate(self) -> Script:
        """Dense and the plan on a few documents."""
        page = self.pages["evaluate"]
        for box in (page.tasks.original, page.tasks.fidelity):
            yield from self.hands.tick(box, False)
        yield from self.hands.set(page.tasks.limit, DOCUMENTS)
        yield Seen("two runs are to do", lambda: plain(page.primary.text()) == "Evaluate 2 runs")
        self.take_picture("to-evaluate")
        self._patch.setattr("wina_app.window.messages.LONG_SECONDS", 0.0)  # however fast this machine is
        yield from self.act()
        yield Seen("it runs", lambda: any(entry.title.startswith("Evaluate") for entry in self.jobs))
        (job,) = (entry for entry in self.jobs if entry.title.startswith("Evaluate"))
        yield Seen("it has ended", lambda: not self.jobs[job.id].active)
        job = self.jobs[job.id]
        assert (job.phase, job.error) == ("done", "")
        yield Seen("a toast tells", lambda: bool(self.window.toasts.open))
        self.take_picture("evaluated")
        self._patch.undo()
        yield from self.hands.press(self.window.toasts.open[-1].button)
        yield Seen("the results are shown", lambda: self.window.current_page is self.pages["results"])

    def look_at_results(self) -> Script:
        """Narrow the table, compare its two runs, keep table and plot."""
        page = self.pages["results"]
        rows = page.table.model().rowCount
        yield Seen("the results are listed", lambda: {"dense", "wina"} <= self.methods())
        yield from self.narrow(rows())
        yield from self.hands.focus(page.table)
        self.keys("Ctrl+A")
        yield Seen("two runs are selected", lambda: len(page.controller.selection.runs) == 2)
        yield from self.hands.press(page.compare)
        comparison = page.plots.compare
        yield Seen(
            "they are compared",
            lambda: page.plots.plot == "compare" and comparison.comparison is not None,
            lambda: comparison.remark.text(),
        )
        assert len(comparison.comparison.runs) == 2
        self.take_picture("compared")
        yield from self.act()
        yield from self.save_as("results.csv")
        yield from self.export_plot()
        yield Seen("no dialog is left", lambda: self.plot_dialog() is None)

    def methods(self) -> set[str]:
        """In the rows of the results table."""
        model = self.pages["results"].table.model()
        column = next(at for at, each in enumerate(model.columns) if each.key == "method")
        return {model.index(row, column).data() for row in range(model.rowCount())}

    def generate(self) -> Script:
        """An answer of each side."""
        yield from self.go_to("playground")
        page = self.pages["playground"]
        yield from self.write_prompt()
        (sampling,) = page.form.findChildren(CollapsibleSection)
        yield from self.hands.tick(sampling.heading, True)
        yield from self.hands.set(page.form.new_tokens, TOKENS)
        yield Seen("a prompt can be sent", page.primary.isEnabled)
        yield from self.act()
        answers = self.application.playground.completions
        yield Seen("both sides answer", lambda: all(answers.get(side) and answers[side].tokens for side in page.panes))
        yield Seen("both have answered", lambda: not self.jobs.active)
        assert page.message.isHidden(), page.message.label.text()
        assert all(page.panes[side].text.toPlainText() for side in page.panes)
        self.take_picture("generated")

    def file_dialog(self) -> QFileDialog | None:
        """The one that is open."""
        dialog = QApplication.activeModalWidget()
        return dialog if isinstance(dialog, QFileDialog) and dialog.isVisible() else None

    def plot_dialog(self) -> QDialog | None:
        """The one that asks how to save a plot."""
        found = [
            one for one in QApplication.topLevelWidgets() if one.isVisible() and one.windowTitle() == "Export plot"
        ]
        return found[0] if found and not isinstance(found[0], QFileDialog) else None

    def saved(self, name: str) -> Seen:
        """That a file is there, and no dialog is."""
        gone: Callable[[], bool] = lambda: self.file_dialog() is None  # noqa: E731
        return Seen(f"{name} is saved", lambda: gone() and (self.folder / name).is_file())

    def act(self) -> Script:
        """Do what the page is for."""
        page = self.window.current_page
        yield Seen(f"{page.primary.text()} is possible", page.primary.isEnabled)
        self.keys("Ctrl+Return")

    def change_cells(self) -> Script:
        """Type a target."""
        heatmap = self.pages["sparsity"].heatmap
        yield from self.hands.focus(heatmap)
        for key in ("Down", "Down", "Right"):
            self.keys(key)
        yield Seen("the cursor has moved", lambda: heatmap.selection.cursor == (2, 1))
        self.type("80")
        self.keys("Return")
        yield Seen("the cell has its target", lambda: self.workspace.plan.sparsity[2][1] == pytest.approx(0.8))

    def narrow(self, stored: int) -> Script:
        """Type a filter, and take it away."""
        page = self.pages["results"]
        self.keys("Ctrl+F")
        yield Seen("the filter has the keyboard", page.filter.hasFocus)
        self.type("method:wina ")
        yield Seen("only that method is listed", lambda: self.methods() == {"wina"})
        assert page.table.model().rowCount() < stored
        self.keys("Ctrl+A")
        yield Seen("the filter is selected", lambda: page.filter.selectedText() == page.filter.text())
        self.keys("Delete")
        yield Seen(
            "all are listed again",
            lambda: page.table.model().rowCount() == stored,
            lambda: (page.filter.text(), page.table.model().rowCount(), stored),
        )

    def save_as(self, name: str) -> Script:
        """Type where to."""
        yield Seen("a file is asked for", lambda: self.file_dialog() is not None)
        dialog, path = self.file_dialog(), str(self.folder / name)  # without the dialog PySide forgets its field
        field = dialog.findChild(QLineEdit, "fileNameEdit")
        yield Seen("its name has the keyboard", field.hasFocus)
        for _ in range(_TRIES):
            self.keys("Ctrl+A")
            self.type(path)
            yield Seen("a path is typed", lambda: field.text().endswith(path[-len(name) - 8 :]), field.text)
            if field.text() != path:
                continue
            self.keys("Return")
            looks = iter(range(_LOOKS))
            yield Seen("it is taken", lambda looks=looks: self.file_dialog() is None or next(looks, None) is None)
            if self.file_dialog() is None:
                break
        yield self.saved(name)

    def export_plot(self) -> Script:
        """The frontier, by two commands of the page."""
        yield from self.hands.command(self.window.palette_view, "Show the frontier plot")
        yield Seen("the frontier is shown", lambda: self.pages["results"].plots.plot == "frontier")
        yield from self.hands.command(self.window.palette_view, "Export the plot\N{HORIZONTAL ELLIPSIS}")
        yield Seen("it is asked how", lambda: self.plot_dialog() is not None and self.plot_dialog().isActiveWindow())
        yield from self.hands.press(self.plot_dialog().save)
        yield from self.save_as("frontier.png")

    def write_prompt(self) -> Script:
        """In place of the one that is there."""
        self.keys("Ctrl+Shift+P")
        prompt = self.pages["playground"].form.prompt
        yield Seen("the prompt has the keyboard", prompt.hasFocus)
        self.keys("Ctrl+A")
        self.type("import os")
        yield Seen("it is typed", lambda: prompt.toPlainText() == "import os", prompt.toPlainText)


def labels_in_guide(title: str) -> list[str]:
    """Return the labels in bold at the beginning of the entries of a page's section in the guide."""
    text = (resources_folder() / "guide" / "pages.md").read_text(encoding="utf-8")
    parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)
    return re.findall(r"- \*\*([^*]+)\*\*", " ".join(parts[parts.index(title) + 1].split()))
