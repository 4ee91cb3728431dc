"""For the window's frame: pages are made when they are shown, unless all are needed."""

import pytest


@pytest.fixture(autouse=True)
def first_page_alone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make other pages when they are shown: all take most of a second. The marker `all_pages` has them at the start."""
    if request.node.get_closest_marker("all_pages") is None:
        monkeypatch.setattr("wina_app.application.PAGES", ("model",))
