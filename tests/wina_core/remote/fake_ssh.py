"""A stand-in for ssh, which the test starts by that name: `ssh ... -- HOST COMMAND`.

Each connection takes the next line of $FAKE_SSH_LIMITS/HOST and lasts where there is none. The line has the bytes
towards the machine and back after which the connection is cut; "down" refuses it.
"""

import fcntl
import os
import subprocess
import sys
import threading


def take_limits() -> str:
    file = os.path.join(os.environ.get("FAKE_SSH_LIMITS", ""), sys.argv[-2])
    if not os.path.isfile(file):
        return ""
    with open(file, "r+") as lines:
        fcntl.flock(lines, fcntl.LOCK_EX)
        first, _, rest = lines.read().partition("\n")
        lines.seek(0)
        lines.truncate()
        lines.write(rest)
    return first


def cut() -> None:
    os.write(2, b"Connection reset by peer\n")
    os._exit(255)  # both pipes to the command close with this process


def pump(source: int, target: int, limit: float) -> None:
    while block := os.read(source, 1 << 16):
        limit -= len(block)
        if limit < 0:
            block = block[: int(limit)]
        while block:
            try:
                block = block[os.write(target, block) :]
            except OSError:
                return
        if limit < 0:
            cut()


limits = take_limits()
if limits == "down":
    os.write(2, b"ssh: connect to host away port 22: Connection refused\n")
    os._exit(255)
there, back = map(float, limits.split()) if limits else (float("inf"), float("inf"))
command = subprocess.Popen(["/bin/sh", "-c", sys.argv[-1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def send() -> None:
    pump(0, command.stdin.fileno(), there)
    command.stdin.close()


threading.Thread(target=send, daemon=True).start()
pump(command.stdout.fileno(), 1, back)
command.stdout.close()  # so that it cannot wait for a reader
os._exit(command.wait())
