"""Malformed files of every kind: `python -m tests.trust.malformed --cases 2000 --seed 1 --jobs 2`.

Each case damages one file and runs a command that reads it. The command must accept the file or refuse it in one
sentence, within 10 s and 2 GiB: seconds of processor time, or a minute of waiting, since other programs may be running
meanwhile. Cases are numbered from the seed; `--only SEED` repeats one.
"""

import json
import os
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import count, islice
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from typing import Any

import psutil

from tests.trust.attack import called, options, verdict

SECONDS, WAITING, MEMORY = 10.0, 60.0, 2 * 2**30
_DEFECTS = ("traceback", "panicked", "something unforeseen")
_LONGEST = 3200
"""Characters of a sentence with a value that is a whole file."""
GOOD = ("accepted", "refused")
BAD = ("traceback", "hang", "memory", "died")


def run_case(seed: int, base: Path, case: Path) -> dict[str, Any]:
    """Damage one file in a copy of the originals, run a command on it, and return the verdict."""
    from tests.trust.damage import damage, rename
    from tests.trust.inputs import FUNCTIONS, INPUTS
    from wina_core.errors import WinaError

    random = Random(seed)
    kind = INPUTS[seed % len(INPUTS)]
    pattern = random.choice(kind.files)
    original = random.choice(sorted(base.glob(pattern)))
    file = case / original.relative_to(base)
    _stage(base, case)
    file, way = rename(file, random) if kind.name == "file name" else (file, damage(file, random))
    command = random.choice(kind.commands)
    words = command.format(case=case, base=base, file=file, parent=file.parent)
    os.environ["WINA_HOME"] = str(case / "home")
    result: dict[str, Any] = {"seed": seed, "kind": kind.name, "damage": way, "command": words}
    began = time.process_time()
    try:
        if command in FUNCTIONS:
            try:
                text = FUNCTIONS[command](file)
            except WinaError as error:
                text = str(error)
            code, err = int(bool(text)), f"wina: {text}\n"
        else:
            code, _, err = called(words)
    except BaseException:
        return result | {"verdict": "traceback", "text": traceback.format_exc()[-3000:]}
    result["seconds"] = round(time.process_time() - began, 1)
    lines = err.strip().splitlines()
    defect = any(word in err.lower() for word in _DEFECTS)
    refused = code in (1, 2) and lines[-1:] and lines[-1].startswith("wina: ") and len(lines[-1]) < _LONGEST
    verdict = "traceback" if defect or not (code == 0 or refused) else "accepted" if code == 0 else "refused"
    return result | {"verdict": verdict, "text": err[-3000:] if verdict == "traceback" else (lines or [""])[-1]}


def _stage(base: Path, case: Path) -> None:
    """Copy the originals: the home, which commands write, and hard links of the rest."""
    shutil.rmtree(case, ignore_errors=True)
    shutil.copytree(base, case, copy_function=os.link, ignore=lambda *_: ["home"])
    shutil.copytree(base / "home", case / "home")


def serve(pipe: Connection, base: str, case: str) -> None:
    """Run the cases whose seeds arrive."""
    prepare(Path(base))
    pipe.send("ready")
    while (seed := pipe.recv()) is not None:
        pipe.send(run_case(seed, Path(base), Path(case)))


def prepare(base: Path) -> None:
    """Set this process up for cases, and make the originals if there are none."""
    os.environ |= {"HF_HUB_OFFLINE": "1", "WINA_HOME": str(base / "home"), "TQDM_DISABLE": "1"}
    import torch

    from tests.trust.inputs import make_originals
    from wina_core.compute.evaluation import index

    torch.set_num_threads(1)
    index.stock_entries = dict  # reading lm-eval's own files takes 20 s and is not what is damaged here
    if not base.exists():
        make_originals(base)
    called(f"eval --model {base}/model --method dense --tasks tiny_choice --include-path {base}/tasks --tokens 512")


