"""A person who does what the guide says: presses the buttons that it names, types what it prints, and sees what it
promises. `Guide` takes labels and numbers from the guide's text, so that guide and window cannot part."""

import re
import time

import psutil
from PySide6.QtWidgets import QAbstractButton, QDockWidget
from wina_app.application import Application

from tests.end_to_end.devices import Devices, points_between
from tests.end_to_end.hands import Mouse, Script, Seen, plain
from wina_core.files.paths import resources_folder

LONGEST_S = 700
_REST_S = 0.3
"""Longer than the filter waits for the next letter."""
_BUTTON = re.compile(r"\*\*([^*]+)\*\*")


class Chapter:
    """Text of a chapter by its sections."""

    def __init__(self, name: str) -> None:
        text = (resources_folder() / "guide" / name).read_text(encoding="utf-8")
        parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)
        self.introduction = parts[0]
        self.sections = {title: " ".join(body.split()) for title, body in zip(parts[1::2], parts[2::2], strict=True)}

    def labels(self, section: str) -> list[str]:
        """Return the labels of buttons that a section prints in bold."""
        return _BUTTON.findall(self.sections[section])


class Guide:
    """A walk through a chapter, which prints what each step took."""

    def __init__(self, application: Application, devices: Devices, chapter: Chapter) -> None:
        self.application, self.window = application, application.window
        self.workspace, self.jobs = application.workbench.workspace, application.workbench.jobs
        self.pages, self.chapter = self.window.pages, chapter
        self.devices, self.hands = devices, Mouse(devices)
        self._pressed: set[str] = set()

    def step(self, section: str, label: str) -> Script:
        """Press the button that the guide names, once there is one, and begin to take the time."""
        assert label in self.chapter.labels(section), f"the guide no longer says {label} under {section}"
        yield Seen(f"there is a button {label}", lambda: self.button(label) is not None, self.texts)
        self._pressed.add(label)
        self._begun = (label, time.monotonic(), self.computed())
        yield from self.hands.press(self.button(label))

    def end_step(self) -> None:
        """Print what the step took: wall seconds, and seconds of the engine's threads."""
        label, clock, computed = self._begun
        seconds, computed = time.monotonic() - clock, self.computed() - computed
        print(f"\n{label:24} {seconds:6.1f} s, of which the engine computed {computed:6.1f} s", flush=True)

    def computed(self) -> float:
        """Return the seconds of processor time of this process's children: the engine."""
        times = [child.cpu_times() for child in psutil.Process().children(recursive=True)]
        return sum(each.user + each.system for each in times)

    def button(self, label: str) -> QAbstractButton | None:
        """Return the visible button with a text, of which "…" inside stands for any."""
        pattern = re.compile(re.escape(label).replace("…", ".+") if not label.endswith("…") else re.escape(label))
        shown = (one for one in self.window.findChildren(QAbstractButton) if one.isVisible())
        return next((one for one in shown if pattern.fullmatch(plain(one.text()))), None)

    def texts(self) -> list[str]:
        """Return the texts of all visible buttons."""
        return [plain(one.text()) for one in self.window.findChildren(QAbstractButton) if one.isVisible()]

    def show_plot(self, name: str) -> Script:
        """Click the tab of a plot of the Results page."""
        tabs = self.pages["results"].plots.tabs
        at = [tabs.tabText(at) for at in range(tabs.count())].index(name)
        yield from self.hands.click(tabs, tabs.tabRect(at).center())
        yield Seen(f"{name} is shown", lambda: tabs.currentIndex() == at)

    def check_all_pressed(self, section: str) -> None:
        """Raise AssertionError if the section names a button that was not pressed."""
        missed = set(self.chapter.labels(section)) - self._pressed
        assert not missed, f"the guide names {missed} under {section}, which nobody pressed"


