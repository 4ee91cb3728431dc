"""The environment of all task templates: lm-eval's, but sandboxed and limited.

It renders honest templates to the same text. Others can neither reach attributes that lead to code or files nor take
unlimited time and memory. Values of documents are plain data to it: the methods of an image or array stay out of reach.
"""

import ast
import datetime
from types import NoneType
from typing import Any

from jinja2 import BaseLoader, StrictUndefined, Template, Undefined
from jinja2.exceptions import SecurityError
from jinja2.runtime import BlockReference, LoopContext, Macro, TemplateReference
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Cycler, Joiner, Namespace

from wina_core.compute.render_limits import limited
from wina_core.errors import WinaError

MOST_CHARACTERS = 4 * 2**20
"""Length of a rendered text, some million tokens."""
LONGEST_LITERAL = 2**19
"""Length of a rendered list."""
_PLAIN = (str, bytes, int, float, NoneType, list, tuple, dict, range, datetime.date, datetime.time, datetime.timedelta)
_JINJA = (Undefined, LoopContext, Macro, Namespace, Cycler, Joiner, TemplateReference, BlockReference)
_SHOWN = 60


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
        what = getattr(self, "shown", "A template")
        try:
            with limited(what):
                text = super().render(*args, **kwargs)
        except SecurityError as error:
            raise WinaError(f"{what} is refused ({error}); correct the template.") from error
        if len(text) > MOST_CHARACTERS:
            raise WinaError(f"{what} renders to {len(text):,} characters; correct the template.")
        return text


class TaskEnvironment(ImmutableSandboxedEnvironment):
    """Sandbox whose templates see plain data only."""

    template_class = _LimitedTemplate

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Return whether a template may read an attribute: of plain data and Jinja's own objects."""
        return isinstance(obj, (*_PLAIN, *_JINJA)) and super().is_safe_attribute(obj, attr, value)

    def from_string(self, source: Any, *args: Any, **kwargs: Any) -> Template:
        """Compile a template within the limits: constants are computed here."""
        shown = " ".join(str(source).split())
        what = f"The template {shown if len(shown) <= _SHOWN else f'{shown[:_SHOWN]}...'!r}"
        with limited(what):
            template = super().from_string(source, *args, **kwargs)
        template.shown = what  # type: ignore[attr-defined]
        return template


class LimitedLiterals:
    """The part of the module ast with which lm-eval reads lists from rendered texts."""

    @staticmethod
    def literal_eval(text: str) -> Any:
        """Return the value of a Python literal; WinaError for a long one, which takes 500 times its memory."""
        if len(text) > LONGEST_LITERAL:
            raise WinaError(f"A template renders to a list of {len(text):,} characters; correct the template.")
        return ast.literal_eval(text)


def task_environment(stock: Any) -> TaskEnvironment:
    """Return the environment with the filters and tests of lm-eval's own."""
    environment = TaskEnvironment(loader=BaseLoader(), undefined=StrictUndefined, keep_trailing_newline=True)
    environment.filters.update(stock.filters)
    environment.tests.update(stock.tests)
    environment.globals["namespace"] = _Namespace
    return environment
