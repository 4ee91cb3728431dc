"""The engine process: newline-delimited JSON requests on stdin, events on stdout, the log on stderr."""

import os
import sys
import traceback

from wina_core.engine.server.server import serve
from wina_core.errors import unforeseen

if __name__ == "__main__":
    try:
        code = serve()
    except Exception as error:  # before the first job, such as a library that cannot be loaded
        traceback.print_exc()
        print(unforeseen(error), file=sys.stderr)  # the last line, which the client reports
        code = 1
    sys.stderr.flush()
    os._exit(code)  # at once: a library's leftover threads must not keep the process alive
