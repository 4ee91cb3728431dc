"""Selected runs of the Results page: one list that its table and all its plots share."""

from collections.abc import Collection, Sequence

from PySide6.QtCore import QObject, Signal


class RunSelection(QObject):
    """Hashes of runs in the order in which they were selected; the first one is what the others are compared with.

    Whoever shows the selection may answer `changed` by selecting the same runs again: that changes nothing, so nothing
    is emitted and no signal goes round in a circle.
    """

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._runs: tuple[str, ...] = ()

    @property
    def runs(self) -> tuple[str, ...]:
        """The selected runs, the reference first."""
        return self._runs

    def select(self, runs: Sequence[str]) -> None:
        """Select these runs; those that were selected before keep their places."""
        wanted = dict.fromkeys(runs)
        kept = [run for run in self._runs if run in wanted]
        self._set((*kept, *(run for run in wanted if run not in self._runs)))

    def toggle(self, runs: Sequence[str]) -> None:
        """Add these runs, or take them away where all of them are selected."""
        if set(runs) <= set(self._runs):
            self._set(tuple(run for run in self._runs if run not in runs))
        else:
            self.select((*self._runs, *runs))

    def make_reference(self, run: str) -> None:
        """Compare the others with this one of the selected runs."""
        if run in self._runs:
            self._set((run, *(other for other in self._runs if other != run)))

    def retain(self, known: Collection[str]) -> None:
        """Forget the runs that are not among these."""
        self._set(tuple(run for run in self._runs if run in known))

    def _set(self, runs: tuple[str, ...]) -> None:
        if runs != self._runs:
            self._runs = runs
            self.changed.emit()
