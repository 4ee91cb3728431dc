"""Check the bundle in `dist`: command line, server, and the window on a virtual screen, without a network.

    python packaging/bundle/check.py

The window needs Xvfb on Linux.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1])]
from installed import check_commands, check_server, check_window  # noqa: E402 - in the folder above

FOLDER = Path(__file__).resolve().parents[2] / "dist" / "wina-workbench"
_SUFFIX = ".exe" if os.name == "nt" else ""


def main() -> int:
    """Run all checks in a temporary folder, print the first failure, and return the exit status."""
    if not FOLDER.is_dir():
        print(f"There is no bundle in {FOLDER}; run packaging/bundle/build.py first.", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="wina-bundle-", ignore_cleanup_errors=True) as folder:
        try:
            with screen() as variables:
                check_window(FOLDER / f"wina-workbench{_SUFFIX}", Path(folder), variables)
            check_commands(FOLDER / f"wina{_SUFFIX}", Path(folder))
            check_server(FOLDER / f"wina{_SUFFIX}", Path(folder))
        except RuntimeError as error:
            print(error, file=sys.stderr)
            return 1
    print("The bundle works.")
    return 0


@contextmanager
def screen() -> Iterator[dict[str, str]]:
    """Yield the variables of a virtual screen on Linux; none elsewhere. Raises RuntimeError without Xvfb."""
    if sys.platform != "linux":
        yield {}
        return
    if shutil.which("Xvfb") is None:
        raise RuntimeError("Xvfb is not installed; install it with the system's packages.")
    # Xvfb chooses a free display, and writes its number into the pipe once clients can connect.
    reading, writing = os.pipe()
    command = ["Xvfb", "-displayfd", str(writing), "-screen", "0", "1600x1000x24", "-nolisten", "tcp"]
    server = subprocess.Popen(command, pass_fds=[writing], stderr=subprocess.DEVNULL)
    # Xvfb has the only writing end now, so that reading ends if it fails to start.
    os.close(writing)
    try:
        with os.fdopen(reading) as answer:
            yield {"DISPLAY": f":{answer.readline().strip()}", "QT_QPA_PLATFORM": "xcb"}
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    sys.exit(main())
