"""Hostile studies, data folders, model folders, databases and names. Each tries to create the canary."""
# ruff: noqa: E501 - a case stands on one line

import json
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.trust import hostile_tasks
from tests.trust.hostile_tasks import pickled

DEMO = Path(__file__).parents[2] / "resources" / "demo" / "model"
Write = Callable[[Path, Path], object]
Commands = Callable[[Path], list[list[object]]]
CASES: dict[str, tuple[Write, Commands, bool]] = {}
_EVAL: list[object] = ["eval", "--method", "dense", "--limit", 1]
_STUDY = """\
schema_version = 2
name = "evil"
sparsities = [0.5]
[[models]]
location = "demo"
[[configurations]]
method = { name = "dense" }
[evaluation]
tasks = ["evil"]
fidelity = false
task_folders = ["FOLDER"]
"""


def _case(name: str, write: Write, commands: Commands, *, own_process: bool = False) -> None:
    CASES[name] = write, commands, own_process


def _python(canary: Path) -> str:
    return f'import pathlib\npathlib.Path("{canary}").touch()\n'


# ---- studies -----------------------------------------------------------------------------------------------------


def _study(content: str, name: str = "study.toml") -> Write:
    def write(folder: Path, canary: Path) -> None:
        hostile_tasks.write(hostile_tasks.FUNCTIONS["a function for process_docs"], folder, canary)
        (folder / name).write_text(content.replace("FOLDER", str(folder)).replace("CANARY", str(canary)))

    return write


def _run(folder: Path) -> list[list[object]]:
    (study,) = folder.glob("study.*")
    return [["study", "run", study], ["study", "estimate", study]]


for _label, _line in {
    "functions": "",
    "consent to task code": "trust_task_code = true\n",
    "digests of task code": 'task_code = { "FOLDER" = "00" }\n',
    "consent to programs": "run_model_code = true\nconfirm_run_unsafe_code = true\n",
}.items():
    _case(f"study with {_label}", _study(_line + _STUDY), _run)
_case("study in JSON", _study(json.dumps({"name": "x", "task_code": {"a": "b"}}), "study.json"), _run)
_case("study of deep JSON", _study("[" * 200_000, "study.json"), _run)
_case("study with a plan elsewhere", _study(_STUDY.replace("sparsities = [0.5]", 'plans = ["/etc/passwd"]')), _run)


def _modules(folder: Path, canary: Path) -> None:
    for module in ("torch", "lm_eval", "evaluate", "yaml", "sitecustomize", "usercustomize", "json"):
        (folder / f"{module}.py").write_text(_python(canary))


_case(
    "current folder with modules",
    _modules,
    lambda _: [
        ["eval", "--model", "demo", "--method", "dense", "--tasks", "demo_choice", "--limit", 1, "--engines", 2]
    ],
    own_process=True,
)


# ---- tasks with the current folder, and data folders ---------------------------------------------------------------


def _files(files: dict[str, str]) -> Write:
    def write(folder: Path, canary: Path) -> None:
        for name, content in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content.replace("PYTHON", _python(canary)).replace("CANARY", str(canary)))

    return write


def _demo_task(folder: Path) -> list[list[object]]:  # noqa: ARG001 - all commands take it
    return [[*_EVAL, "--model", "demo", "--no-fidelity", "--tasks", "demo_choice"]]


def _with_data(folder: Path) -> list[list[object]]:
    return [[*_demo_task(folder)[0], "--data-folder", folder]]


_case("current folder with a metric's script", _files({"rouge/rouge.py": "PYTHON"}), _demo_task)
_case(
    "current folder with a task of a stock name",
    _files({"demo_choice.yaml": "task: demo_choice\nclass: !function x.y\n"}),
    _demo_task,
)
_ROW = (
    '{"context": "{{ cycler.__init__.__globals__.os.system(\'touch CANARY\') }}", "choices": ["a", "b"], "answer": 0}\n'
)
_case("data with a template", _files({"demo_choice/test.jsonl": _ROW}), _with_data)
_case("data with Python", _files({"demo_choice/test.py": "PYTHON", "demo_choice/test.jsonl": _ROW}), _with_data)
_case("data of deep JSON", _files({"demo_choice/test.jsonl": "[" * 200_000}), _with_data)
_case("data of no Parquet", _files({"demo_choice/test.parquet": "PAR1 PYTHON PAR1"}), _with_data)


