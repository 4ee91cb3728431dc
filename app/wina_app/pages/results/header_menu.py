"""Menu of a column's heading: sort, pin, hide, fit."""

from typing import TYPE_CHECKING

from PySide6.QtWidgets import QMenu

from wina_app.pages.results.grouping import SortKey
from wina_app.style.translation import tr

if TYPE_CHECKING:
    from wina_app.pages.results.table_view import ResultsTableView


def header_menu(view: "ResultsTableView", section: int) -> QMenu:
    """Return the menu of a column; its actions change the view's table and emit the view's signals."""
    table, key = view.model(), view.model().columns[section].key
    sorted_by = [each.column for each in table.keys]
    menu = QMenu(view)
    menu.addAction(tr("Sort ascending"), lambda: table.sort_by((SortKey(key),)))
    menu.addAction(tr("Sort descending"), lambda: table.sort_by((SortKey(key, True),)))
    if set(sorted_by) - {key}:
        menu.addSeparator()
        menu.addAction(tr("Then by this, ascending"), lambda: table.sort_further(section, False))
        menu.addAction(tr("Then by this, descending"), lambda: table.sort_further(section, True))
    if key in sorted_by:
        menu.addAction(tr("Remove from sort"), lambda: table.unsort(section))
    if sorted_by:
        menu.addAction(tr("Clear the sort"), lambda: table.sort_by(()))
    menu.addSeparator()
    pinned = key in view.pinned
    text = tr("Unpin the column") if pinned else tr("Pin the column at the left")
    menu.addAction(text, lambda: view.column_pinned.emit(key, not pinned))
    menu.addAction(tr("Hide the column"), lambda: view.column_hidden.emit(key))
    menu.addAction(tr("Fit the width to the content"), lambda: view.resizeColumnToContents(section))
    menu.addSeparator()
    menu.addAction(tr("Choose the columns…"), view.columns_requested.emit)
    return menu
