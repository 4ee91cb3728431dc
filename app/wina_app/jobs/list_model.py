"""The jobs as Qt's views show them: a row each, of which those that wait can be dragged."""

from collections.abc import Sequence
from itertools import groupby

from PySide6.QtCore import (
    QAbstractListModel,
    QByteArray,
    QMimeData,
    QModelIndex,
    QPersistentModelIndex,
    Qt,
    QTimer,
    Signal,
)

from wina_app.jobs.job_entry import JobEntry
from wina_app.jobs.job_list import JobList
from wina_app.jobs.texts import WORDS, progress_text, remark
from wina_app.widgets.plain_text import plain_tip

ENTRY = Qt.ItemDataRole.UserRole
_MIME = "application/x-wina-job"
_Index = QModelIndex | QPersistentModelIndex
_TOP = QModelIndex()


class JobRows(QAbstractListModel):
    """Follows a JobList: at once where a job changes, and once for all that is queued in one go."""

    dropped = Signal(str, object)
    """A job's id, and that of the one that it is to go before; None for the end."""

    def __init__(self, jobs: JobList) -> None:
        super().__init__()
        self._jobs = jobs
        self._entries = jobs.ordered
        self._rows: dict[str, int] = {}
        self._soon = QTimer(self)
        self._soon.setSingleShot(True)
        self._soon.timeout.connect(self.arrange)
        jobs.arranged.connect(self._soon.start)
        jobs.changed.connect(self._change)
        self._number()

    def entry(self, row: int) -> JobEntry:
        """The job in a row."""
        return self._entries[row]

    def row(self, job_id: str) -> int:
        """Where a job is; -1 where it is not."""
        return self._rows.get(job_id, -1)

    def arrange(self) -> None:
        """Show the jobs that there are, in their order."""
        self._soon.stop()
        new = self._jobs.ordered
        kept = {entry.id for entry in new}
        for first, last in reversed(_stretches([entry.id not in kept for entry in self._entries])):
            self.beginRemoveRows(_TOP, first, last)
            del self._entries[first : last + 1]
            self.endRemoveRows()
        added = [entry for entry in new if entry.id not in self._rows]
        if added:
            self.beginInsertRows(_TOP, len(self._entries), len(self._entries) + len(added) - 1)
            self._entries += added
            self.endInsertRows()
        if [entry.id for entry in new] != [entry.id for entry in self._entries]:
            self._reorder(new)
        self._entries = new
        self._number()

    def _reorder(self, new: list[JobEntry]) -> None:
        self.layoutAboutToBeChanged.emit()
        before = self.persistentIndexList()
        ids = [self._entries[index.row()].id for index in before]
        self._entries = new
        self._number()
        self.changePersistentIndexList(before, [self.index(self._rows[job_id]) for job_id in ids])
        self.layoutChanged.emit()

    def _number(self) -> None:
        self._rows = {entry.id: row for row, entry in enumerate(self._entries)}

    def _change(self, job_id: str) -> None:
        row = self.row(job_id)
        if row >= 0:
            self._entries[row] = self._jobs[job_id]  # another one where it is done again
            self.dataChanged.emit(self.index(row), self.index(row))

    # ---- for the views -------------------------------------------------------------------------------------------

    def rowCount(self, parent: _Index = _TOP) -> int:
        """The number of jobs."""
        return 0 if parent.isValid() else len(self._entries)

    def data(self, index: _Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        """The entry, and what is said of it."""
        entry = self._entries[index.row()]
        match role:
            case Qt.ItemDataRole.DisplayRole:
                return entry.title
            case Qt.ItemDataRole.ToolTipRole:
                return plain_tip("\n".join(filter(None, (entry.title, remark(entry), progress_text(entry)))))
            case Qt.ItemDataRole.AccessibleTextRole:
                said = (WORDS[entry.state], progress_text(entry), remark(entry))
                return f"{entry.title}: {', '.join(filter(None, said))}"
            case _ if role == ENTRY:
                return entry
        return None

    def flags(self, index: _Index) -> Qt.ItemFlag:
        """Only what waits can be dragged; between the rows, anything can be dropped."""
        if not index.isValid():
            return Qt.ItemFlag.ItemIsDropEnabled
        flags = Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable | Qt.ItemFlag.ItemNeverHasChildren
        return flags | Qt.ItemFlag.ItemIsDragEnabled if self._entries[index.row()].waiting else flags

    def supportedDropActions(self) -> Qt.DropAction:
        """Jobs are moved."""
        return Qt.DropAction.MoveAction

    def mimeTypes(self) -> list[str]:
        """Of what is dragged."""
        return [_MIME]

    def mimeData(self, indexes: Sequence[QModelIndex]) -> QMimeData:
        """The ids of the jobs that are dragged, in their order."""
        data = QMimeData()
        ids = [self._entries[row].id for row in sorted(index.row() for index in indexes)]
        data.setData(_MIME, QByteArray(" ".join(ids).encode()))
        return data

    def dropMimeData(self, data: QMimeData, _action: Qt.DropAction, row: int, _column: int, _parent: _Index) -> bool:
        """Asks for the move; the rows follow once it is made. False, since there is nothing for the view to remove."""
        ids = bytes(data.data(_MIME).data()).decode().split()
        behind = self._entries[row:] if row >= 0 else []
        before = next((entry.id for entry in behind if entry.waiting and entry.id not in ids), None)
        for job_id in ids:
            self.dropped.emit(job_id, before)
        return False


def _stretches(marked: Sequence[bool]) -> list[tuple[int, int]]:
    """First and last place of each unbroken stretch of marks: rows that go together cost the views as much as one."""
    found = []
    for mark, stretch in groupby(enumerate(marked), key=lambda place: place[1]):
        places = [place for place, _ in stretch]
        if mark:
            found.append((places[0], places[-1]))
    return found
