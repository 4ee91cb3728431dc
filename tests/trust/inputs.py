"""Every kind of file that the program reads, an undamaged original of each, and the commands that read it."""

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.trust.attack import called
from tests.wina_core.compute.evaluation.task_files import write_tasks
from tests.wina_core.tiny import tiny_model, tiny_text, tiny_tokenizer
from tests.wina_core.tiny_gguf import tiny_gguf
from wina_core.studies.tasks.index import index_file, load_index

_EVAL = "eval --model {case}/%s --method wina --sparsity 0.5 --text {base}/text.txt --tokens 512"
_DATA = "eval --model {base}/model --method dense --no-fidelity --tasks tiny_choice"
_CALIBRATE = "calibrate {base}/model --method wina --selection threshold --text demo:calibration --tokens 512"
_ALLOCATE = "allocate {base}/model --allocator %s --rounds 1 --text demo:calibration --tokens 512"
_ROTATE = "rotate {base}/model --rotation per_site"
_THRESHOLDS = (
    "eval --model {base}/model --method wina --selection threshold --sparsity 0.5 --text demo:heldout --tokens 512 "
    "--calibration-text demo:calibration --calibration-tokens 512 --recompute"
)


_MODEL = (
    "model info {parent}",
    "cost {parent}",
    "generate hi --model {parent} --method dense --max-new-tokens 2",
    "eval --model {parent} --method wina --sparsity 0.5 --text {base}/text.txt --tokens 512",
)


@dataclass(frozen=True)
class Input:
    """One kind of file: where originals lie, and the commands that read a damaged one. `{case}` is the folder with the
    damaged copy, `{base}` that of the originals, `{file}` the damaged file and `{parent}` its folder; a word with "@"
    names a function."""

    name: str
    files: tuple[str, ...]
    """Patterns."""
    commands: tuple[str, ...]


INPUTS = (
    Input("config", ("model/config.json",), _MODEL),
    Input("generation config", ("model/generation_config.json",), _MODEL[2:3]),
    Input("tokenizer", ("model/tokenizer.json",), _MODEL),
    Input("tokenizer config", ("model/tokenizer_config.json",), _MODEL),
    Input(
        "chat template",
        ("model/chat_template.jinja",),
        (
            "model info {case}/model",
            "generate hi --model {case}/model --method dense --max-new-tokens 2 --apply-chat-template",
        ),
    ),
    Input("weights", ("model/model.safetensors",), _MODEL),
    Input("index", ("sharded/model.safetensors.index.json",), _MODEL),
    Input("shard", ("sharded/model-*.safetensors",), _MODEL),
    Input("rotation", ("rotated/wina_rotation.json",), _MODEL),
    Input("shortcuts", ("rotated/wina_shortcuts.safetensors",), _MODEL),
    Input(
        "matrices",
        ("rotated/wina_rotation_matrices.safetensors",),
        (f"{_ROTATE} --matrices {{file}}",),
    ),
    Input(
        "study",
        ("study.toml", "study.json"),
        ("study run {file}", "study estimate {file}", "study run {file} --data-folder demo"),
    ),
    Input("own study", ("home/data/studies/own.toml",), ("study list", "study run own")),
    Input(
        "plan",
        ("plan.json",),
        (
            "plan save {file} damaged",
            "cost {base}/model --plan {file}",
            f"{_EVAL % 'model'} --plan {{file}}",
        ),
    ),
    Input("searched shares", ("shares.txt",), ("plan import-shares {file} {base}/model {case}/out.json",)),
    Input(
        "text",
        ("text.txt",),
        (
            "calibrate {base}/model --text {file} --tokens 512",
            "eval --model {base}/model --method dense --text {file} --tokens 512",
            f"{_ROTATE} --objective error --rotation-steps 1 --rotation-text {{file}} --rotation-tokens 512",
        ),
    ),
    Input(
        "data",
        ("data/tiny_choice/test.jsonl", "columns/tiny_choice/test.parquet"),
        (f"{_DATA} --include-path {{base}}/tasks --data-folder {{parent}}/..",),
    ),
    Input("task", ("tasks/choice.yaml", "tasks/choice.jsonl"), (f"{_DATA} --include-path {{case}}/tasks",)),
    Input("roles", ("home/config/roles.json",), ("study roles", "study list")),
    Input("settings", ("home/config/window.json",), ("@settings",)),
    Input(
        "database",
        ("home/data/results.sqlite",),
        (
            "results",
            "results --annotations --json",
            "results --filter wina",
            "results deleted",
            "study list",
            "plan list",
            "plan show kept",
            "compare --study tiny",
            "export {case}/out.csv",
            *(6 * ["@window"]),
            "results tag --filter wina --add good",
            _EVAL % "model",
        ),
    ),
    Input(
        "file name",
        ("model", "study.toml", "plan.json", "text.txt", "home/data/results.sqlite"),
        (
            "model info {file}",
            "study run {file}",
            "cost {base}/model --plan {file}",
            "calibrate {base}/model --text {file} --tokens 512",
            "results --database {file}",
            "@dropped",
        ),
    ),
    Input("another family", ("families/*/config.json", "families/*/tokenizer_config.json"), _MODEL),
    Input("task index", ("home/cache/lm-eval-*-index.json",), ("@index",)),
    Input("cached calibration", ("home/cache/calibrations/*.safetensors",), (_CALIBRATE, _THRESHOLDS)),
    Input("cached thresholds", ("home/cache/thresholds/*.json",), (_THRESHOLDS,)),
    Input("cached bases", ("home/cache/rotations/*.safetensors",), (_ROTATE,)),
    Input("cached search", ("home/cache/allocations/*.json",), (_ALLOCATE % "curves",)),
    Input("journal", ("home/cache/allocations/*.curves",), (_ALLOCATE % "refine",)),
    Input(
        "dropped file",
        ("study.toml", "plan.json", "model/config.json", "model/model.safetensors", "home/data/results.sqlite"),
        ("@dropped",),
    ),
    Input("GGUF file", ("quantized/tiny.gguf",), ("model info {file}", "cost {file}", "@dropped")),
)


