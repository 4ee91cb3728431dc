"""For all tests: hypothesis draws the same examples in every run, and no example fails for taking long."""

from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")
