"""The only importer of lm-eval's inner modules, written for lm-eval 0.4.13.

The rest of this package imports them from here. lm-eval promises nothing about them, so a missing name or method raises
a WinaError on import, before any number is computed with half of an interface.

Its logged samples become records of every document, which add up to the reported metrics.
"""

import ast
import datetime
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from importlib.metadata import version
from numbers import Real
from pathlib import Path
from types import NoneType
from typing import Any

import datasets
import numpy as np
from jinja2 import BaseLoader, StrictUndefined, Template, Undefined
from jinja2.exceptions import SecurityError
from jinja2.runtime import BlockReference, LoopContext, Macro, TemplateReference
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Cycler, Joiner, Namespace

from wina_core.compute.hooks import attributes
from wina_core.compute.render_limits import limited
from wina_core.errors import WinaError
from wina_core.records import SampleRecord

# The environment of all task templates: lm-eval's, but sandboxed and limited.
#
# It renders honest templates to the same text. Others can neither reach attributes that lead to code or files nor take
# unlimited time and memory. Values of documents are plain data to it: the methods of an image or array stay out of
# reach.

MAX_RENDERED_CHARACTERS = 4 * 2**20
"""Length of a rendered text, some million tokens."""
MAX_LITERAL_CHARACTERS = 2**19
"""Length of a rendered list."""
_PLAIN = (str, bytes, int, float, NoneType, list, tuple, dict, range, datetime.date, datetime.time, datetime.timedelta)
_JINJA = (Undefined, LoopContext, Macro, Namespace, Cycler, Joiner, TemplateReference, BlockReference)
_MAX_LABEL_CHARACTERS = 60


class _Namespace(Namespace):
    """Jinja's namespace without names of Python's internals."""

    def __init__(*args: Any, **kwargs: Any) -> None:  # as Jinja's, so that any name can be given
        for name in dict(*args[1:], **kwargs):
            _check_name(name)
        Namespace.__init__(*args, **kwargs)

    def __setitem__(self, name: str, value: Any) -> None:
        _check_name(name)
        super().__setitem__(name, value)


def _check_name(name: object) -> None:
    if str(name).startswith("_"):
        raise SecurityError(f"a template must not set {name!r}")


class _LimitedTemplate(Template):
    def render(self, *args: Any, **kwargs: Any) -> str:
        label = getattr(self, "label", "A template")
        try:
            with limited(label):
                text = super().render(*args, **kwargs)
        except SecurityError as error:
            raise WinaError(f"{label} is refused ({error}); correct the template.") from error
        if len(text) > MAX_RENDERED_CHARACTERS:
            raise WinaError(f"{label} renders to {len(text):,} characters; correct the template.")
        return text


class TaskEnvironment(ImmutableSandboxedEnvironment):
    """Sandbox whose templates see plain data only."""

    template_class = _LimitedTemplate

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        return isinstance(obj, (*_PLAIN, *_JINJA)) and super().is_safe_attribute(obj, attr, value)

    def from_string(self, source: Any, *args: Any, **kwargs: Any) -> Template:
        """Compile a template within the limits: constants are computed here."""
        text = " ".join(str(source).split())
        label = f"The template {text if len(text) <= _MAX_LABEL_CHARACTERS else f'{text[:_MAX_LABEL_CHARACTERS]}...'!r}"
        with limited(label):
            template = super().from_string(source, *args, **kwargs)
        template.label = label  # type: ignore[attr-defined]
        return template


class LimitedLiterals:
    """The part of the module ast with which lm-eval reads lists from rendered texts."""

    @staticmethod
    def literal_eval(text: str) -> Any:
        """Return the value of a Python literal; WinaError for a long one, which takes 500 times its memory."""
        if len(text) > MAX_LITERAL_CHARACTERS:
            raise WinaError(f"A template renders to a list of {len(text):,} characters; correct the template.")
        return ast.literal_eval(text)


def task_environment(stock: Any) -> TaskEnvironment:
    """Return the environment with the filters and tests of lm-eval's own."""
    environment = TaskEnvironment(loader=BaseLoader(), undefined=StrictUndefined, keep_trailing_newline=True)
    environment.filters.update(stock.filters)
    environment.tests.update(stock.tests)
    environment.globals["namespace"] = _Namespace
    return environment


WRITTEN_FOR = "0.4.13"


def _incompatible(reason: str) -> WinaError:
    return WinaError(
        f"lm-eval {version('lm-eval')} does not fit the workbench ({reason}); "
        f"install the version that it was written for: pip install lm-eval=={WRITTEN_FOR}."
    )


try:
    import lm_eval.api.task
    import lm_eval.tasks
    import lm_eval.utils
    from lm_eval.api.metrics import bits_per_byte, weighted_perplexity
    from lm_eval.api.registry import metric_registry as metric_registry
    from lm_eval.api.task import ConfigurableTask as ConfigurableTask
    from lm_eval.evaluator import evaluate as evaluate
    from lm_eval.models.huggingface import HFLM as HFLM
    from lm_eval.models.utils import normalize_gen_kwargs as normalize_gen_kwargs
    from lm_eval.tasks import TaskManager as TaskManager
    from lm_eval.tasks._factory import TaskFactory as TaskFactory
    from lm_eval.tasks._index import Entry as Entry
    from lm_eval.tasks._index import Kind as Kind
    from lm_eval.tasks._index import TaskIndex as TaskIndex
    from lm_eval.tasks._yaml_loader import _import_func_in_yml
    from lm_eval.tasks._yaml_loader import load_yaml as load_yaml
    from lm_eval.utils import handle_non_serializable as handle_non_serializable
