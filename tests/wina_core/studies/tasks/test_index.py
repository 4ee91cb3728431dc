"""The index of stock tasks: what it lists, how it is searched, and what becomes of a file that cannot be read."""

from collections.abc import Iterator

import pytest

from tests.wina_core.conftest import Wina
from wina_core.compute.evaluation import index
from wina_core.compute.evaluation.lm_eval_adapter import TaskIndex as StockIndex
from wina_core.studies.tasks.index import TaskEntry, TaskIndex, index_file, load_index, save_index

NAMES = ("gsm8k", "gsm8k_cot", "gsm_plus", "hellaswag", "piqa")


def entry(name: str) -> TaskEntry:
    return TaskEntry(name, "task", "multiple_choice", f"{name}.yaml")


pytestmark = pytest.mark.usefixtures("home")


@pytest.fixture
def few_tasks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two of lm-eval's folders, since reading all takes long."""
    entries = StockIndex.build([index.STOCK_FOLDER / "mmlu" / "default", index.STOCK_FOLDER / "piqa"])
    monkeypatch.setattr(index, "stock_entries", lambda: entries)
    index.stock_index.cache_clear()
    yield
    index.stock_index.cache_clear()


@pytest.mark.usefixtures("few_tasks")
def test_the_index_is_built_once_from_the_installed_files() -> None:
    built = index.stock_index()
    entries = {each.name: each for each in built.entries}
    assert entries["piqa"] == TaskEntry("piqa", "task", "multiple_choice", "piqa/piqa.yaml")
    assert entries["mmlu"] == TaskEntry("mmlu", "group", "", "mmlu/default/_mmlu.yaml")
    assert entries["mmlu_stem_tasks"] == TaskEntry("mmlu_stem_tasks", "tag", "", "")
    assert [each.name for each in built.entries] == sorted(entries)
    kept = load_index()
    assert kept is not None
    assert kept.entries == built.entries


@pytest.mark.parametrize("content", ["{", "[[1, 2]]", "[" * 5000])
def test_a_file_that_is_no_index_counts_as_none(content: str) -> None:
    assert load_index() is None
    index_file().write_text(content)
    assert load_index() is None


def test_tasks_are_searched_from_the_command_line(wina: Wina) -> None:
    save_index(TaskIndex(map(entry, NAMES)))
    _, out, err = wina("tasks", "gsm8", "--limit", "2")
    assert [line.split()[0] for line in out.splitlines()] == ["name", "gsm8k", "gsm8k_cot"]
    assert "--limit shows more" in err
    assert wina.fails(1, "tasks", "zzzz") == 'wina: No lm-eval task matches "zzzz"; try a part of its name.'
