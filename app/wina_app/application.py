"""Puts the window together: pages, their controllers, and what connects them."""

import logging
from logging.handlers import RotatingFileHandler
from typing import Any

from PySide6.QtCore import QObject
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QApplication

from wina_app.controllers.model_controller import ModelController
from wina_app.engine_thread import EngineThread
from wina_app.main_window import MainWindow
from wina_app.settings import Settings
from wina_app.store_thread import StoreThread
from wina_app.theme import apply_theme
from wina_app.views.log_dock import LogHandler, LogView
from wina_app.views.model_page import ModelPage
from wina_app.workbench import Workbench
from wina_core import paths

_LOG_BYTES = 2 * 2**20


class Application(QObject):
    """One window with everything behind it."""

    def __init__(
        self,
        app: QApplication,
        database: str | None = None,
        settings: Settings | None = None,
        engine: EngineThread | None = None,
    ) -> None:
        super().__init__()
        settings = settings or Settings()
        apply_theme(app, settings.theme)
        self._log_handler = LogHandler()
        self.log = LogView()
        self._log_handler.bridge.record.connect(self.log.add)
        self._file_handler = _file_handler()
        for handler in (self._log_handler, self._file_handler):
            logging.getLogger().addHandler(handler)
        logging.getLogger().setLevel(logging.INFO)
        self._url = database or paths.database_url()
        self.workbench = Workbench(engine or EngineThread(), StoreThread(self._url), settings)
        self.window = MainWindow(self.workbench, self.log)
        self._add_model_page()
        self.window.restore()
        self._page = settings.page
        self.workbench.store.opened.connect(self._on_store_opened)
        self.workbench.store.failed.connect(self.window.show_failure)
        self.window.closed.connect(self._on_closed)

    def start(self, model: str | None = None, page: str | None = None) -> None:
        """Show the window, then open the database and start the engine; open a model and a page if named."""
        self._page = page or self._page
        self.window.show()
        self.workbench.start()
        if model is not None:
            self.model.open(model)

    def _add_model_page(self) -> None:
        view = ModelPage()
        self.model = ModelController(self.workbench, view)
        view.open_requested.connect(self.model.open)
        view.cancel_requested.connect(self.model.cancel)
        view.forget_requested.connect(self.model.forget)
        self.window.add_page(view)
        folder = QAction("&Open model folder…", self.window)
        folder.setShortcut("Ctrl+O")
        folder.triggered.connect(view.choose_folder)
        demo = QAction("Open the &demo model", self.window)
        demo.triggered.connect(lambda: self.model.open("demo"))
        self.window.fill_file_menu(folder, [demo])
        self.window.recent_menu.aboutToShow.connect(self._fill_recent)

    def _fill_recent(self) -> None:
        menu = self.window.recent_menu
        menu.clear()
        for location in self.workbench.settings.recent:
            menu.addAction(location).triggered.connect(lambda _=False, location=location: self.model.open(location))
        if menu.isEmpty():
            menu.addAction("No models opened yet").setEnabled(False)

    def _on_store_opened(self, store: Any) -> None:
        """The other pages read the store, so they come once it is there, just after the first paint."""
        self.window.status.show_database(store.url.database or str(store.url), str(store.url))
        self.window.show_page(self._page)

    def _on_closed(self) -> None:
        for handler in (self._log_handler, self._file_handler):
            logging.getLogger().removeHandler(handler)
            handler.close()
        QApplication.quit()


def _file_handler() -> logging.Handler:
    try:
        handler: logging.Handler = RotatingFileHandler(
            paths.log_folder() / "window.log", maxBytes=_LOG_BYTES, backupCount=1, encoding="utf-8", delay=True
        )
    except OSError:  # a log that cannot be written must not keep the window from opening
        handler = logging.NullHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    return handler
