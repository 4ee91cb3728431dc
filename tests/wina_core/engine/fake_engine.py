"""An engine that misbehaves as told: `fake_engine.py BEHAVIOUR`. Jobs are named after what becomes of them.

A job whose id begins with "die" ends the process with code 3, "hang" never ends, "hold" waits to be paused and then
holds until it is resumed, cancelled, or told to shut down; anything else is done at once.
"""

import json
import os
import signal
import sys
import time

READY = {"type": "ready", "pid": 0, "environment": {"device": "fake", "hardware": "none", "versions": {}}}


def say(**event: object) -> None:
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


def held(job_id: str) -> bool:
    """Hold as asked; False when the engine is to shut down."""
    for line in sys.stdin:
        request = json.loads(line)["type"]
        if request == "shutdown":
            return False
        if request in ("pause", "resume"):
            say(type="held", job_id=job_id, held=request == "pause")
        if request in ("resume", "cancel"):
            break
    return True


def main(behaviour: str) -> None:
    print("the log begins", file=sys.stderr, flush=True)
    if behaviour == "stillborn":
        print("no module named torch", file=sys.stderr, flush=True)
        sys.exit(1)
    if behaviour == "shot":
        os.kill(os.getpid(), signal.SIGKILL)
    if behaviour == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    say(**READY)
    if behaviour == "babbling":
        sys.stdout.write("this is no event\n")
    if behaviour == "babbling at length":
        sys.stdout.write("x" * 20_000 + "\n")
    if behaviour == "fainting":
        sys.exit(4)
    for line in sys.stdin:
        request = json.loads(line)
        job_id = request.get("job_id", "")
        if request["type"] == "submit":
            say(type="started", job_id=job_id)
            say(type="run_started", job_id=job_id, run="0123")
            if job_id.startswith("die"):
                time.sleep(0.3)  # so that its events are read before its log
                print("about to die", file=sys.stderr, flush=True)
                sys.exit(3)
            if job_id.startswith("hang"):
                time.sleep(600)
            if job_id.startswith("hold") and not held(job_id):
                return
            say(type="run_finished", job_id=job_id, run="0123")
            say(type="done", job_id=job_id)
        elif request["type"] == "shutdown" and behaviour != "stubborn":
            return


if __name__ == "__main__":
    main(sys.argv[1])