def _pickled_data(folder: Path, canary: Path) -> None:
    (folder / "demo_choice").mkdir()
    for suffix in ("pkl", "parquet", "jsonl"):
        (folder / "demo_choice" / f"test.{suffix}").write_bytes(pickled(canary))


_case("data in a pickle", _pickled_data, _with_data)


# ---- model folders -----------------------------------------------------------------------------------------------


def _model(change: Callable[[Path, Path], object]) -> Write:
    def write(folder: Path, canary: Path) -> None:
        model = folder / "model"
        shutil.copytree(DEMO, model)
        for name in ("modeling_evil", "configuration_evil", "tokenization_evil", "custom_generate/generate"):
            (model / f"{name}.py").parent.mkdir(exist_ok=True)
            (model / f"{name}.py").write_text(_python(canary) + "class Evil: pass\n")
        change(model, canary)

    return write


def _edit(name: str, **fields: Any) -> Callable[[Path, Path], object]:
    def change(model: Path, canary: Path) -> None:
        path = model / name
        known = json.loads(path.read_text()) if path.exists() else {}
        text = json.dumps(known | fields).replace("CANARY", str(canary))
        path.write_text(text)

    return change


def _instead(name: str) -> Callable[[Path, Path], object]:
    """A pickle in place of the weights."""

    def change(model: Path, canary: Path) -> None:
        for weights in model.glob("*.safetensors*"):
            weights.unlink()
        (model / name).write_bytes(pickled(canary))

    return change


def _use(folder: Path) -> list[list[object]]:
    model = folder / "model"
    chat = ["--apply-chat-template"] if "chat_template" in (model / "tokenizer_config.json").read_text() else []
    generate = ["generate", "A row", "--model", model, "--max-new-tokens", 2, "--method", "dense", *chat]
    return [["model", "info", model], generate]


_AUTO = {"AutoConfig": "configuration_evil.Evil", "AutoModelForCausalLM": "modeling_evil.Evil"}
_SYSTEM = "{{ cycler.__init__.__globals__.os.system('touch CANARY') }}"
for _label, _change in {
    "its own classes": _edit("config.json", auto_map=_AUTO, model_type="evil", trust_remote_code=True),
    "a tokenizer's class": _edit(
        "tokenizer_config.json", tokenizer_class="Evil", auto_map={"AutoTokenizer": ["tokenization_evil.Evil", None]}
    ),
    "a generation program": _edit("generation_config.json", custom_generate=".", trust_remote_code=True),
    "a quantizer": _edit("config.json", quantization_config={"quant_method": "evil", "modules": ["os.system"]}),
    "an attention elsewhere": _edit("config.json", _attn_implementation="evil/body", attn_implementation="evil/body"),
    "an adapter": _edit(
        "adapter_config.json",
        peft_type="LORA",
        base_model_name_or_path="CANARY",
        auto_mapping={"parent_library": "modeling_evil"},
    ),
    "pickled weights": _instead("pytorch_model.bin"),
    "a pickle called safetensors": _instead("model.safetensors"),
    "weights of another folder": _edit("model.safetensors.index.json", metadata={}, weight_map={"x": "../../canary"}),
    "a chat template of code": _edit("tokenizer_config.json", chat_template=_SYSTEM),
    "an endless chat template": _edit(
        "tokenizer_config.json",
        chat_template="{% set l = range(99999)|list %}{% for a in l %}{% for b in l %}{% endfor %}{% endfor %}",
    ),
    "a huge chat template": _edit("tokenizer_config.json", chat_template="{{ 'chat_template' * 10**10 }}"),
}.items():
    _case(f"model with {_label}", _model(_change), _use)


