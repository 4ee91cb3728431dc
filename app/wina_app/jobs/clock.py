"""Clock of jobs, which does not jump when the system's clock is set."""

import time

_START = time.time() - time.monotonic()


def now() -> float:
    """Return the seconds since 1970, as the system's clock had them when this program started."""
    return _START + time.monotonic()
