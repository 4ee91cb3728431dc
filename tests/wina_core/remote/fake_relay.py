"""The place of an engine's process of a Ray cluster: `fake_relay.py FOLDER BEHAVIOUR ...`, one for each start in turn.

`computes` is an engine that computes nothing, `waits` never is ready, `lost` is lost with its node at its first job,
and `unfit` starts on no node.
"""

import os
import sys
import time
from pathlib import Path

import sleeping_engine  # beside this file

from wina_core.jobs import Ready
from wina_core.records import Environment
from wina_core.remote.ray_cluster import LOST


def behave(behaviour: str) -> None:
    if behaviour == "unfit":
        sys.exit("No living node of the Ray cluster can start an engine. There is no torch.")
    if behaviour == "waits":
        time.sleep(600)
    if behaviour == "lost":
        environment = Environment(device="cpu", hardware="a node", versions={})
        sleeping_engine.say(Ready(pid=os.getpid(), environment=environment))
        sys.stdin.readline()
        sys.exit(LOST)
    sleeping_engine.main(0.0)


def main(folder: Path, behaviours: list[str]) -> None:
    for place, behaviour in enumerate(behaviours):
        try:
            (folder / str(place)).touch(exist_ok=False)
        except FileExistsError:
            continue
        behave(behaviour)
        return
    behave("waits")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
