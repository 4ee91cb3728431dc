"""The Ray clusters on the Machines page."""

from PySide6.QtWidgets import QAbstractItemView, QTableWidget, QTableWidgetItem, QWidget

from wina_app.services.machines import Machines
from wina_app.style.theme import GRID
from wina_app.style.translation import tr
from wina_app.widgets.boxes import STRETCH, hbox, vbox
from wina_app.widgets.controls import explain_disabled, labelled, push_button
from wina_app.window.machines.ray_dialog import RayDialog
from wina_core.specs.machine import RayCluster


class RayClusters(QWidget):
    """Table of the clusters, which are added, edited and removed."""

    def __init__(self, machines: Machines) -> None:
        super().__init__()
        self._machines = machines
        self._clusters: list[RayCluster] = []
        self.table = QTableWidget(0, 2)
        self.table.setHorizontalHeaderLabels([tr("Name"), tr("Address")])
        self.table.horizontalHeader().setStretchLastSection(True)
        self.table.horizontalHeader().resizeSection(0, GRID * 24)
        self.table.verticalHeader().hide()
        self.table.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.table.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.table.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.table.setTabKeyNavigation(False)
        self.table.setFixedHeight(GRID * 14)
        self.table.itemSelectionChanged.connect(self._show_buttons)
        self.table.cellDoubleClicked.connect(self._edit)
        self.add = push_button(tr("Add…"), lambda: self._ask(None), name=tr("Add a Ray cluster"))
        self.edit = push_button(tr("Edit…"), self._edit, name=tr("Edit the Ray cluster"))
        self.remove = push_button(tr("Remove"), self._remove, name=tr("Remove the Ray cluster"))
        buttons = vbox(None, self.add, self.edit, self.remove, STRETCH)
        row = QWidget()
        hbox(row, (self.table, 1), buttons)
        self.table.setAccessibleName(tr("Ray clusters"))
        vbox(self, labelled(tr("Ray clusters"), row))
        machines.changed.connect(self._show)
        self._show()

    def _show(self) -> None:
        clusters = self._machines.clusters
        if clusters != self._clusters:
            chosen, self._clusters = self._chosen(), clusters
            self.table.clearSelection()
            self.table.setRowCount(len(clusters))
            for row, cluster in enumerate(clusters):
                for column, text in enumerate((cluster.name, cluster.address)):
                    self.table.setItem(row, column, QTableWidgetItem(text))
                if chosen is not None and cluster.name == chosen.name:
                    self.table.selectRow(row)
        self._show_buttons()

    def _show_buttons(self) -> None:
        for button in (self.edit, self.remove):
            explain_disabled(button, enabled=self._chosen() is not None, reason=tr("Select a cluster"))

    def _chosen(self) -> RayCluster | None:
        rows = {item.row() for item in self.table.selectedItems()}
        return self._clusters[min(rows)] if rows else None

    def _edit(self) -> None:
        self._ask(self._chosen())

    def _ask(self, cluster: RayCluster | None) -> None:
        """Ask for a cluster, a new one or in the place of this one, and store it."""
        name = "" if cluster is None else cluster.name
        dialog = RayDialog(cluster, self._machines.entries.keys() - {name}, self)
        if dialog.exec() and dialog.cluster is not None:
            self._machines.save(dialog.cluster, name)
        dialog.deleteLater()

    def _remove(self) -> None:
        if (cluster := self._chosen()) is not None:
            self._machines.remove(cluster.name)
