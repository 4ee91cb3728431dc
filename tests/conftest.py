"""For all tests: one thread each, since several processes share the cores; hypothesis draws the same examples in every
run, and no example fails for taking long."""

import os

from hypothesis import settings

os.environ.setdefault("OMP_NUM_THREADS", "1")  # torch reads it when it is imported
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")