except ImportError as error:
    raise _incompatible(str(error)) from error


import_stock_function = _import_func_in_yml
_USED = {
    HFLM: ("_loglikelihood_tokens", "_model_call", "loglikelihood_rolling", "set_cache_hook", "tok_encode"),
    TaskFactory: ("_build_task", "_load_full_config"),
    TaskIndex: ("_kind_of", "build", "process_cfg"),
    TaskManager: ("load", "task_index"),
}
"""Methods that the workbench calls or overrides."""
STOCK_FOLDER = Path(lm_eval.tasks.__file__).parent


def check_interface() -> None:
    """Raise WinaError if lm-eval lacks a method that the workbench calls or overrides."""
    missing = [
        f"{owner.__name__}.{name}" for owner, names in _USED.items() for name in names if not hasattr(owner, name)
    ]
    if missing:
        raise _incompatible(f"it lacks {', '.join(missing)}")


check_interface()
env = task_environment(lm_eval.utils.env)
"""The environment of all tasks' templates, in place of lm-eval's, which runs any code of a template."""
# Functions of `lm_eval.utils` look the name up at each call.
lm_eval.utils.env = env
lm_eval.api.task.ast = LimitedLiterals


@contextmanager
def compile_templates_once() -> Iterator[None]:
    """Compile each template of a task once within the block.

    lm-eval compiles it for every document and again for each of its examples: 6 ms a document with MMLU's five.
    """
    with attributes(env, from_string=lru_cache(maxsize=256)(env.from_string)):
        yield


@contextmanager
def without_bars() -> Iterator[None]:
    """Load tasks and build their requests without progress bars within the block: progress is the reporter's."""
    were_enabled = not datasets.are_progress_bars_disabled()
    datasets.disable_progress_bars()
    try:
        with attributes(lm_eval.api.task, tqdm=lambda documents, **_: documents):
            yield
    finally:
        if were_enabled:
            datasets.enable_progress_bars()


def use_factory(manager: Any, factory: Any) -> None:
    if not hasattr(manager, "_factory"):
        raise _incompatible("it lacks TaskManager._factory")
    manager._factory = factory


def filter_names(task: Any) -> list[str]:
    if not hasattr(task, "_filters"):
        raise _incompatible("it lacks ConfigurableTask._filters")
    return [task_filter.name for task_filter in task._filters]


def entry_of(name: str, file: Path) -> Any:
    config = load_yaml(file, resolve_func=False)
    return Entry(name, TaskIndex._kind_of(config), file, config)


def index_of(folder: Path) -> Mapping[str, Any]:
    entries: Mapping[str, Any] = TaskIndex.build([folder])
    return entries


_WEIGHTED = (weighted_perplexity, bits_per_byte)
"""Aggregations over pairs (log-likelihood, weight)."""


def sample_records(
    task: str, aggregations: Mapping[str, Any], logged: Iterable[Mapping[str, Any]]
) -> list[SampleRecord]:
    """Return one record for each document of a task, in the data's order.

    `logged` are lm-eval's samples, one for each document and filter. With v and w of all documents, a mean metric is
    sum(v) / sum(w), a perplexity exp(-sum(v) / sum(w)), and bits_per_byte -sum(v) / sum(w) / log 2, to the last
    digit. Metrics of whole corpora, such as f1 or bleu, have no score of a document and are left out.
    """
    scores: dict[int, dict[str, tuple[float, float]]] = {}
    first: dict[int, Mapping[str, Any]] = {}
    for sample in logged:
        first.setdefault(sample["doc_id"], sample)
        document_scores = scores.setdefault(sample["doc_id"], {})
        for metric in sample["metrics"]:
            score = _score(sample[metric], aggregations.get(metric))
            if score is not None:
                document_scores[metric_name(metric, sample["filter"])] = score
    return [
        SampleRecord(
            task=task,
            doc=doc,
            scores=scores[doc],
            target=_text(sample["target"]),
            response=_json([_answer(answers) for answers in sample["resps"]]),
        )
        for doc, sample in sorted(first.items())
    ]


def metric_name(metric: str, filter_name: str) -> str:
    """Return lm-eval's "metric,filter", without the filter "none"."""
    return metric if filter_name == "none" else f"{metric},{filter_name}"


def _score(value: Any, aggregation: Any) -> tuple[float, float] | None:
    if isinstance(value, (Real, np.bool_)):
        return float(value), 1.0
    if aggregation in _WEIGHTED:
        log_likelihood, weight = value
        return float(log_likelihood), float(weight)
    return None


def _answer(repeats: list[Any]) -> Any:
    answers = [answer[0] if isinstance(answer, tuple) else answer for answer in repeats]
    return answers[0] if len(answers) == 1 else answers


def _text(value: Any) -> str:
    return value if isinstance(value, str) else _json(value)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=handle_non_serializable)
