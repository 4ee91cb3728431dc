"""Nothing is cut off and nothing lies over something else, in a small window, at 150 % text size, beside open docks."""

from itertools import islice

import pytest
from PySide6.QtWidgets import QWidget
from wina_app.services.settings import Preferences

from tests.wina_app.layout_checks import clipped_texts, overlaps
from tests.wina_app.tour import every_dialog, every_page, every_side, furnish, settle

pytestmark = pytest.mark.all_pages

SIZES = (100, 150)
_LOOKS = 3


def _faults(root: QWidget, where: str) -> list[str]:
    """Those that stay: an answer of the store's thread may have come right before, and not be laid out yet."""
    for _ in range(_LOOKS):
        found = [f"{where}: {fault}" for fault in (*clipped_texts(root), *overlaps(root))]
        if not found:
            break
        settle()
    return found


def test_no_text_is_cut_off_on_any_page_at_150_percent(application):
    """Where there is least room; the next test looks everywhere."""
    window = application.window
    try:
        window.apply_preferences(Preferences(text_size=SIZES[-1]))
        furnish(application)
        next(every_side(window))
        faults = [fault for page in every_page(window) for fault in _faults(window, page)]
    finally:
        window.apply_preferences(Preferences())
    assert not faults, "\n".join(faults)


@pytest.mark.nightly
def test_no_text_is_cut_off_on_any_page_or_dialog_at_any_text_size(application):
    window, faults = application.window, []
    try:
        for size in SIZES:
            window.apply_preferences(Preferences(text_size=size))
            for page in every_page(window):
                faults += _faults(window, f"{page}, empty, at {size} %")
        furnish(application)
        for size in SIZES[::-1]:
            window.apply_preferences(Preferences(text_size=size))
            for side in islice(every_side(window), 3 if size == SIZES[-1] else 1):
                for page in every_page(window):
                    faults += _faults(window, f"{page}, {side}, at {size} %")
        assert (window.width(), window.height()) == (1280, 720)
        for size in SIZES:
            window.apply_preferences(Preferences(text_size=size))
            for dialog in every_dialog(application):
                faults += _faults(dialog, f"{type(dialog).__name__} at {size} %")
    finally:
        window.apply_preferences(Preferences())
    assert not faults, "\n".join(faults)
