"""The engine process: newline-delimited JSON requests on stdin, events on stdout, the log on stderr."""

import os
import sys

from wina_core.engine.server.server import serve

if __name__ == "__main__":
    code = serve()
    sys.stderr.flush()
    os._exit(code)  # at once: a library's leftover threads must not keep the process alive
