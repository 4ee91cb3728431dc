"""Progress of a decoding sweep, with the remaining time of all its points."""

from collections.abc import Sequence
from typing import Literal

from wina_core.compute import pausable_clock
from wina_core.compute.latency.budget import Finished, expected_rest, expected_seconds
from wina_core.compute.reporter import Reporter
from wina_core.jobs import Emit, Progress
from wina_core.specs.latency import DecodePoint

Part = Literal["dense", "gated"]


class SweepProgress:
    """Sender of a sweep's progress: points, the current one in proportion to its time, and what is left of all.

    The sweep estimates itself, since it alone knows its budgets: a rate of points per second would not know that a
    repetition is left out.
    """

    def __init__(self, reporter: Reporter, emit: Emit, job_id: str, points: Sequence[DecodePoint]) -> None:
        self._reporter, self._emit, self._job_id = reporter, emit, job_id
        self._points = points
        self._finished: list[Finished] = []
        self._part: Part = "dense"
        self._part_left: float | None = None
        self._dense_seconds = 0.0
        self._started = pausable_clock.now()
        self._done = 0.0

    @property
    def _point(self) -> DecodePoint:
        return self._points[len(self._finished)]

    @property
    def elapsed(self) -> float:
        """Return the seconds since the current point began, without pauses."""
        return pausable_clock.now() - self._started

    def begin(self, part: Part) -> None:
        """Begin to time a model of the current point."""
        if part == "dense":
            self._started = pausable_clock.now()
        else:
            self._dense_seconds = self.elapsed
        self._part, self._part_left = part, None
        self._send("warm-up")

    def expect(self, seconds: float, text: str) -> None:
        """Take the remaining seconds of the current model, and send them with the current work."""
        self._part_left = seconds
        self._send(text)

    def check(self) -> None:
        """Raise Cancelled after a cancellation."""
        self._reporter.check()

    def finish(self) -> None:
        """Count the current point as timed."""
        self._finished.append(Finished(self._point, self.elapsed, self._dense_seconds))
        self._done = float(len(self._finished))
        if self._done == len(self._points):
            self._emit(Progress(job_id=self._job_id, done=self._done, total=self._done, unit="points", eta_seconds=0.0))

    def _send(self, text: str) -> None:
        point, total = self._point, len(self._points)
        label = f"{point.label}: {self._part}, {text}"
        here = self._point_left()
        if here is not None:
            share = self.elapsed / (self.elapsed + here) if here > 0.0 else 1.0
            self._done = max(self._done, len(self._finished) + min(share, 0.999))
        self._emit(
            Progress(
                job_id=self._job_id,
                done=self._done,
                total=total,
                unit="points",
                eta_seconds=self._left(here),
                metric=label,
            )
        )

    def _left(self, here: float | None) -> float | None:
        """Return the seconds of the current point, of which `here` are left, and of all later ones."""
        if here is None:
            return None
        known = [*self._finished, Finished(self._point, self.elapsed + here, 0.0)]
        later = [expected_seconds(point, known) or 0.0 for point in self._points[len(known) :]]
        return here + sum(later)

    def _point_left(self) -> float | None:
        """Return the remaining seconds of the current point; None while nothing is known."""
        if self._part == "gated" and self._part_left is not None:
            return self._part_left
        if self._part == "dense" and self._part_left is not None:
            dense = self.elapsed + self._part_left
            return self._part_left + expected_rest(dense, self._point, self._finished)
        if self._part == "gated":
            rest = expected_rest(self._dense_seconds, self._point, self._finished)
            return max(0.0, rest - (self.elapsed - self._dense_seconds))
        return expected_seconds(self._point, self._finished)
