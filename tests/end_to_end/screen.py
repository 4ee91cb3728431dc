"""A virtual screen with a window manager, where the programs for it are installed."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

PROGRAMS = ("Xvfb", "openbox", "xdotool", "wmctrl")
MISSING = [program for program in PROGRAMS if shutil.which(program) is None]
ON_SCREEN = not MISSING and sys.platform.startswith("linux")
"""Whether a virtual screen can be had."""
ON_DISPLAY = "WINA_TEST_DISPLAY" in os.environ
LONG = "WINA_LONG_TESTS" in os.environ


@contextmanager
def display(log: Path, scale: float = 1) -> Iterator[str]:
    """The name of an X display of its own, with a window manager on it; its pixels are as many more as a window's."""
    size = f"{round(1600 * scale)}x{round(1000 * scale)}x24"
    with ExitStack() as stack:
        output = stack.enter_context(log.open("wb"))
        reading, writing = os.pipe()
        server = subprocess.Popen(
            ["Xvfb", "-displayfd", str(writing), "-screen", "0", size, "-nolisten", "tcp", "-noreset"],
            pass_fds=[writing], stdout=output, stderr=output,
        )  # fmt: skip
        stack.callback(_end, server)
        os.close(writing)
        with os.fdopen(reading) as told:
            name = f":{told.readline().strip()}"
        environment = os.environ | {"DISPLAY": name}
        _wait_for(["xdotool", "getdisplaygeometry"], environment, log)
        stack.callback(_end, subprocess.Popen(["openbox"], env=environment, stdout=output, stderr=output))
        _wait_for(["wmctrl", "-m"], environment, log)
        yield name


def _wait_for(question: list[str], environment: dict[str, str], log: Path) -> None:
    for _ in range(2400):
        if subprocess.run(question, env=environment, capture_output=True).returncode == 0:
            return
        time.sleep(0.05)
    raise RuntimeError(
        f"{question} is not answered on display {environment['DISPLAY']}: {log.read_text(errors='replace')}"
    )


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    process.wait(timeout=120)
