"""Entry point of the workbench: `python -m wina_app`, or `wina-workbench` once installed."""

import argparse
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from wina_core import __version__
from wina_core.errors import WinaError, is_missing_library, unforeseen


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the window until it is closed and return the exit code; print one sentence if it cannot be opened."""
    try:
        return run(arguments)
    except ImportError as error:
        if not is_missing_library(error):
            raise
        print(f"wina-workbench: {unforeseen(error)}", file=sys.stderr)
    except WinaError as error:
        print(f"wina-workbench: {error}", file=sys.stderr)
    return 1


def run(arguments: Sequence[str] | None) -> int:
    """Parse the command line, run the window until it is closed, return the exit code."""
    options = parser().parse_args(arguments)
    check_display()
    from PySide6.QtCore import Qt
    from PySide6.QtWidgets import QApplication

    from wina_app.services.process import skip_feature_scan

    skip_feature_scan()  # before all that takes long to import
    from wina_app.services.process import EndingSignals, configure_malloc

    configure_malloc()
    app = QApplication(sys.argv[:1])
    from wina_app.application import Application
    from wina_app.services.settings import Settings

    app.setApplicationName("WINA Workbench")
    app.setDesktopFileName("wina-workbench")  # Wayland shows the icon of this desktop file
    app.setQuitOnLastWindowClosed(False)  # the engine is stopped first
    sys.excepthook = _log_defect
    settings = Settings()
    if options.engines is not None:
        settings.update(engines=options.engines)
    application = Application(app, options.database, settings)
    signals = EndingSignals()
    signals.received.connect(application.on_signal)
    # Direct: the desktop ends the session once this slot has returned.
    app.commitDataRequest.connect(application.end_session, Qt.ConnectionType.DirectConnection)
    application.start("demo" if options.demo else options.model, options.page, options.files)
    return app.exec()


def check_display() -> None:
    """Raise WinaError where Qt would find no display and end the process."""
    if sys.platform == "linux" and not any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"))):
        raise WinaError(
            "There is no display for a window; log in with a desktop or ssh -X, or use the command line, wina."
        )


def parser() -> argparse.ArgumentParser:
    from wina_app.pages import PAGES  # loads Qt

    options = argparse.ArgumentParser(prog="wina-workbench", description="WINA Workbench: activation sparsity in LLMs")
    options.add_argument("--version", action="version", version=f"wina-workbench {__version__}")
    options.add_argument(
        "files", nargs="*", type=Path, metavar="FILE", help="open this plan, study, results database or model folder"
    )
    model_options = options.add_mutually_exclusive_group()
    model_options.add_argument("--model", help="open this folder or Hugging Face model id")
    model_options.add_argument("--demo", action="store_true", help="open the demo model that ships with the workbench")
    options.add_argument("--page", choices=tuple(PAGES), help="show this page first")
    options.add_argument("--database", metavar="URL", help="SQLAlchemy URL or path of the results database")
    options.add_argument(
        "--engines",
        type=_engines,
        metavar="N",
        help="compute with so many engine processes, now and from now on; 0, the default: one for each GPU",
    )
    return options


def _engines(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of engines, such as 0 or 2")
    return int(text)


def _log_defect(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Log a defect in a slot and print it; the window and its jobs continue."""
    logging.getLogger("wina_app").error("A defect in the window", exc_info=(kind, error, trace))
    sys.__excepthook__(kind, error, trace)


if __name__ == "__main__":
    sys.exit(main())