def _matrices(folder: Path, canary: Path) -> None:
    (folder / "matrices.safetensors").write_bytes(pickled(canary))
    (folder / "matrices.pt").write_bytes(pickled(canary))


_case(
    "rotation matrices in a pickle",
    _matrices,
    lambda folder: [
        ["rotate", "demo", "--rotation", "global", "--matrices", folder / name]
        for name in ("matrices.safetensors", "matrices.pt")
    ],
)
_case(
    "plan of code",
    _files({"plan.json": '{"__reduce__": ["os.system", ["touch CANARY"]], "sparsity": "__import__(\'os\')"}'}),
    lambda folder: [["eval", "--model", "demo", "--plan", folder / "plan.json", "--tasks", "demo_choice"]],
)


# ---- databases ---------------------------------------------------------------------------------------------------


def _database(script: str, *, ours: bool = False) -> Write:
    def write(folder: Path, canary: Path) -> None:
        path = folder / "evil.sqlite"
        if ours:
            from wina_core.store import Store

            Store(path).close()
        with sqlite3.connect(path) as connection:
            connection.executescript(script.replace("CANARY", str(canary)))
        connection.close()

    return write


def _read(folder: Path) -> list[list[object]]:
    """Read copies, since an own database may be changed."""
    home = Path(__import__("os").environ["WINA_HOME"])
    copies = [home / f"{folder.parent.name}-{number}.sqlite" for number in range(3)]
    for copied in copies:
        shutil.copyfile(folder / "evil.sqlite", copied)
    return [
        ["results", "--database", copies[0]],
        ["export", home / f"{folder.parent.name}.csv", "--database", copies[1]],
        [*_EVAL, "--model", "demo", "--no-fidelity", "--tasks", "demo_choice", "--database", copies[2]],
    ]


_TRIGGER = "create trigger evil_{table} after insert on {table} begin select load_extension('CANARY'); select writefile('CANARY', 'x'); end;"
for _label, _script, _ours in (
    ("with a view for a table", "create view runs as select load_extension('CANARY');", False),
    ("with a trigger", _TRIGGER.format(table="studies") + _TRIGGER.format(table="runs"), True),
    ("with a view that writes", "create view evil as select writefile('CANARY', 'x');", True),
    ("of a later version", "update wina_schema_version set version_num = '../../CANARY';", True),
):
    _case(f"database {_label}", _database(_script, ours=_ours), _read)
_case("database that is a pickle", lambda folder, canary: (folder / "evil.sqlite").write_bytes(pickled(canary)), _read)
_case(
    "database address with a program",
    lambda *_: None,
    lambda folder: [["results", "--database", f"evil+os.system:///{folder.parent / 'canary'}"]],
)


# ---- names -------------------------------------------------------------------------------------------------------


def _named(name: str) -> Commands:
    def commands(folder: Path) -> list[list[object]]:
        home = Path(__import__("os").environ["WINA_HOME"])
        base = home / folder.parent.name
        database = ["--database", f"{base}.sqlite"]
        return [
            [*_EVAL, "--model", "demo", "--no-fidelity", "--tasks", "demo_choice", "--name", name, *database],
            ["report", name, "--output-path", base, "--tables", *database],
            *(["export", f"{base}.{suffix}", *database] for suffix in ("xlsx", "tex", "md")),
        ]

    return commands


for _label, _name in {
    "HTML": "<script>fetch('http://x')</script><img src=x onerror=alert(1)>",
    "a formula": "=cmd|' /C touch CANARY'!A0",
    "path separators": "../../../../canary/../x",
    "terminal escapes": "\x1b]0;evil\x07\x1b[2J",
    "LaTeX": "\\input{/etc/passwd}\\write18{touch CANARY}",
    "line ends": "a\nb\r\nc\x00",
    "a template": _SYSTEM,
}.items():
    _case(f"study named by {_label}", lambda *_: None, _named(_name))
