"""What the guide says, done as it says: the first result in the time that it promises, then the pages.

`WINA_LONG_TESTS=1 pytest -s tests/end_to_end/test_guide.py` prints what each step took. By day test_first_use.py goes
through the window, and wina_app/window/test_guide.py reads the guide."""

from collections.abc import Callable, Iterator

import pytest
from wina_app.application import Application

from tests.end_to_end.devices import Devices
from tests.end_to_end.guide import Chapter, FirstResult, Pages
from tests.end_to_end.hands import Seen, carry_out


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_the_guide_says_what_there_is(open_window: Callable[..., Application], devices: Devices, qtbot) -> None:
    application = open_window()
    first = FirstResult(application, devices, Chapter("first-result.md"))

    def script() -> Iterator[Seen]:
        yield from first.by_mouse()
        yield from first.keys_of_the_table()
        yield from first.shape_the_plan()
        yield from Pages(application, devices, Chapter("pages.md")).script()

    carry_out(qtbot, script(), devices)
