"""For tests of the Latency page in the window: making all other pages takes most of a test's time."""

import pytest


@pytest.fixture(autouse=True)
def no_other_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wina_app.application.PAGES", ("model", "latency"))
