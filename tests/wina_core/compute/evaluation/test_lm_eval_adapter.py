"""lm-eval's inner modules: a version without one of them is refused with a sentence."""

import importlib
import sys

import lm_eval.tasks._factory
import pytest

from wina_core.compute.evaluation import lm_eval_adapter
from wina_core.errors import WinaError


def test_a_missing_method_is_refused(monkeypatch):
    monkeypatch.delattr(lm_eval.tasks._factory.TaskFactory, "_build_task")
    with pytest.raises(WinaError, match=r"lacks TaskFactory\._build_task.*pip install lm-eval==0\.4\.13"):
        lm_eval_adapter.check_interface()


def test_a_missing_module_is_refused(monkeypatch):
    monkeypatch.delitem(sys.modules, lm_eval_adapter.__name__)
    monkeypatch.setitem(sys.modules, "lm_eval.tasks._index", None)
    with pytest.raises(WinaError, match=r"lm_eval\.tasks\._index.*pip install lm-eval=="):
        importlib.import_module(lm_eval_adapter.__name__)


@pytest.mark.parametrize(
    "use", [lambda: lm_eval_adapter.use_factory(object(), None), lambda: lm_eval_adapter.filter_names(object())]
)
def test_a_missing_attribute_is_refused(use):
    with pytest.raises(WinaError, match=r"_fact|_filters"):
        use()
