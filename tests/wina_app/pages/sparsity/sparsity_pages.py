"""The Sparsity page by itself, over a store that answers on the calling thread."""

from PySide6.QtGui import QAction
from PySide6.QtWidgets import QApplication
from wina_app.pages.sparsity import connect_plans
from wina_app.pages.sparsity.page import SparsityPage
from wina_app.services.workspace import Workspace
from wina_app.style.theme import apply_theme

from tests.wina_app.stored_runs import DirectStore
from wina_core.store import Store


def open_page(qtbot, qapp: QApplication, store: Store) -> SparsityPage:
    """The page as it is shown without a model; its `workspace` and `access` to the store are beside it."""
    apply_theme(qapp, "light")
    workspace = Workspace()
    access = DirectStore(store)
    shown = SparsityPage()
    shown.controller, shown.library = connect_plans(shown, workspace, access)
    shown.editing, shown.workspace, shown.access = shown.controller.editing, workspace, access
    shown.toolbar.allocation_chosen.connect(lambda _allocator, budget: shown.controller.editing.set_uniform(budget))
    qtbot.addWidget(shown, before_close_func=lambda _: workspace.stop())
    shown.resize(1208, 560)
    with qtbot.waitActive(shown):
        shown.show()
    return shown


def command(page: SparsityPage, text: str) -> QAction:
    """The page's command whose text begins so."""
    return next(action for action in page.commands if action.text().startswith(text))
