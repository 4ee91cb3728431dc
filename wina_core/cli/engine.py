"""The engine process, for a client at the other end of its standard streams."""

import os
import sys


def engine() -> None:
    """Take jobs as JSON lines on stdin and send events on stdout, as the window's engine does; made for ssh."""
    from wina_core.engine.server.server import serve

    code = serve()
    sys.stderr.flush()
    os._exit(code)  # at once: a library's leftover threads must not keep the process alive
