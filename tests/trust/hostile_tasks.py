"""Hostile folders of task files. Each tries to create CANARY; `evil` is the task, group or tag to ask for."""
# ruff: noqa: E501 - a case stands on one line

from pathlib import Path

CANARY = "CANARY"
"""Replaced by the path that no file may create."""
_OS = "cycler.__init__.__globals__.os.system('touch CANARY')"
_EVIL_PY = """\
import pathlib
pathlib.Path("CANARY").touch()
def function(*_, **__): return pathlib.Path("CANARY").touch()
class Class: pass
"""
_FIELDS = {
    "task": "evil",
    "dataset_path": "json",
    "dataset_kwargs": "{data_files: {test: data.jsonl}}",
    "output_type": "multiple_choice",
    "test_split": "test",
    "doc_to_text": "'{{question}}'",
    "doc_to_choice": "'{{choices}}'",
    "doc_to_target": "answer",
    "metric_list": "[{metric: acc, aggregation: mean, higher_is_better: true}]",
}
_DATA = "".join(
    f'{{"question": "A {word} and a", "choices": ["row", "column"], "answer": 1}}\n' for word in ("row", "mask", "norm")
)
Files = dict[str, str]


def task(name: str = "evil.yaml", /, **fields: str | None) -> Files:
    """An honest task but for these fields, in YAML; None leaves one out."""
    lines = {**_FIELDS, **fields}
    return {name: "".join(f"{key}: {value}\n" for key, value in lines.items() if value is not None)}


def text(template: str) -> Files:
    """A task of this template."""
    return task(doc_to_text="|-\n  " + template.replace("\n", "\n  "))


def generating(**fields: str) -> Files:
    """A task that generates."""
    return task(output_type="generate_until", doc_to_choice=None, doc_to_target="question", metric_list=None, **fields)


def _bomb(item: str) -> str:
    lines = [
        f"{chr(98 + level)}: &{chr(98 + level)} {item % ', '.join([f'*{chr(97 + level)}'] * 10)}\n"
        for level in range(12)
    ]
    return "a: &a {k: v}\n" + "".join(lines)


_FUNCTION = "!function evil.function"
_GROUP = {**task("member.yaml", task="member"), **task("other.yaml", task="other")}
_UNSAFE = "{task: inlined, dataset_path: json, unsafe_code: true}"

