"""The tests on a machine that is slowed on purpose: beside two busy loops, all at the lowest priority.

    python -m tests.slowed [arguments of pytest]

A test that passes only on a fast or an idle machine fails here. Without arguments all tests run, as by start.py.
"""

import os
import subprocess
import sys
from collections.abc import Sequence

LOOPS = 2
BUSY = "import os; parent = os.getppid()\nwhile os.getppid() == parent: pass"
ALL = ("-n", "3", "--dist", "worksteal")


def main(arguments: Sequence[str]) -> int:
    """Run pytest and return its exit code."""
    if hasattr(os, "nice"):
        os.nice(19)
    loops = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(LOOPS)]
    try:
        return subprocess.run([sys.executable, "-m", "pytest", *(arguments or ALL)]).returncode
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
