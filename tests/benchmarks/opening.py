"""Time from starting Python to the first painted window, relative to a bare window with one pyqtgraph plot.

Both run without a screen, so that no compositor is measured. Both import Qt, pyqtgraph and numpy; pydantic and our own
modules add a fifth, and the first page and the docks another fifth. SQLAlchemy and the engine start on threads and
processes of their own. Measured: 1.39 times, 1.33 since the window has the style sheet instead of the application, and
1.21 since pydantic builds a validator at its first use. On another processor it is 1.44 (`results/opening-cpu.json`),
where a version of 1.33 takes 1.58.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory

from comparing import Contender, TimingComparison, compare

BARE = """
from PySide6.QtWidgets import QApplication
import pyqtgraph
app = QApplication([])
window = pyqtgraph.PlotWidget()
window.plot([1, 2, 3], [1, 3, 2])
watch(window.viewport())
window.show()
app.processEvents()
tell()
"""
WORKBENCH = """
from wina_app import __main__, application
start, load = application.Application.start, application.Application._await_libraries
def started(self, *arguments):
    watch(self.window)
    start(self, *arguments)
def loaded(self):
    tell()
    load(self)
application.Application.start, application.Application._await_libraries = started, loaded
__main__.main([])
"""
_WATCH = """
from PySide6.QtCore import QEvent, QObject
class First(QObject):
    painted = False
    def eventFilter(self, watched, event):
        self.painted |= event.type() == QEvent.Type.Paint
        return False
first = First()
def watch(window):
    window.installEventFilter(first)
def tell():
    if first.painted:
        print("painted", flush=True)
"""
"""The filter sees events before they are handled, so "painted" is printed once the event loop is back."""


def measure(toy: bool) -> list[TimingComparison]:
    """Compare both windows, with their files in the page cache."""
    ways = [Contender("the workbench", lambda: _window(WORKBENCH), 1.25)]
    setting = {"display": "none", "threads": os.cpu_count() or 1}
    return [compare(Contender("a bare plot", lambda: _window(BARE)), ways, 1 if toy else 15, setting)]


@contextmanager
def _window(source: str) -> Iterator[Callable[[], None]]:
    """Open a window in a home of its own, and close it outside of the measurement."""
    opened: list[subprocess.Popen[str]] = []
    with TemporaryDirectory() as home:
        environment = os.environ | {"QT_QPA_PLATFORM": "offscreen", "WINA_HOME": home}

        def open_() -> None:
            process = subprocess.Popen(
                [sys.executable, "-c", _WATCH + source],
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
            opened.append(process)
            if "painted" not in process.stdout.readline():
                raise RuntimeError("The window was not painted; run the source of the benchmark by itself to see why.")

        yield open_
        for process in opened:
            process.kill()
            process.wait()
