"""`python -m wina_core.engine.host ENGINES`: the job host, on the standard streams of the program that starts it."""

import logging
import os
import signal
import sys
from functools import partial

from wina_core.engine.client.pool import open_engines
from wina_core.engine.host.host import Host
from wina_core.jobs.streams import take_standard_streams
from wina_core.remote.cluster.places import open_place


def main() -> int:
    """Serve until the host is to end; SIGTERM interrupts its jobs."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in the window's terminal is the window's to handle
    if sys.platform != "win32":
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # it is meant to outlive terminals
    requests, events = take_standard_streams()
    host = Host(partial(open_engines, engines=int(sys.argv[1]), light=True, machines=open_place))
    signal.signal(signal.SIGTERM, lambda *_: host.interrupt())
    host.serve(requests, events)
    return 0


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    os._exit(code)  # at once: a thread that still reads must not keep the process alive
