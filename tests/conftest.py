"""For all tests: one thread each, since several processes share the cores; hypothesis draws the same examples in every
run, and no example fails for taking long. Compiled modules are kept, whatever the environment says: otherwise every
process that a test starts compiles them again."""

import atexit
import gc
import os
import sys

import pytest
from hypothesis import HealthCheck, settings

os.environ.setdefault("OMP_NUM_THREADS", "1")  # torch reads it when it is imported
os.environ["WINA_BF16"] = "yes"  # models are loaded in the data type of their files, whatever the processor
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
gc.disable()  # while the tests are imported
gc.set_threshold(10_000, 10, 1000)  # with torch loaded, a full collection takes most of a second
atexit.register(gc.unfreeze)  # libraries look for leaks when the interpreter ends
settings.register_profile("repeatable", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("repeatable")

_LONG = ("test_first_use.py", "test_engines.py", "test_interpreted.py", "test_kills.py")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what runs at night and what starts servers, and begin with the longest tests.

    No process then waits for one at the end.
    """
    if "WINA_LONG_TESTS" not in os.environ:
        left_out = {name for name in ("nightly", "service") if name not in config.option.markexpr}
        kept = [item for item in items if left_out.isdisjoint(marker.name for marker in item.iter_markers())]
        config.hook.pytest_deselected(items=list(set(items) - set(kept)))
        items[:] = kept
    items.sort(key=lambda item: item.path.name not in _LONG)


def pytest_collection_finish() -> None:
    """Keep what was imported out of garbage collections, which otherwise take most of the time of some tests."""
    gc.freeze()
    gc.enable()