class Worker:
    """A process that runs cases, with the libraries loaded; replaced when it hangs, grows or dies."""

    def __init__(self, base: Path, case: Path) -> None:
        self._context, self._base, self._case = get_context("spawn"), base, case
        self._start()

    def _start(self) -> None:
        self.pipe, other = self._context.Pipe()
        arguments = (other, str(self._base), str(self._case))
        self._process = self._context.Process(target=serve, args=arguments, daemon=True)
        self._process.start()
        self._usage = psutil.Process(self._process.pid)
        other.close()
        self.pipe.recv()
        self.seed: int | None = None

    def begin(self, seed: int) -> None:
        self.seed, self._began = seed, time.monotonic()
        self._busy = sum(self._usage.cpu_times()[:2])
        self.pipe.send(seed)

    def result(self) -> dict[str, Any] | None:
        """Return the case's result, or None while it runs."""
        try:
            if self.pipe.poll():
                found: dict[str, Any] = self.pipe.recv()
                self.seed = None
                return found
            busy = sum(self._usage.cpu_times()[:2]) - self._busy
            hangs = busy > SECONDS or time.monotonic() - self._began > WAITING
            verdict = "memory" if self._usage.memory_info().rss > MEMORY else "hang" if hangs else ""
        except (EOFError, OSError, psutil.Error):
            verdict = "died"
        if not verdict:
            return None
        seed = self.seed
        self._process.kill()
        self._process.join()
        self._start()
        return {"seed": seed, "verdict": verdict, "kind": kind_of(seed or 0), "text": verdict}

    def stop(self) -> None:
        self._process.kill()
        self._process.join()


def kind_of(seed: int) -> str:
    """Return the name of the input that a case damages."""
    from tests.trust.inputs import INPUTS

    return INPUTS[seed % len(INPUTS)].name


def results(seeds: Sequence[int], jobs: int, folder: Path) -> Iterator[dict[str, Any]]:
    """Run the cases in a number of processes and yield their results as they come."""
    waiting = list(reversed(seeds))
    workers = [Worker(folder / "base", folder / f"case{number}") for number in range(jobs)]
    try:
        while waiting or any(worker.seed is not None for worker in workers):
            for worker in workers:
                if worker.seed is not None and (found := worker.result()) is not None:
                    yield found
                if worker.seed is None and waiting:
                    worker.begin(waiting.pop())
            time.sleep(0.005)
    finally:
        for worker in workers:
            worker.stop()


def main() -> int:
    """Try the cases, print the results, and return the exit status."""
    # `kind`: damage only files of this kind, such as database. `only`: run this case alone and print all of it.
    # `log`: write every case's result to this file, one JSON object a line.
    given = options(__doc__, cases=2000, seed=1, jobs=2, kind="", only=-1, log="")
    seeds: Sequence[int] = range(given.seed, given.seed + given.cases)
    if given.kind:
        of_kind = (seed for seed in count(given.seed) if kind_of(seed) == given.kind)
        seeds = list(islice(of_kind, given.cases))
    if given.only >= 0:
        seeds = [given.only]
    began = time.monotonic()
    tried: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="wina-malformed-") as folder:
        for result in results(seeds, min(given.jobs, len(seeds)), Path(folder)):
            tried.append(result)
            if given.log:
                with open(given.log, "a", encoding="utf-8") as log:
                    log.write(json.dumps(result) + "\n")
    if given.only >= 0:
        print("\n".join(f"{name}: {value}" for name, value in tried[0].items()))
    counts: dict[str, Counter[str]] = {}
    for result in tried:
        counts.setdefault(result["kind"], Counter())[result["verdict"]] += 1
    total = Counter(result["verdict"] for result in tried)
    failed = [
        f"{result['seed']} ({result['kind']}: {result['verdict']})" for result in tried if result["verdict"] in BAD
    ]
    summary = {
        "cases": len(tried),
        "seconds": round(time.monotonic() - began),
        "slowest": max((result.get("seconds", SECONDS) for result in tried), default=0),
        "verdicts": {name: total[name] for name in (*GOOD, *BAD)},
        "kinds": {kind: dict(sorted(each.items())) for kind, each in sorted(counts.items())},
    }
    return verdict("malformed", summary, failed)


if __name__ == "__main__":
    sys.exit(main())