TEMPLATES: dict[str, Files] = {
    **{
        f"a template in {field}": task(**{field: f'"{{{{ {_OS} }}}}"'})
        for field in ("doc_to_text", "doc_to_target", "doc_to_choice", "description", "gen_prefix")
    },
    "a template of examples": task(
        num_fewshot="1", fewshot_split="test", fewshot_config=f'{{doc_to_text: "{{{{ {_OS} }}}}"}}'
    ),
    "globals of lipsum": text("{{ lipsum.__globals__['os'].system('touch CANARY') }}"),
    "subclasses of object": text("{{ ''.__class__.__mro__[1].__subclasses__() }}"),
    "the filter attr": text("{{ ''|attr('__class__')|attr('__mro__') }}"),
    "a format string": text("{{ '{0.__class__.__init__.__globals__}'.format(question) }}"),
    "a format taken by map": text(
        "{{ ['{0.__class__}']|map('format', question)|map(attribute='__class__')|list }}{{ 1/0 }}"
    ),
    "the template itself": text("{{ self.__init__.__globals__.os.system('touch CANARY') }}"),
    "its context": text("{{ self._TemplateReference__context.eval_ctx.environment }}"),
    "a namespace's internals": text("{% set n = namespace(__class__=1) %}{{ n.__init__.__globals__ }}"),
    "a changed namespace": text("{% set n = namespace() %}{% set n.__str__ = cycler %}{{ n }}"),
    "an included file": text("{% include '/etc/passwd' %}"),
    "an imported file": text("{% import 'evil.py' as evil %}{{ evil.function() }}"),
    "a change of the document": text("{{ choices.append('x') }}"),
    "a long repetition": text("{{ 'a' * 10**10 }}"),
    "a long range": text("{% for i in range(10**12) %}x{% endfor %}"),
    "an endless loop": text(
        "{% set l = range(99999)|list %}{% for a in l %}{% for b in l %}{% for c in l %}{% endfor %}{% endfor %}{% endfor %}"
    ),
    "an endless regular expression": text("{{ ('a' * 50 ~ 'b')|regex_replace('(a+)+$', '') }}"),
    "a doubling macro": text(
        "{% macro m(x, n) %}{% if n %}{{ m(x ~ x, n - 1) }}{% else %}{{ x }}{% endif %}{% endmacro %}{{ m('aaaa', 90) }}"
    ),
    "a long text": text("{{ 'a' * 2**25 }}"),
    "a long list": task(doc_to_choice="\"{{ '[' ~ '1,' * 2000000 ~ ']' }}\""),
    "a deep literal": task(doc_to_choice='"' + "[" * 5000 + "]" * 5000 + '"'),
}
FUNCTIONS: dict[str, Files] = {
    **{
        f"a function for {field}": task(**{field: _FUNCTION})
        for field in (
            "process_docs",
            "process_results",
            "doc_to_text",
            "doc_to_target",
            "doc_to_choice",
            "custom_dataset",
        )
    },
    "a function as metric": task(metric_list=f"[{{metric: {_FUNCTION}}}]"),
    "a function as aggregation": task(metric_list=f"[{{metric: acc, aggregation: {_FUNCTION}}}]"),
    "a function as filter": generating(
        filter_list=f"[{{name: x, filter: [{{function: custom, filter_fn: {_FUNCTION}}}]}}]"
    ),
    "a class as filter": generating(filter_list=f"[{{name: x, filter: [{{function: {_FUNCTION}}}]}}]"),
    "a function for examples": task(fewshot_config=f"{{samples: {_FUNCTION}}}"),
    "a function in metadata": task(metadata=f"{{deep: [{{er: {_FUNCTION}}}]}}"),
    "a class": task(**{"class": "!function evil.Class"}),
    "a class's name": task(**{"class": "evil.Class"}),
    "an importable function": task(doc_to_text="!function os.system", doc_to_target="'touch CANARY'"),
    "a function of a subfolder": {**task(process_docs="!function sub.evil.function"), "sub/evil.py": _EVIL_PY},
    "an included function": {**task(include="base.yaml"), "base.yaml": f"process_docs: {_FUNCTION}\n"},
    "an included file without suffix": {
        **task(include="sub/base"),
        "sub/base": "process_docs: !function ..evil.function\n",
    },
    "a function beside lm-eval's file": {
        "evil.yaml": f"include: STOCK/piqa/piqa.yaml\ntask: evil\nprocess_docs: {_FUNCTION}\n"
    },
    "a file outside": {**task(include="../outside/base.yaml"), "../outside/base.yaml": f"process_docs: {_FUNCTION}\n"},
    "a file elsewhere": task(include="/etc/passwd"),
    "a device": task(include="/dev/zero"),
    "a file that includes itself": task(include="evil.yaml"),
    "a lm-eval task of that name": {
        **task("piqa.yaml", task="piqa", process_docs=_FUNCTION),
        "evil.yaml": "group: evil\ntask: [piqa]\n",
    },
}
READERS: dict[str, Files] = {
    "a pickle": task(dataset_path="pandas", dataset_kwargs="{data_files: {test: evil.pkl}}"),
    "a database": task(dataset_path="sql", dataset_kwargs="{con: 'sqlite:///CANARY', sql: 'select 1'}"),
    "an archive": task(dataset_path="webdataset", dataset_kwargs="{data_files: {test: evil.tar}}"),
    "a loading script": task(dataset_path="FOLDER/evil.py", dataset_kwargs="{trust_remote_code: true}"),
    "a folder with a script": task(dataset_path="FOLDER", dataset_kwargs="{trust_remote_code: true}"),
    "a chained file system": task(dataset_kwargs="{data_files: {test: 'simplecache::file://CANARY'}}"),
    "another file system": task(dataset_kwargs="{data_files: [{test: ['ssh://host/x']}]}"),
    "a folder over ssh": task(dataset_kwargs="{data_dir: 'sftp://host/x'}"),
    "a cache elsewhere": task(dataset_kwargs="{data_files: {test: data.jsonl}, cache_dir: CANARY}"),
    "options of a file system": task(dataset_kwargs="{data_files: {test: data.jsonl}, storage_options: {a: b}}"),
    "a metric's script": task(metric_list="[{metric: ./evil, aggregation: mean, higher_is_better: true}]"),
    "a metric of the current folder": task(metric_list="[{metric: evil, aggregation: mean, higher_is_better: true}]"),
    "somebody's metric": task(metric_list="[{metric: some/body, aggregation: mean, higher_is_better: true}]"),
    "evaluate's metric": task(
        metric_list="[{metric: acc, hf_evaluate: true, aggregation: mean, higher_is_better: true}]"
    ),
    "a program for generation": generating(
        generation_kwargs="{until: [x], custom_generate: FOLDER, trust_remote_code: true}"
    ),
    "a model for generation": generating(generation_kwargs="{until: [x], assistant_model: FOLDER}"),
    "a prompt's file": task(use_prompt="'FOLDER/prompt.yaml:evil'"),
    "a tokenizer for lm-eval's function": {
        "evil.yaml": "include: STOCK/ruler/niah_single_1.yaml\ntask: evil\nmetadata: {pretrained: FOLDER}\n"
    },
}
GROUPS: dict[str, Files] = {
    "an inlined function": {
        "g.yaml": f"group: evil\ntask: [{{task: x, dataset_path: json, process_docs: {_FUNCTION}}}]\n"
    },
    "a nested inlined function": {
        "g.yaml": f"group: evil\ntask: [{{group: in, task: [{{group: deep, task: [{{task: x, process_docs: {_FUNCTION}}}]}}]}}]\n"
    },
    "a group's function for members": {**_GROUP, "g.yaml": f"group: evil\nprocess_docs: {_FUNCTION}\ntask: [member]\n"},
    "a member's function": {
        **_GROUP,
        "g.yaml": f"group: evil\ntask: [member, {{task: other, process_docs: {_FUNCTION}}}]\n",
    },
    "a group's template": {**_GROUP, "g.yaml": f'group: evil\ndoc_to_text: "{{{{ {_OS} }}}}"\ntask: [member]\n'},
    "an aggregation": {
        **_GROUP,
        "g.yaml": f"group: evil\ntask: [member]\naggregate_metric_list: [{{metric: acc, aggregation: {_FUNCTION}}}]\n",
    },
    "a tagged function": {
        **task("a.yaml", task="a", tag="evil"),
        **task("b.yaml", task="b", tag="evil", process_docs=_FUNCTION),
    },
    "inlined programs": {"g.yaml": f"group: evil\ntask: [{_UNSAFE}]\n"},
    "tagged programs": task(task="a", tag="evil", unsafe_code="true"),
    "programs taken back": {"base.yaml": "unsafe_code: true\n", **task(include="base.yaml", unsafe_code="false")},
    "programs of lm-eval taken back": {
        "evil.yaml": "include: STOCK/humaneval/humaneval.yaml\ntask: evil\nunsafe_code: false\n"
    },
    "programs of a member taken back": {
        **task("a.yaml", task="a", unsafe_code="true"),
        "g.yaml": "group: evil\ntask: [{task: a, unsafe_code: false}]\n",
    },
    "a group in itself": {"g.yaml": "group: evil\ntask: [h]\n", "h.yaml": "group: h\ntask: [evil]\n"},
    "groups of groups": {
        "g.yaml": "group: evil\ntask: [g0]\n",
        **{f"g{n}.yaml": f"group: g{n}\ntask: [{', '.join([f'g{n + 1}'] * 10)}]\n" for n in range(12)},
    },
}
YAML: dict[str, Files] = {
    "Python's tags": task(doc_to_text="!!python/object/apply:os.system ['touch CANARY']"),
    "aliases": {"evil.yaml": _bomb("[%s]") + "task: evil\n"},
    "merged aliases": {"evil.yaml": _bomb("{<<: [%s]}") + "task: evil\n"},
    "a value in itself": task(metadata="&a [*a]"),
    "a hundred thousand brackets": task(metadata="[" * 100_000 + "]" * 100_000),
    "a long number": task(metadata="1" + ":59" * 100_000),
    "no mapping": {"evil.yaml": "- evil\n"},
    "a name that is a list": task(task="[evil]"),
    "an unknown field": task(sandbox="false"),
    "values of other kinds": task(metric_list="{metric: ./evil}", dataset_kwargs="[evil]", filter_list="evil"),
}
CASES: dict[str, Files] = {
    f"{kind}: {name}": files
    for kind, cases in {
        "template": TEMPLATES,
        "function": FUNCTIONS,
        "reader": READERS,
        "group": GROUPS,
        "yaml": YAML,
    }.items()
    for name, files in cases.items()
}


def write(files: Files, folder: Path, canary: Path) -> Path:
    """Write the files with data and a Python file that creates the canary when it is imported or called."""
    import lm_eval.tasks

    stock = Path(lm_eval.tasks.__file__).parent
    beside = {
        "data.jsonl": _DATA,
        "evil.py": _EVIL_PY,
        "evil/evil.py": _EVIL_PY,
        "custom_generate/generate.py": _EVIL_PY,
    }
    beside |= {
        "prompt.yaml": f'prompts: {{evil: {{doc_to_text: "{{{{ {_OS} }}}}", doc_to_target: x}}}}\n',
        "conftest.py": _EVIL_PY,
    }
    for name, content in (beside | files).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        for word, value in ((CANARY, canary), ("FOLDER", folder), ("STOCK", stock)):
            content = content.replace(word, str(value))
        path.write_text(content, encoding="utf-8")
    (folder / "evil.pkl").write_bytes(pickled(canary))
    return folder


def pickled(canary: Path) -> bytes:
    """A pickle that creates the canary when it is loaded."""
    return b"cos\nsystem\n(S'touch %s'\ntR." % str(canary).encode()
