"""Malformed files of every kind: `python -m tests.trust.malformed --cases 2000 --seed 1`.

Each case damages one file and runs a command that reads it, in a fork of a process with the libraries loaded. The
command must accept the file or refuse it in one sentence, within 10 s of processor time, a minute of waiting and 2 GiB.
Cases are numbered from the seed; `--only SEED` repeats one.
"""

import json
import os
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import psutil

from tests.trust.attack import called, options, verdict

SECONDS, WAITING, MEMORY = 10, 60.0, 2 * 2**30
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


def prepare(base: Path) -> None:
    """Set this process up for cases, and make the originals."""
    os.environ |= {"HF_HUB_OFFLINE": "1", "WINA_HOME": str(base / "home"), "TQDM_DISABLE": "1"}
    import torch

    from tests.trust.inputs import make_originals
    from wina_core.compute.evaluation import index

    torch.set_num_threads(1)
    index.stock_entries = dict  # reading lm-eval's own files takes 20 s and is not what is damaged here
    make_originals(base)
    called(f"eval --model {base}/model --method dense --tasks tiny_choice --include-path {base}/tasks --tokens 512")


def run_forked(seed: int, folder: Path) -> dict[str, Any]:
    """Run a case in a fork of this process, which is killed where it hangs or grows."""
    import resource  # which Windows has not

    from tests.trust.inputs import INPUTS

    answer, began = folder / "answer.json", time.monotonic()
    answer.unlink(missing_ok=True)
    child = os.fork()
    if not child:
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        answer.write_text(json.dumps(run_case(seed, folder / "base", folder / "case")), encoding="utf-8")
        os._exit(0)
    watched, reason = psutil.Process(child), "died"
    while not os.waitpid(child, os.WNOHANG)[0]:
        status = watched.as_dict(["memory_info", "cpu_times"])
        too_large = status["memory_info"] is not None and status["memory_info"].rss > MEMORY
        slow = status["cpu_times"] is not None and sum(status["cpu_times"][:2]) > SECONDS - 1
        reason = "memory" if too_large else "hang" if slow or time.monotonic() - began > WAITING else reason
        if too_large or time.monotonic() - began > WAITING:
            watched.kill()
        time.sleep(0.005)
    if answer.exists():
        return json.loads(answer.read_text(encoding="utf-8"))
    return {"seed": seed, "verdict": reason, "kind": INPUTS[seed % len(INPUTS)].name, "text": reason}


def main() -> int:
    """Try the cases, print the results, and return the exit status."""
    # `kind`: damage only files of this kind, such as database. `only`: run this case alone and print all of it.
    given = options(__doc__, cases=2000, seed=1, kind="", only=-1)
    seeds = [given.only] if given.only >= 0 else range(given.seed, given.seed + given.cases)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="wina-malformed-") as folder:
        prepare(Path(folder) / "base")
        from tests.trust.inputs import INPUTS

        chosen = [seed for seed in seeds if given.kind in ("", INPUTS[seed % len(INPUTS)].name)]
        tried = [run_forked(seed, Path(folder)) for seed in chosen]
    if given.only >= 0:
        print("\n".join(f"{name}: {value}" for name, value in tried[0].items()))
    counts = Counter((result["kind"], result["verdict"]) for result in tried)
    total = Counter(result["verdict"] for result in tried)
    failed = [
        f"{result['seed']} ({result['kind']}: {result['verdict']})" for result in tried if result["verdict"] in BAD
    ]
    summary = {
        "cases": len(tried),
        "seconds": round(time.monotonic() - began),
        "verdicts": {name: total[name] for name in (*GOOD, *BAD)},
        "kinds": {f"{kind}, {name}": count for (kind, name), count in sorted(counts.items())},
    }
    return verdict("malformed", summary, failed)


if __name__ == "__main__":
    sys.exit(main())
