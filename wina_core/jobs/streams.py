"""Standard streams of a process that speaks the protocol."""

import os
import sys
from typing import BinaryIO


def take_standard_streams() -> tuple[BinaryIO, BinaryIO]:
    """Return private copies of stdin and stdout, and point the public ones at nothing and at stderr.

    No library's stray print, not even one from C, then gets on the wire, and none that asks a question eats a request.
    """
    requests = os.fdopen(os.dup(0), "rb")
    wire = os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    sys.stdout.flush()  # what imports have printed goes to stderr, too
    return requests, wire
