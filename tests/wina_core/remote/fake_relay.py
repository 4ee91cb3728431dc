"""The place of an engine's process of a Ray cluster: `fake_relay.py FOLDER BEHAVIOUR ...`, one for each start in turn.

`computes` is an engine that computes nothing, `waits` never is ready, `lost` is lost with its node at its first job,
and `unfit` starts on no node.
"""

import sys
import time
from pathlib import Path

import fake_remote_engine  # beside this file

from wina_core.remote.ray_cluster import LOST


def behave(behaviour: str) -> None:
    match behaviour:
        case "unfit":
            sys.exit("No node of the Ray cluster can start an engine. There is no torch.")
        case "lost":
            fake_remote_engine.say_ready()
            sys.stdin.readline()
            sys.exit(LOST)
        case "computes":
            fake_remote_engine.main(0.0)
    time.sleep(600)


def main(folder: Path, behaviours: list[str]) -> None:
    for place, behaviour in enumerate(behaviours):
        try:
            (folder / str(place)).touch(exist_ok=False)
        except FileExistsError:
            continue
        behave(behaviour)
    behave("waits")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
