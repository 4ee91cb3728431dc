"""Start of a confined process: it reads its request, gives up its rights and takes its role.

The request is JSON on standard input. Standard output carries one byte at the start and then the judge's verdict, a
line of JSON with the request's token. The candidate closes it before the program starts, so no program can write to it.
"""

import json
import os
import resource
import sys
from importlib import import_module

from .values import Channel


def main() -> None:
    """Answer the request; the exit status has no meaning."""
    os.write(1, b"+")
    request = json.load(sys.stdin.buffer)
    run = import_module(f".{request['role']}", __package__).run
    sys.dont_write_bytecode = True  # from here on there is no right to
    text, token = request["text"], request["token"]
    channel = Channel(*map(os.dup, request["pipe"]))
    report = os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    # The standard streams lead nowhere, so that the program cannot write a verdict.
    for descriptor in range(3):
        os.dup2(null, descriptor)
    for descriptor in (null, *request["pipe"]):
        os.close(descriptor)
    _limit(**request["limits"])
    sys.path += request["packages"]
    if request["role"] == "candidate":
        os.close(report)
        run(text, channel)
    else:
        run(text, channel, lambda outcome: _report(report, token, outcome=outcome))


def _limit(seconds: int, memory: int) -> None:
    """Set resource limits: processor time, bytes of address space; no file grows, and no memory is dumped."""
    for resource_kind, most in {
        resource.RLIMIT_CPU: (seconds, seconds + 1),  # SIGXCPU, and SIGKILL if it is ignored
        resource.RLIMIT_AS: (memory, memory),
        resource.RLIMIT_FSIZE: (0, 0),
        resource.RLIMIT_NOFILE: (64, 64),
        resource.RLIMIT_CORE: (0, 0),
    }.items():
        resource.setrlimit(resource_kind, most)


def _report(descriptor: int, token: str, **said: str) -> None:
    os.write(descriptor, json.dumps({"token": token, **said}).encode())
    os._exit(0)
