"""Draw a stored study's frontier into a file, without a screen.

python -m wina_app.tools.render_figure demo.png --study demo
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wina_app.plots.figure import PlotFile

SIZE = (254.0, 158.75)
"""Millimetres: 10 inches wide."""
DPI = 288


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the command line, draw, return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m wina_app.tools.render_figure", description="Draw a study's frontier."
    )
    parser.add_argument(
        "file", type=Path, help="a name ending in .png, .svg, .pdf or .py, with the data as CSV beside it"
    )
    parser.add_argument("--study", required=True, help="the study's name")
    parser.add_argument("--task", default="fidelity", help="the task to show")
    parser.add_argument("--metric", default="kl", help="the task's metric to show")
    parser.add_argument("--database", metavar="URL", help="SQLAlchemy URL or path of the results database")
    parser.add_argument("--width", type=float, default=SIZE[0], help="in millimetres")
    parser.add_argument("--height", type=float, default=SIZE[1], help="in millimetres")
    parser.add_argument("--dpi", type=int, default=DPI, help="dots per inch of a PNG")
    options = parser.parse_args(arguments)
    from wina_core.errors import WinaError

    try:
        choice = _choice(options)
        draw(options.file, options.study, options.task, options.metric, options.database, choice)
    except WinaError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _choice(options: argparse.Namespace) -> "PlotFile":
    from pydantic import ValidationError

    from wina_app.plots.figure import PlotFile
    from wina_core.errors import WinaError, explain

    chosen = {"format": options.file.suffix[1:].lower(), "width": options.width, "height": options.height}
    try:
        return PlotFile(**chosen, dpi=options.dpi)
    except ValidationError as error:
        raise WinaError(f"The figure cannot be drawn so: {explain(error)}") from error


def draw(file: Path, study: str, task: str, metric: str, database: str | None, choice: "PlotFile") -> None:
    """Write the frontier of one metric of a stored study; WinaError when the store has no such numbers."""
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    from PySide6.QtWidgets import QApplication

    from wina_app.pages.results.plots.frontier import frontier, measures
    from wina_app.pages.results.plots.frontier_plot import FrontierPlot
    from wina_app.plots.figure import save_figure
    from wina_app.style.theme import apply_theme
    from wina_core.analysis.results.measured import DEFAULT_COUNT
    from wina_core.errors import WinaError
    from wina_core.store import MetricFilter, Store

    with Store(database) as store:
        study_id = next((row.study for row in store.studies() if study in (row.name, row.study)), None)
        metrics = store.metrics(MetricFilter(study=study_id, tasks=(task,), metrics=(metric,))) if study_id else None
    if metrics is None or metrics.empty:
        raise WinaError(f'The store has no "{metric}" of "{task}" in a study "{study}"; run the study first.')
    app = QApplication.instance()
    apply_theme(app if isinstance(app, QApplication) else QApplication([]), "light")
    plot = FrontierPlot()
    plot.show_frontier(frontier(metrics, measures(metrics)[0], str(metrics["model_hash"].iat[0])), DEFAULT_COUNT)
    save_figure(plot.figure(), file, choice)
    plot.deleteLater()


if __name__ == "__main__":
    sys.exit(main())
