"""Small lm-eval tasks of every output type, on data beside them."""

import json
from pathlib import Path
from typing import Any

from wina_core.specs import EvaluationSpec, TaskSpec
from wina_core.studies.tasks.task_folder import TaskFolder

CHOICE = """\
task: tiny_choice
dataset_path: json
dataset_kwargs:
  data_files:
    test: choice.jsonl
output_type: multiple_choice
test_split: test
fewshot_split: test
doc_to_text: "{{question}}"
doc_to_choice: "{{choices}}"
doc_to_target: answer
metric_list:
  - {metric: acc, aggregation: mean, higher_is_better: true}
  - {metric: acc_norm, aggregation: mean, higher_is_better: true}
"""
LIKELIHOOD = """\
task: tiny_likelihood
dataset_path: json
dataset_kwargs:
  data_files:
    test: choice.jsonl
output_type: loglikelihood
test_split: test
doc_to_text: "{{question}}"
doc_to_target: " {{choices[0]}}"
metric_list:
  - {metric: perplexity, aggregation: perplexity, higher_is_better: false}
  - {metric: acc, aggregation: mean, higher_is_better: true}
metadata: {version: 2.5}
"""
ROLLING = """\
task: tiny_rolling
dataset_path: json
dataset_kwargs:
  data_files:
    test: [rolling.jsonl]
output_type: loglikelihood_rolling
test_split: test
doc_to_text: ""
doc_to_target: "{{text}}"
metric_list:
  - {metric: bits_per_byte, aggregation: bits_per_byte, higher_is_better: false}
"""
GENERATE = """\
task: tiny_generate
dataset_path: json
dataset_kwargs:
  data_files:
    test: choice.jsonl
output_type: generate_until
test_split: test
doc_to_text: "{{question}}"
doc_to_target: "{{choices[0]}}"
generation_kwargs: {until: ["zzz"], max_gen_toks: 12}
metric_list:
  - {metric: exact_match, aggregation: mean, higher_is_better: true}
"""
_WORDS = ["matrix", "row", "column", "mask", "token", "gate", "norm", "score", "layer", "head", "rank", "sum"]


def write_tasks(folder: Path) -> Path:
    """The tasks tiny_choice (12 documents of 3 choices), tiny_likelihood, tiny_generate (12) and tiny_rolling (3)."""
    for name, text in {"choice": CHOICE, "likelihood": LIKELIHOOD, "rolling": ROLLING, "generate": GENERATE}.items():
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    questions = [
        {
            "question": f"A {word} and a",
            "choices": [_WORDS[index - 1], _WORDS[index - 2] + "s", word],
            "answer": index % 3,
        }
        for index, word in enumerate(_WORDS)
    ]
    write_rows(folder / "choice.jsonl", questions)
    write_rows(folder / "rolling.jsonl", [{"text": "the gate keeps what matters. " * count} for count in (1, 40, 3)])
    return folder


def spec_of(folder: Path, *tasks: str | TaskSpec, **fields: Any) -> EvaluationSpec:
    """An evaluation of these tasks of a folder alone, four requests at once."""
    return EvaluationSpec(tasks=tasks, task_folders=(str(folder),), **{"batch_size": 4, "fidelity": None, **fields})


def write_rows(file: Path, rows: list[dict]) -> None:
    """A JSONL file of these documents."""
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def consent(folder: Path) -> dict[str, str]:
    """The consent to run the code of a task folder as it is now."""
    read = TaskFolder(folder)
    return {str(read.path): read.digest}
