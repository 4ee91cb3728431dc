"""Pictures of every page, made by the program itself: `python -m wina_app.screenshots FOLDER`.

Opens the window without a screen on the demo model, with what the given database has, and saves one PNG a page.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wina_app.application import Application

_PATIENCE_MS = 180_000


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the command line, take the pictures, return the exit code."""
    options = _parser().parse_args(arguments)
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    from PySide6.QtCore import QTimer
    from PySide6.QtWidgets import QApplication

    from wina_app.application import Application
    from wina_app.settings import Settings

    app = QApplication(sys.argv[:1])
    app.setQuitOnLastWindowClosed(False)
    with tempfile.TemporaryDirectory() as folder:  # the user's own settings stay as they are
        application = Application(app, options.database, Settings(Path(folder) / "window.json"))
        tour = _Tour(application, options)
        QTimer.singleShot(_PATIENCE_MS, tour.give_up)
        application.start(None if options.empty else "demo", "model")
        tour.start()
        app.exec()
    return tour.code


def _parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(prog="python -m wina_app.screenshots", description="Save a picture of every page")
    options.add_argument("folder", type=Path, help="where the PNG files go")
    options.add_argument("--database", metavar="URL", help="SQLAlchemy URL or path of the results database")
    options.add_argument("--size", default="1280x720", help="of the window, for example 1920x1080")
    options.add_argument("--theme", choices=("light", "dark"), action="append", help="both unless given")
    options.add_argument("--rotate", action="store_true", help="compute the default rotation first")
    options.add_argument("--empty", action="store_true", help="without a model")
    return options


class _Tour:
    """Waits for the model, then goes through themes and pages, leaving each a moment to draw."""

    def __init__(self, application: "Application", options: argparse.Namespace) -> None:
        self.code = 0
        self._application = application
        self._options = options
        self._steps: list[Callable[[], None]] = []

    def start(self) -> None:
        """Begin once the model is loaded."""
        width, height = map(int, self._options.size.split("x"))
        self._application.window.resize(width, height)
        self._wait_for(self._is_loaded, self._rotate if self._options.rotate else self._plan)

    def give_up(self) -> None:
        """The model did not load in time."""
        print("The model could not be loaded; the log tells why.", file=sys.stderr)
        self._finish(1)

    def _is_loaded(self) -> bool:
        return self._options.empty or self._application.workbench.workspace.summary is not None

    def _rotate(self) -> None:
        self._application.rotation.rotate()
        self._wait_for(lambda: not self._application.workbench.jobs.active, self._plan)

    def _plan(self) -> None:
        window = self._application.window
        self._options.folder.mkdir(parents=True, exist_ok=True)
        for theme in self._options.theme or ("light", "dark"):
            self._steps.append(lambda theme=theme: window.set_theme(theme))
            for key in window.pages:
                self._steps.append(lambda key=key: window.show_page(key))
                file = self._options.folder / f"{key}-{theme}.png"
                self._steps.append(lambda file=file: self._save(file))
        self._next()

    def _next(self) -> None:
        from PySide6.QtCore import QTimer

        if not self._steps:
            self._finish(self.code)
            return
        self._steps.pop(0)()
        QTimer.singleShot(400, self._next)

    def _save(self, file: Path) -> None:
        if not self._application.window.grab().save(str(file)):
            print(f"{file} could not be written; choose another folder.", file=sys.stderr)
            self.code = 1

    def _wait_for(self, condition: Callable[[], bool], then: Callable[[], None]) -> None:
        from PySide6.QtCore import QTimer

        QTimer.singleShot(100, then if condition() else lambda: self._wait_for(condition, then))

    def _finish(self, code: int) -> None:
        self.code = code
        self._application.window.confirm_quit = lambda: True
        self._application.window.close()


if __name__ == "__main__":
    sys.exit(main())
