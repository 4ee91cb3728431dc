"""Table of the rotations that were compared, with the KL divergence of each."""

from collections.abc import Iterable
from typing import NamedTuple

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QHeaderView, QWidget

from wina_app.style.theme import GRID
from wina_app.style.translation import tr
from wina_app.widgets.boxes import vbox
from wina_app.widgets.controls import text_label
from wina_app.widgets.table_model import Column, RowTable, TableEntry
from wina_app.widgets.table_view import RowTableView
from wina_core.records import RotationCandidate, RotationChoice


class _CandidateRow(NamedTuple):
    position: int
    candidate: RotationCandidate
    verdict: str


def _change(row: _CandidateRow) -> str:
    return row.candidate.change_text if row.position else ""


def _own_change(row: _CandidateRow) -> str:
    return row.candidate.own_change_text if row.position else ""


def _label(row: _CandidateRow) -> str:
    return row.candidate.name


def _label_tip(row: _CandidateRow) -> str:
    seconds = f"{row.candidate.seconds:.1f}"
    return "\n".join((_label(row), tr("Measured in {seconds} s, without finding its bases", seconds=seconds)))


_COLUMNS = (
    Column("rotation", tr("rotation"), _label, _label, width=14, tip=_label_tip),
    Column("verdict", tr("verdict"), lambda row: row.verdict, lambda row: row.verdict, width=15),
    Column("kl", tr("KL (nats per token)"), lambda row: row.candidate.kl,
           lambda row: f"{row.candidate.kl:.3g} ± {row.candidate.stderr:.2g}", numeric=True, width=16,
           explanation=tr("Of the gated model from the dense one, with its standard error over rows of text")),
    Column("change", tr("change"), lambda row: row.candidate.change, _change, numeric=True, width=17,
           explanation=tr("Mean over rows of the difference from no rotation, with the error of the differences")),
    Column("own_change", tr("change on sampled text"), lambda row: row.candidate.own_change, _own_change, numeric=True,
           width=17, explanation=tr("The same difference on text sampled from the dense model. A basis that fits only "
                                    "the given text is often worse there")),
)  # fmt: skip


class CandidateEntry(TableEntry):
    """A compared rotation."""

    columns = _COLUMNS
    row: _CandidateRow


class CandidatesView(QWidget):
    """The compared rotations, the simplest first."""

    def __init__(self) -> None:
        super().__init__()
        self.table = RowTable(_COLUMNS)
        self.view = RowTableView(tr("Compared rotations"))
        self.view.show_table(self.table)
        self.view.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        header = self.view.horizontalHeader()
        header.setStretchLastSection(False)
        header.setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)  # long names give way to the numbers
        self.conditions = text_label("", "muted", wrap=True)
        vbox(self, (self.view, 1), self.conditions, spacing=GRID)

    def show_choice(self, choice: RotationChoice | None) -> None:
        """Show the candidates of a choice; None clears the table."""
        self.table.set_entries(() if choice is None else _entries(choice))
        self.conditions.setText(
            ""
            if choice is None
            else tr(
                "At {sparsity} %, masks shared by the matrices of an input, top k; on {text}, of which no basis was "
                "computed. A rotation is chosen if it is better than none by more than the error of the "
                "difference{sampled}; of those that differ by less, the simplest one. {seconds} s in all.",
                sampled=tr(", and not worse than none on text sampled from the model") if choice.sampled else "",
                sparsity=f"{100 * choice.sparsity:.4g}",
                text=choice.text,
                seconds=f"{choice.seconds:.0f}",
            )
        )


def _entries(choice: RotationChoice) -> Iterable[CandidateEntry]:
    for position, candidate in enumerate(choice.candidates):
        row = _CandidateRow(position, candidate, _verdict(choice, position))
        yield CandidateEntry((str(position), candidate.rotation.content_hash()), row)


def _verdict(choice: RotationChoice, position: int) -> str:
    """Return the verdict on one candidate in a few words."""
    candidate = choice.candidates[position]
    if position == choice.chosen and not choice.by_hand:
        return tr("chosen")
    if position == 0:
        return ""
    if candidate.change > candidate.change_stderr:
        return tr("worse than none")
    if candidate.harms:
        return tr("worse on samples")
    return tr("better than none") if candidate.change < -candidate.change_stderr else tr("no clear difference")
