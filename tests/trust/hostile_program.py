"""A program that speaks for an engine: it says what a file has, and computes nothing.

`hostile_program.py FOLDER ...` writes FOLDER/first, waits for a job and writes FOLDER/then as often as FOLDER/times
says, with the job's id for each JOBID. Then it waits for its end; without FOLDER/stay it ends at once.
"""

import json
import os
import sys

folder = sys.argv[1]


def content(name: str) -> bytes:
    with open(os.path.join(folder, name), "rb") as file:
        return file.read()


def note(name: str) -> None:
    with open(os.path.join(folder, name), "w"):
        pass


def write(data: bytes) -> None:
    while data:
        data = data[os.write(1, data) :]


try:
    write(content("first"))
    note("begun")
    for line in sys.stdin:
        request = json.loads(line)
        if request["type"] == "submit":
            then = content("then").replace(b"JOBID", request["job_id"].encode())
            for _ in range(int(content("times"))):
                write(then)
            note("said")
            if not os.path.exists(os.path.join(folder, "stay")):
                os._exit(0)
    os._exit(0)
except OSError:
    os._exit(0)
