"""Start of a confined process: it reads its request, gives up its rights and takes its role.

The request is JSON on standard input. Standard output carries one line of JSON to the runner: a refusal, or the judge's
verdict with the request's token. The candidate closes it before the program starts, so no program can write to it.
"""

import ctypes
import json
import os
import platform
import sys
from importlib import import_module

from . import rights
from .channel import Channel


def main() -> None:
    """Answer the request; the exit status has no meaning."""
    request = json.load(sys.stdin.buffer)
    run = import_module(f".{request['role']}", __package__).run
    sys.dont_write_bytecode = True  # from here on there is no right to
    text, token = request["text"], request["token"]
    channels = [Channel(os.dup(reads), os.dup(writes)) for reads, writes in request["pipes"]]
    report = os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(null, descriptor)
    for descriptor in (null, *(end for pipe in request["pipes"] for end in pipe)):
        os.close(descriptor)
    try:
        rights.die_with(request["parent"])
        rights.limit(request["limits"])
        rights.confine_files(request["readable"])
        rights.confine_calls(platform.machine())
        rights.check(request["canary"])
    except (OSError, ctypes.ArgumentError, KeyError) as error:
        _report(report, token, outcome="refused", reason=str(error))
    sys.path += request["packages"]
    if request["role"] == "candidate":
        os.close(report)
        run(text, *channels)
    else:
        peer, helping = [*channels, None][:2]
        run(text, peer, helping, request["helpers"], lambda outcome: _report(report, token, outcome=outcome))


def _report(descriptor: int, token: str, **said: str) -> None:
    os.write(descriptor, json.dumps({"token": token, **said}).encode())
    os._exit(0)