class FirstResult(Guide):
    """The sections of the chapter on the first result."""

    def by_mouse(self) -> Script:
        """By mouse, all that the page proposes."""
        section = "By mouse"
        evaluate, results = self.pages["evaluate"], self.pages["results"]
        yield from self.step(section, "Open the demo model")
        yield Seen("its sizes appear", self.pages["model"].figures.isVisible)
        self.end_step()
        yield from self.step(section, "Evaluate this model")
        yield Seen("the Evaluate page is filled in", lambda: evaluate.isVisible() and evaluate.primary.isEnabled())
        self.end_step()
        self.check_what_is_filled_in()
        yield from self.step(section, "Evaluate … runs")
        yield Seen("the Jobs dock shows it", lambda: any(job.title.startswith("Evaluate") for job in self.jobs))
        (job,) = (entry for entry in self.jobs if entry.title.startswith("Evaluate"))
        yield Seen("all runs are done", lambda: not self.jobs[job.id].active, patience=LONGEST_S)
        job = self.jobs[job.id]
        assert (job.phase, job.error) == ("done", "")
        self.end_step()
        yield from self.step(section, "Results")
        yield Seen("every run is there", lambda: results.isVisible() and results.table.model().rowCount() > 0)
        yield from self.show_plot(*re.findall(r"Click \*(\w+)\*", self.chapter.sections[section]))
        (metric,) = re.findall(r"choose `([\w: ]+)` as the metric of the frontier plot", self.chapter.sections[section])
        measure = results.plots.frontier.measure
        yield Seen("the frontier has metrics", lambda: measure.count() > 0)
        if measure.currentText() != metric:
            yield from self.hands.choose(measure, metric)
        yield Seen("the frontier shows it", lambda: bool(results.plots.frontier.plot.traces))
        self.end_step()
        self.check_all_pressed(section)

    def check_what_is_filled_in(self) -> None:
        """Compare the Evaluate page with the sentence that describes it."""
        said, page = self.chapter.sections["By mouse"], self.pages["evaluate"]
        ticked = {box.text() for box in page.configurations.methods if box.isChecked()}
        assert {name.lower() for name in re.findall(r"dense|TEAL|WINA", said)} == ticked
        (low, high), (documents,), (tokens,) = (
            re.search(pattern, said).groups()
            for pattern in (r"at (\d+) and (\d+) %", r"(\d+) questions", r"([\d,]+) tokens")
        )
        assert re.findall(r"\d+", page.configurations.sparsities.text()) == [low, high]
        assert page.tasks.limit.value() == int(documents)
        assert page.tasks.fidelity_tokens.value() == int(tokens.replace(",", ""))
        assert sum(box.isChecked() for box in page.configurations.rotations) == 2, "without and with a rotation"

    def shape_the_plan(self) -> Script:
        """On the Sparsity page; allocating takes longest."""
        section, page = "Shape the plan", self.pages["sparsity"]
        yield from self.step(section, "Sparsity")
        yield Seen("the map is shown", page.heatmap.isVisible)
        self.end_step()
        first = self.workspace.plan
        port, geometry = page.heatmap.viewport(), page.heatmap.geometry_now()
        cells = [port.mapToGlobal(geometry.cell(*cell).center().toPoint()) for cell in ((1, 1), (3, 2))]
        self.devices.drag(list(points_between(*cells)))
        yield Seen("cells are selected", lambda: len(page.heatmap.selection.cells) == 6)
        (target,) = re.findall(r"type `(\d+)` and press Enter", self.chapter.sections[section])
        self.devices.type(target)
        self.devices.keys("Return")
        yield Seen("they have the target", lambda: self.workspace.plan.sparsity[2][1] == int(target) / 100)
        yield from self.step(section, "Keep budget")
        self.end_step()
        edited = self.workspace.plan
        (name,) = re.findall(r"the allocator \*(\w+)\*", self.chapter.sections[section])
        yield from self.hands.choose(page.toolbar.allocator, name)
        yield from self.step(section, "Allocate")
        allocated = lambda: self.workspace.plan != edited and not self.jobs.active  # noqa: E731
        yield Seen("the plan is allocated", allocated, patience=LONGEST_S)
        self.end_step()
        self.devices.keys("Ctrl+Z")
        yield Seen("that is undone", lambda: self.workspace.plan == edited)
        self.devices.keys("Ctrl+Z")
        yield Seen("the budget is no longer kept", lambda: not page.editor.keep.isChecked())
        self.devices.keys("Ctrl+Z")
        yield Seen("the edit is undone", lambda: self.workspace.plan == first)
        yield from self.step(section, "Evaluate plan")
        yield Seen("the Evaluate page is shown", self.pages["evaluate"].isVisible)
        yield Seen("the plan is ticked", self.pages["evaluate"].configurations.plan.isChecked)
        self.end_step()
        self.check_all_pressed(section)

    def keys_of_the_table(self) -> Script:
        """Press every key of a table in the chapter that goes to a page."""
        for key, name in re.findall(r"\| (Ctrl\+\d) \| go to (\w+) \|", self.chapter.sections["By keyboard"]):
            self.devices.keys(key)
            yield Seen(f"{key} shows {name}", lambda name=name: self.window.current_page is self.pages[name.lower()])


