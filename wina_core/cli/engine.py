"""`wina engine`: the engine process on standard streams."""

import os
import sys


def engine() -> None:
    """Run an engine: read jobs as JSON lines on stdin, write events to stdout. Made to be started over ssh."""
    from wina_core.engine.server.server import serve

    code = serve()
    sys.stderr.flush()
    os._exit(code)  # leftover threads of libraries must not keep the process alive
