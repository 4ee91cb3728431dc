"""Qt model of the jobs: one row each; waiting jobs can be dragged."""

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
from wina_app.jobs.texts import progress_text, remark, state_word
from wina_app.widgets.plain_text import plain_tip

ENTRY = Qt.ItemDataRole.UserRole
_MIME = "application/x-wina-job"
_Index = QModelIndex | QPersistentModelIndex
_TOP = QModelIndex()


class JobRows(QAbstractListModel):
    """Rows of a JobList; changes of a job show at once, additions together once the event loop is free."""

    dropped = Signal(str, object)
    """A job's id, and that of the job to place it before; None for the end."""

    def __init__(self, jobs: JobList) -> None:
        super().__init__()
        self._jobs = jobs
        self._entries = jobs.ordered
        self._rows: dict[str, int] = {}
        self._soon = QTimer(self, singleShot=True)
        self._soon.timeout.connect(self.arrange)
        jobs.arranged.connect(self._soon.start)
        jobs.changed.connect(self._change)
        self._number()

    def entry(self, row: int) -> JobEntry:
        """Return the job in a row."""
        return self._entries[row]

    def row(self, job_id: str) -> int:
        """Return the row of a job, -1 if it has none."""
        return self._rows.get(job_id, -1)

    def arrange(self) -> None:
        """Show the listed jobs in their order."""
        self._soon.stop()
        new = self._jobs.ordered
        listed_ids = {entry.id for entry in new}
        for first, last in reversed(_stretches([entry.id not in listed_ids for entry in self._entries])):
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
        """Return the number of jobs."""
        return 0 if parent.isValid() else len(self._entries)

    def data(self, index: _Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        """Return a job's entry or a text about it."""
        entry = self._entries[index.row()]
        match role:
            case Qt.ItemDataRole.DisplayRole:
                return entry.title
            case Qt.ItemDataRole.ToolTipRole:
                return plain_tip("\n".join(filter(None, (entry.title, remark(entry), progress_text(entry)))))
            case Qt.ItemDataRole.AccessibleTextRole:
                texts = (state_word(entry), progress_text(entry), remark(entry))
                return f"{entry.title}: {', '.join(filter(None, texts))}"
            case _ if role == ENTRY:
                return entry
        return None

    def flags(self, index: _Index) -> Qt.ItemFlag:
        """Let waiting jobs be dragged, and dropped between rows."""
        if not index.isValid():
            return Qt.ItemFlag.ItemIsDropEnabled
        flags = Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable | Qt.ItemFlag.ItemNeverHasChildren
        return flags | Qt.ItemFlag.ItemIsDragEnabled if self._entries[index.row()].waiting else flags

    def supportedDropActions(self) -> Qt.DropAction:
        """Allow moves only."""
        return Qt.DropAction.MoveAction

    def mimeTypes(self) -> list[str]:
        """Return the MIME type of dragged jobs."""
        return [_MIME]

    def mimeData(self, indexes: Sequence[QModelIndex]) -> QMimeData:
        """Return the ids of the dragged jobs, in their order."""
        data = QMimeData()
        ids = [self._entries[row].id for row in sorted(index.row() for index in indexes)]
        data.setData(_MIME, QByteArray(" ".join(ids).encode()))
        return data

    def dropMimeData(self, data: QMimeData, _action: Qt.DropAction, row: int, _column: int, _parent: _Index) -> bool:
        """Request the move; the rows follow once the queue has changed. Return False: the view must remove nothing."""
        ids = bytes(data.data(_MIME).data()).decode().split()
        behind = self._entries[row:] if row >= 0 else []
        before = next((entry.id for entry in behind if entry.waiting and entry.id not in ids), None)
        for job_id in ids:
            self.dropped.emit(job_id, before)
        return False


def _stretches(marked: Sequence[bool]) -> list[tuple[int, int]]:
    """Return the first and last place of each run of marks: removing rows together costs the views as much as one."""
    stretches = []
    for mark, stretch in groupby(enumerate(marked), key=lambda numbered: numbered[1]):
        indexes = [index for index, _ in stretch]
        if mark:
            stretches.append((indexes[0], indexes[-1]))
    return stretches