def _settings(_file: Path) -> str:
    from wina_app.services.settings import Settings

    sentences: list[str] = []
    settings = Settings()
    settings.report_to(sentences.append)
    settings.page = "results"
    return sentences[0] if sentences else ""


def _index(_file: Path) -> str:
    index = load_index()
    if index is not None:
        index.search("arc", 5)
    return ""


def _dropped(file: Path) -> str:
    from wina_app.window.files import kind_of

    return str(kind_of(file)).replace("model", "")


def _window(_file: Path) -> str:
    """Read all that the window lists of a database."""
    from wina_core.analysis.results.columns import COLUMNS
    from wina_core.analysis.results.table import MetricResults
    from wina_core.store import Store
    from wina_core.store.metric_frames import details_frame

    with Store() as store:
        table = MetricResults(store.metrics(), details_frame(store.run_details()), COLUMNS)
        table.prepare()
        for cells in table.cells:
            for row in range(len(table)):
                _ = cells.text(row), cells.value(row), cells.tip(row)
        for study in store.studies():
            store.runs(study.study), store.units(study.study), store.study_spec(study.study)
            for run in store.run_specs(study.study):
                store.layer_map(run), store.samples(run, "tiny_choice")
        store.list_plans(), store.latency_rows(), store.decode_rows(), store.deleted_runs()
    return ""


FUNCTIONS: dict[str, Callable[[Path], str]] = {
    "@settings": _settings,
    "@index": _index,
    "@dropped": _dropped,
    "@window": _window,
}
"""Readers that no command has. Each returns a sentence on the damage, or an empty text."""


def make_originals(base: Path) -> None:
    """Make an original of every input in a folder whose `home` is WINA_HOME."""
    base.mkdir(parents=True)
    model, tokenizer = tiny_model(layers=2), tiny_tokenizer()
    tokenizer.chat_template = "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}"
    for folder, largest in (("model", "1GB"), ("sharded", "60KB")):
        model.save_pretrained(base / folder, max_shard_size=largest)
        tokenizer.save_pretrained(base / folder)
    for family in ("gemma2", "gpt_neox", "opt", "phi3"):
        tiny_model(family, layers=2).save_pretrained(base / "families" / family)
        tokenizer.save_pretrained(base / "families" / family)
    (base / "quantized").mkdir()
    tiny_gguf(base / "quantized" / "tiny.gguf", "llama", "Q4_0")
    tiny_text(base)
    for folder in ("tasks", "data/tiny_choice", "columns/tiny_choice", "home/config", "home/data/studies"):
        (base / folder).mkdir(parents=True)
    write_tasks(base / "tasks")
    index = [["tiny_choice", "task", "multiple_choice", ""], ["arc_easy", "task", "multiple_choice", "arc.yaml"]]
    index_file().write_text(json.dumps(index), encoding="utf-8")
    shutil.copy(base / "tasks" / "choice.jsonl", base / "data" / "tiny_choice" / "test.jsonl")
    _write_columns(base)
    (base / "shares.txt").write_text("0.9\n0.5\n" * 14, encoding="utf-8")
    (base / "home/config/roles.json").write_text(json.dumps({"Llama-2-7B": "demo"}, indent=1), encoding="utf-8")
    _write_settings()
    study = f"{_EVAL % 'model'} --tasks tiny_choice --include-path {{base}}/tasks --name tiny --log-samples"
    for command in (
        f"{study} --save-study {{base}}/study.toml",
        f"{study} --save-study {{base}}/study.json",
        f"{study} --save-study {{base}}/home/data/studies/own.toml --name own",
        f"{_ROTATE} --output-path {{base}}/rotated",
        _CALIBRATE,
        _THRESHOLDS.removesuffix(" --recompute"),
        f"{_ALLOCATE % 'curves'} --output-path {{base}}/plan.json",
        _ALLOCATE % "refine",
        "plan save {base}/plan.json kept",
        "results tag --filter wina --add first",
    ):
        code, out, err = called(command.format(case=base, base=base))
        assert code == 0, f"{command}: {out}{err}"


def _write_columns(base: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    rows = [json.loads(line) for line in (base / "tasks" / "choice.jsonl").read_text(encoding="utf-8").splitlines()]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), base / "columns" / "tiny_choice" / "test.parquet")


def _write_settings() -> None:
    from wina_app.services.settings import Settings

    settings = Settings()
    settings.update(page="results", recent=["demo"], studies=["/a.toml"], prompts=["hi"], geometry=b"abc")
    settings.session = {"model": {"location": "demo"}, "plan": None}
