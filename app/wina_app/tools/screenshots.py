"""Pictures of the window, made by the program itself: `python -m wina_app.tools.screenshots FOLDER`.

Opens the window without a screen on the demo model, computes on it what the pages are to show, and saves a PNG of each
scene: the start page, every page, gate inspector, command palette, settings and guide. Without `--database` a small
grid is evaluated and a small sweep timed into a database that lasts as long as the run.
"""

import argparse
import contextlib
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PySide6.QtGui import QImage
    from PySide6.QtWidgets import QWidget

    from wina_app.application import Application
    from wina_app.tools.screenshot_scenes import Wait

_PATIENCE_SECONDS = 1200
_POLL_MS = 50
_SCREEN = {"name": "screen", "x": 0, "y": 0, "width": 1920, "height": 1080, "logicalDpi": 96, "dpr": 1}
"""Without it dialogs fit themselves to Qt's screen of 800 x 800."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the command line, take the pictures, return the exit code."""
    options = parser().parse_args(arguments)
    os.environ["QT_SCALE_FACTOR"] = str(options.scale)
    from PySide6.QtWidgets import QApplication

    from wina_app.application import Application
    from wina_app.services.settings import Settings

    is_temporary = options.database is None
    options.folder = options.folder.resolve()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder if is_temporary else "."):
        screen = Path(folder) / "screen.json"
        screen.write_text(json.dumps({"screens": [_SCREEN]}))
        os.environ.setdefault("QT_QPA_PLATFORM", f"offscreen:configfile={screen}")
        app = QApplication(sys.argv[:1])
        app.setQuitOnLastWindowClosed(False)
        settings = Settings(Path(folder) / "window.json")  # the user's own stay as they are
        settings.update(notify=False, reopen=False)
        application = Application(app, "results.sqlite" if is_temporary else options.database, settings)
        application.start(page="model")
        tour = Tour(application, pictures(application, options), application.window.close)
        tour.start()
        application.window.confirm_quit = lambda: "cancel"  # type: ignore[method-assign]  # nobody is there to ask
        app.exec()
    print("\n".join(tour.troubles), file=sys.stderr, end="\n" if tour.troubles else "")
    return 1 if tour.troubles else 0


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(
        prog="python -m wina_app.tools.screenshots", description="Save pictures of the window"
    )
    options.add_argument("folder", type=Path, help="where the PNG files go")
    options.add_argument("--database", metavar="URL", help="show what this results database has; nothing is evaluated")
    options.add_argument("--compute", action="store_true", help="evaluate and time into the database all the same")
    options.add_argument("--theme", choices=("light", "dark"), action="append", help="again for more; light")
    options.add_argument("--text", type=_percent, metavar="PERCENT", action="append", help="size, again for more; 100")
    options.add_argument("--size", type=_size, metavar="WxH", action="append", help="of the window; 1280x800")
    options.add_argument("--scale", type=float, choices=(1, 1.5, 2, 3), default=1, help="pixels for each of the size")
    options.add_argument("--only", metavar="SCENE", action="append", help="such as results; again for more; all")
    options.add_argument("--empty", action="store_true", help="without a model and without results")
    return options


def _size(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d+)x(\d+)", text)
    if not match:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size such as 1280x800")
    return int(match[1]), int(match[2])


def _percent(text: str) -> int:
    if not text.isdecimal() or not 80 <= int(text) <= 200:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size from 80 to 200 % such as 150")
    return int(text)


class Tour:
    """Runner of steps, each of which returns the condition to wait for before the next one."""

    def __init__(self, application: "Application", steps: Iterator["Wait"], then: Callable[[], object]) -> None:
        self.troubles: list[str] = []
        self._application, self._steps, self._then = application, steps, then
        self._wait: Wait | None = None
        self._polls = 0

    def start(self) -> None:
        """Run all steps, or until one fails."""
        from PySide6.QtCore import QTimer

        try:
            if self._wait is None or self._wait.over():
                self._wait, self._polls = next(self._steps), 0
        except StopIteration:
            self._end()
            return
        except OSError as error:
            self._end(f"{error}; choose another folder.")
            return
        failed = [f"{entry.title}: {entry.failure}" for entry in self._application.workbench.jobs if entry.error]
        self._polls += 1
        if failed:
            self._end(*failed)
        elif self._polls * _POLL_MS > 1000 * _PATIENCE_SECONDS:
            self._end(f"Still waiting for {self._wait.description} after {_PATIENCE_SECONDS} s; the log tells why.")
        else:
            QTimer.singleShot(_POLL_MS, self.start)

    def _end(self, *troubles: str) -> None:
        self.troubles.extend(troubles)
        self._then()


def pictures(application: "Application", options: argparse.Namespace) -> Iterator["Wait"]:
    """Take all pictures in every requested appearance; a file's name has what there are several of."""
    from wina_app.tools.screenshot_scenes import prepare, rest, scenes

    options.folder.mkdir(parents=True, exist_ok=True)
    window, settings = application.window, application.workbench.settings
    sizes, themes, texts = options.size or [(1280, 800)], options.theme or ["light"], options.text or [100]
    model = not options.empty

    def take(available: dict[str, Callable[[], Callable[[], object]]]) -> Iterator["Wait"]:
        selected = {name: show for name, show in available.items() if name in (options.only or available)}
        for (width, height), theme, text in product(sizes, themes, texts) if selected else ():
            window.apply_preferences(settings.preferences.model_copy(update={"theme": theme, "text_size": text}))
            window.resize(width, height)
            of_several = {f"{width}x{height}": sizes, theme: themes, str(text): texts}
            labels = [label for label, values in of_several.items() if len(values) > 1]
            for name, show in selected.items():
                put_away = show()
                yield rest()
                file = options.folder / ("-".join([name, *labels]) + ".png")
                if not _grab(window).save(str(file), quality=0):  # compresses most
                    raise OSError(f"{file} could not be written")
                put_away()

    yield rest()
    yield from take(scenes(application, before_model=True))
    if model:
        yield from prepare(application, fill=options.database is None or options.compute)
    yield from take(scenes(application, before_model=False))


def _grab(window: "QWidget") -> "QImage":
    """Grab the window with the dialog over it, which is a window of its own."""
    from PySide6.QtGui import QColor, QPainter, QPalette
    from PySide6.QtWidgets import QDialog

    whole = window.grab()
    painter = QPainter(whole)
    for dialog in window.findChildren(QDialog):
        if dialog.isVisible():
            area = dialog.rect()
            area.moveCenter(window.rect().center())
            painter.drawPixmap(area, dialog.grab())
            painter.setPen(QColor(dialog.palette().color(QPalette.ColorRole.Mid)))
            painter.drawRect(area.adjusted(-1, -1, 0, 0))
    painter.end()
    return whole.toImage()


if __name__ == "__main__":
    sys.exit(main())