class Pages(Guide):
    """What the chapter on the pages names, once there are results."""

    def script(self) -> Script:
        """Find every button, filter results, show every plot, show and hide every dock."""
        yield from self.buttons()
        yield from self.filter_results()
        yield from self.show_plots()
        yield from self.toggle_docks()

    def buttons(self) -> Script:
        """Find what each page's section names in bold at the beginning of an entry."""
        for title, key in ((page.title, key) for key, page in self.pages.items()):
            yield from self.hands.press(self.button(title))
            for label in re.findall(r"- \*\*([^*]+)\*\*", self.chapter.sections[title]):
                words = re.compile(re.escape(label) + r"( \d.*)?")  # some count what they start
                yield Seen(
                    f"{title} has {label}",
                    lambda words=words, key=key: any(
                        words.fullmatch(plain(one.text())) and one.isVisible()
                        for one in self.pages[key].findChildren(QAbstractButton)
                    ),
                    self.texts,
                )

    def filter_results(self) -> Script:
        """Type every filter of the table into the field."""
        page = self.pages["results"]
        yield from self.hands.press(self.button("Results"))
        for text in re.findall(r"\| `([^`]+)` \|", self.chapter.sections["Results"]):
            yield from self.hands.click(page.filter)
            self.devices.keys("Ctrl+A")
            self.devices.type(text)
            yield Seen(f"{text} is typed", lambda text=text: page.filter.text() == text, page.filter.text)
            yield from self.rest()
            assert page.filter.property("state") != "invalid", f"{text} is refused"
        self.devices.keys("Ctrl+A")
        self.devices.keys("Delete")
        yield Seen("all is shown", lambda: not page.filter.text() and page.table.model().rowCount() > 0)

    def rest(self) -> Script:
        """Wait until what was typed is looked for."""
        end = time.monotonic() + _REST_S
        yield Seen("the filter has been applied", lambda: time.monotonic() > end)

    def show_plots(self) -> Script:
        """Click the tab of every plot that is listed."""
        tabs, said = self.pages["results"].plots.tabs, self.chapter.sections["Results"]
        named = re.findall(r"\*(\w+)\*", said[said.index("**The plots**") : said.index("**Sparsity in the plots**")])
        texts = [tabs.tabText(at) for at in range(tabs.count())]
        assert texts == named, "the guide lists other plots than there are"
        for name in texts:
            yield from self.show_plot(name)

    def toggle_docks(self) -> Script:
        """Press the key of every dock twice."""
        docks = {dock.windowTitle(): dock for dock in self.window.docks.values()}
        for name, key in re.findall(r"\*\*(\w+)\*\* \((Ctrl\+[\w+]+)\)", self.chapter.sections["Docks"]):
            for _ in range(2):
                before = _looks(docks[name])
                self.devices.keys(key)
                yield Seen(f"{key} changes {name}", lambda before=before, name=name: _looks(docks[name]) != before)


def _looks(dock: QDockWidget) -> tuple[bool, bool]:
    """Return whether a dock is there, and more than a line of it."""
    return dock.isVisible(), dock.widget().height() > 0
