"""Plot of a refinement: the loss of each basis over the steps, drawn while it runs."""

import math
from collections.abc import Sequence

from PySide6.QtCore import Qt

from wina_app.plots.colour_maps import category
from wina_app.plots.data_plot import DataPlot
from wina_app.plots.plot_items import Trace
from wina_app.style.number_format import percent
from wina_app.style.translation import tr
from wina_core.records import RefinementStep

_STYLES = (Qt.PenStyle.SolidLine, Qt.PenStyle.DashLine, Qt.PenStyle.DotLine, Qt.PenStyle.DashDotLine)
_MARKED = 40
"""Most points of a line with a marker at each."""


class RefinementPlot(DataPlot):
    """A line for each sparsity of a single basis, or for each of several bases its loss relative to its first step."""

    def __init__(self) -> None:
        super().__init__(tr("Refinement: loss over the steps"), log_axes="xy")
        self._steps = 0

    def show_steps(self, steps: Sequence[RefinementStep]) -> None:
        """Draw the steps so far, in any order and with repeats; none clears the plot."""
        if steps and len(steps) == self._steps:
            return
        self._steps = len(steps)
        several = len({step.site for step in steps}) > 1
        self.set_axes(tr("step"), tr("loss / loss at the first step") if several else tr("loss (nats per token)"))
        self.show_traces(_by_site(steps) if several else _by_sparsity(steps))


def loss_change(steps: Sequence[RefinementStep]) -> tuple[float, float] | None:
    """Return the mean loss at the first and last step of each basis and sparsity; None without a refinement."""
    ends = [(losses[0][1], losses[-1][1]) for losses in _losses(steps).values()]
    if not ends:
        return None
    return sum(first for first, _ in ends) / len(ends), sum(last for _, last in ends) / len(ends)


def _losses(steps: Sequence[RefinementStep]) -> dict[tuple[str, float], list[tuple[int, float]]]:
    """Return the (step, loss) of each basis and sparsity in the order of steps."""
    loss_by_step = {(step.site, step.sparsity, step.step): step.loss for step in steps if math.isfinite(step.loss)}
    curves: dict[tuple[str, float], list[tuple[int, float]]] = {}
    for (site, sparsity, step), loss in loss_by_step.items():
        curves.setdefault((site, sparsity), []).append((step, loss))
    return {key: sorted(losses) for key, losses in curves.items()}


def _by_sparsity(steps: Sequence[RefinementStep]) -> list[Trace]:
    return [
        _trace(tr("at {sparsity}", sparsity=percent(sparsity)), index, losses)
        for index, ((_, sparsity), losses) in enumerate(sorted(_losses(steps).items()))
    ]


def _by_site(steps: Sequence[RefinementStep]) -> list[Trace]:
    """Return for each basis the geometric mean over sparsities of its losses, relative to the first ones."""
    curves_by_site: dict[str, dict[float, list[tuple[int, float]]]] = {}
    for (site, sparsity), losses in _losses(steps).items():
        if losses[0][1] > 0.0:
            curves_by_site.setdefault(site, {})[sparsity] = losses
    traces = []
    for index, (site, curves) in enumerate(curves_by_site.items()):
        latest: dict[float, float] = {}
        points = []
        ordered = sorted((step, sparsity, loss) for sparsity, losses in curves.items() for step, loss in losses)
        for step, sparsity, loss in ordered:
            latest[sparsity] = math.log(max(loss, 1e-12) / curves[sparsity][0][1])
            if len(latest) == len(curves):
                points.append((step, math.exp(sum(latest.values()) / len(latest))))
        traces.append(_trace(site, index, points))
    return traces


def _trace(name: str, index: int, points: Sequence[tuple[int, float]]) -> Trace:
    def readout(point: int) -> str:
        step, loss = points[point]
        return tr("{name}: step {step}, {loss}", name=name, step=step, loss=f"{loss:.4g}")

    return Trace(
        name,
        category(index),
        [step for step, _ in points],
        [loss for _, loss in points],
        readout,
        symbol="o" if len(points) <= _MARKED else "",
        size=5,
        style=_STYLES[index // 7 % len(_STYLES)],
    )
