"""Views of the pages, kept between starts: forms, selections, columns, splitters."""

import logging
from collections.abc import Mapping

from pydantic_core import to_jsonable_python

from wina_app.services.settings import Settings
from wina_app.widgets.base_page import Page

_log = logging.getLogger(__name__)


class ViewStates:
    """Reader and writer of the entry `views` of the settings."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def restore(self, page: Page) -> None:
        """Restore the view of a page, if there is one and the user wants the last session back."""
        state = self._settings.views.get(page.key)
        if state and self._settings.preferences.reopen:
            try:
                page.restore_view(state)
            except Exception:  # a page must open, whatever an older version has stored
                _log.exception("The last view of the page %s was not restored.", page.key)

    def collected(self, pages: Mapping[str, Page]) -> dict[str, dict[str, object]]:
        """Return the views to store; a page that has not been made keeps its stored one."""
        views = dict(self._settings.views)
        for key, page in pages.items():
            try:
                views[key] = to_jsonable_python(page.view_state())
            except Exception:  # the window must close
                _log.exception("The view of the page %s was not stored.", key)
        return views
