"""Task templates render in the workbench's sandbox to the text that lm-eval's own environment renders."""

import datetime
from typing import Any

import lm_eval.tasks._factory
import pytest
from jinja2 import Environment, StrictUndefined, TemplateError, meta

from wina_core.compute import render_limits
from wina_core.compute.evaluation import lm_eval_adapter
from wina_core.compute.evaluation.lm_eval_adapter import STOCK_FOLDER, env
from wina_core.errors import WinaError
from wina_core.studies.tasks.task_folder import parse

FILES = (
    *("arc/arc_easy.yaml", "piqa/piqa.yaml", "hellaswag/hellaswag.yaml", "gsm8k/gsm8k.yaml", "sciq/sciq.yaml"),
    *("openbookqa/openbookqa.yaml", "winogrande/default.yaml", "super_glue/boolq/default.yaml", "race/race.yaml"),
    *("mmlu/default/_default_template_yaml", "mmlu_pro/_default_template_yaml", "gpqa/zeroshot/_gpqa_zeroshot_yaml"),
    *("truthfulqa/truthfulqa_mc1.yaml", "triviaqa/default.yaml", "humaneval/humaneval.yaml", "mbpp/mbpp.yaml"),
    *("longbench/2wikimqa.yaml", "drop/default.yaml", "logiqa/logiqa.yaml", "ifeval/ifeval.yaml", "bbh/_bbh.yaml"),
)
VALUES: tuple[Any, ...] = ("one\ntwo 3. #### 4", 2, ["a b", "c", "d"], {"text": ["x", "y"], "label": ["A", "B"]}, True)
OWN = (
    "{% for c in items %}{{ loop.index }}. {{ c|upper }}{% if not loop.last %}, {% endif %}{% endfor %}",
    "{% set ns = namespace(n=0) %}{% for c in items %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}",
    "{% macro m(x) %}<{{ x }}>{{ caller is defined }}{% endmacro %}{{ m(items[0]) }}",
    "{{ items|map('upper')|join(' ') }}{{ {'a': 1}.items()|list }}{{ '%05.1f' % 2.5 }}{{ '{:>5}'.format('x') }}",
    "{{ items[0].split(' ')[0].strip()|regex_replace('a', 'b') }}{{ day.year }}{{ day.strftime('%d') }}\n",
    "{{ dict(a=1)['a'] }}{{ cycler('x', 'y').next() }}{{ joiner(',')() }}{{ range(3)|list }}{{ items|tojson }}",
    "{{ missing }}",
    "{{ items.nothing }}",
    "{{ 1 / 0 }}",
)


@pytest.fixture(scope="module")
def stock() -> Environment:
    """lm-eval's environment, as it makes it."""
    made = Environment(undefined=StrictUndefined, keep_trailing_newline=True)
    made.filters.update(env.filters)
    return made


def rendered(environment: Any, template: str, document: dict[str, Any]) -> str:
    try:
        return environment.from_string(template).render(**document)
    except (TemplateError, TypeError, ValueError, ArithmeticError, LookupError) as error:
        return f"{type(error).__name__}: {error}"


def test_stock_templates_render_alike(stock: Environment) -> None:
    compared = 0
    for config in [parse((STOCK_FOLDER / file).read_bytes()) for file in FILES if (STOCK_FOLDER / file).exists()]:
        for template in {value for key, value in config.items() if key.startswith("doc_to") and type(value) is str}:
            names = meta.find_undeclared_variables(stock.parse(template))
            for value in VALUES:
                document = dict.fromkeys(names, value)
                assert rendered(env, template, document) == rendered(stock, template, document)
                compared += 1
    assert compared > 100


@pytest.mark.parametrize("template", OWN)
def test_every_honest_construct_renders_alike(stock: Environment, template: str) -> None:
    document = {"items": ["a b", "c"], "day": datetime.datetime(2024, 5, 6, tzinfo=datetime.UTC)}
    assert rendered(env, template, document) == rendered(stock, template, document)


def test_the_methods_of_a_documents_objects_are_out_of_reach(tmp_path: Any) -> None:
    new = pytest.importorskip("PIL.Image").new
    with pytest.raises(WinaError, match=r"'save' .* is unsafe"):
        env.from_string("{{ image.save(path) }}").render(image=new("L", (1, 1)), path=str(tmp_path / "canary.png"))
    assert not list(tmp_path.iterdir())


def test_the_limits_end_with_the_rendering(monkeypatch: pytest.MonkeyPatch) -> None:
    import resource
    import signal

    monkeypatch.setattr(render_limits, "SECONDS", 0.05)
    before = resource.getrlimit(resource.RLIMIT_AS), signal.getsignal(signal.SIGPROF)
    with pytest.raises(WinaError, match=r"0\.05 seconds of processor time"):
        env.from_string(
            "{% set l = range(9999)|list %}{% for a in l %}{% for b in l %}{% endfor %}{% endfor %}"
        ).render()
    with pytest.raises(WinaError, match="512 MiB of memory"):
        env.from_string("{{ 'a' * n }}").render(n=10**10)
    assert (resource.getrlimit(resource.RLIMIT_AS), signal.getsignal(signal.SIGPROF)) == before
    assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)


# ---- lm-eval's interface ---------------------------------------------------------------------------------------------


def test_a_missing_method_is_refused(monkeypatch):
    monkeypatch.delattr(lm_eval.tasks._factory.TaskFactory, "_build_task")
    with pytest.raises(WinaError, match=r"lacks TaskFactory\._build_task.*pip install lm-eval==0\.4\.13"):
        lm_eval_adapter.check_interface()
