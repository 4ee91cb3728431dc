"""lm-eval's inner modules: a version without one of them is refused with a sentence."""

import lm_eval.tasks._factory
import pytest

from wina_core.compute.evaluation import lm_eval_adapter
from wina_core.errors import WinaError


def test_a_missing_method_is_refused(monkeypatch):
    monkeypatch.delattr(lm_eval.tasks._factory.TaskFactory, "_build_task")
    with pytest.raises(WinaError, match=r"lacks TaskFactory\._build_task.*pip install lm-eval==0\.4\.13"):
        lm_eval_adapter.check_interface()
