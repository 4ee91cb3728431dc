"""Studies made from the Evaluate page's choice."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import ValidationError

from wina_app.style.number_format import fraction
from wina_core.errors import WinaError, explain
from wina_core.specs import (
    DENSE,
    NO_ROTATION,
    AllocatorSpec,
    CalibrationSpec,
    Configuration,
    MethodSpec,
    ModelSource,
    RotationSpec,
    TextSpec,
    Thresholds,
)
from wina_core.specs.evaluations import Scored
from wina_core.specs.methods import get_method
from wina_core.specs.plans import SparsityPlan
from wina_core.specs.presets import with_text_source
from wina_core.specs.studies import StudySpec
from wina_core.studies.launch import StudyOptions, study_of

DEMO_TASKS = ("demo_choice", "demo_ppl")
FIRST_TASKS, FIRST_DOCUMENTS, FIRST_TOKENS, FIRST_SPARSITIES = ("demo_choice",), 50, 4096, "50, 65"
"""First choice for the demo: a comparison of about a minute, like the study demo-quick."""


@dataclass(frozen=True)
class EvaluationChoice:
    """Ticked and typed choice."""

    name: str
    tasks: tuple[str, ...]
    task_folders: tuple[str, ...]
    data_folder: str
    """Folder with local data; empty for the Hub."""
    limit: int | None
    num_fewshot: int | None
    batch_size: int | Literal["auto"]
    dense_prefix: float
    fidelity: str | None
    """Source of the text for the fidelity to the same model without gates; None for no such fidelity."""
    fidelity_tokens: int
    calibration: str
    thresholds: Thresholds
    methods: tuple[MethodSpec, ...]
    rotations: tuple[RotationSpec, ...]
    configurations: tuple[Configuration, ...]
    """Presets with a rotation, beside every method on every rotation."""
    sparsities: str
    """Percentages as typed."""
    allocators: tuple[AllocatorSpec, ...]
    with_plan: bool
    original: str | None = None
    """Source of the text for the fidelity to the original model, likewise."""
    second_half: bool = False
    """True to compare only the second half of each row of the text, as llama-perplexity does."""
    cost_context: int | None = None
    """Positions that a token attends to, to count its cost; None not to."""
    chat_template: bool = False
    """True to ask the tasks within the model's chat template."""
    samples: bool = False
    """True to store every document's completions; changes no number."""
    run_model_code: bool = False
    """Consent to run code that the model writes, for this launch only; changes no number."""


def parse_sparsities(text: str) -> tuple[float, ...]:
    """Parse "25, 40 65" to (0.25, 0.4, 0.65), sorted and unique. Raise WinaError for a wrong entry."""
    values = set()
    for word in filter(None, re.split(r"[\s,;]+", text)):
        try:
            value = fraction(float(word.removesuffix("%")))
        except ValueError:
            raise WinaError(f'"{word}" is not a number; list sparsities in percent, for example 25, 40, 65.') from None
        if not 0 <= value < 1:
            raise WinaError(f"A sparsity of {word} % is not possible; each must be at least 0 and below 100 %.")
        values.add(value)
    return tuple(sorted(values))


def build_study(choice: EvaluationChoice, source: ModelSource, plan: SparsityPlan | None) -> StudySpec:
    """Return the chosen study. Raise WinaError if something is missing or contradictory."""
    sparse = [method for method in choice.methods if method.name != DENSE.name]
    dense = [Configuration()] if len(sparse) < len(choice.methods) else []
    configurations = [
        *(Configuration(rotation=rotation, method=method) for method in sparse for rotation in choice.rotations),
        *(with_text_source(each, choice.calibration) for each in choice.configurations),
    ]
    sparsities = parse_sparsities(choice.sparsities)
    plans = (plan,) if choice.with_plan and plan is not None else ()
    if not choice.methods and not choice.configurations:
        raise WinaError("No method is chosen; tick at least one.")
    if sparse and not choice.rotations:
        raise WinaError("No rotation is chosen; tick at least one, or none as a rotation.")
    if configurations and not sparsities and not plans:
        raise WinaError("No sparsity is given; list some in percent or include the current plan.")
    if sparsities and not choice.allocators and any(not configuration.allocators for configuration in configurations):
        raise WinaError("No allocation is chosen; tick at least one, for example uniform.")
    for method in (
        {configuration.method for configuration in configurations} if AllocatorSpec() in choice.allocators else ()
    ):
        for sparsity in sparsities:
            get_method(method).cell_target("down", sparsity)  # raises for a level out of its reach
    if not choice.tasks and choice.fidelity is None and choice.original is None:
        raise WinaError("Nothing would be measured; tick a task or a fidelity.")
    try:
        options = StudyOptions(
            name=choice.name.strip() or "Evaluation",
            model=source,
            configurations=(*dense, *dict.fromkeys(configurations)),
            sparsities=sparsities if configurations else (),
            allocators=(choice.allocators if configurations and sparsities else ()) or (AllocatorSpec(),),
            plans=plans if configurations else (),
            calibration=CalibrationSpec(
                text=CalibrationSpec().text.model_copy(update={"source": choice.calibration}),
                thresholds=choice.thresholds,
            ),
            tasks=choice.tasks,
            task_folders=choice.task_folders,
            data_folder=choice.data_folder.strip() or None,
            limit=choice.limit,
            num_fewshot=choice.num_fewshot,
            chat_template=choice.chat_template,
            batch_size=choice.batch_size,
            dense_prefix=choice.dense_prefix,
            fidelity=_text(choice.fidelity, choice),
            original=_text(choice.original, choice),
            cost_context=choice.cost_context or 0,
        )
        return study_of(options)
    except ValidationError as error:
        raise WinaError(explain(error)) from error


def _text(source: str | None, choice: EvaluationChoice) -> TextSpec | None:
    scored: Scored = "second_half" if choice.second_half else "all"
    return None if source is None else TextSpec(source=source, tokens=choice.fidelity_tokens, scored=scored)


def rotation_choices(current: RotationSpec, presets: Sequence[RotationSpec]) -> list[tuple[str, RotationSpec]]:
    """Return (label, rotation) of no rotation, the current one and the presets, each once."""
    choices = {NO_ROTATION.content_hash(): ("none", NO_ROTATION)}
    if not current.is_identity:
        choices[current.content_hash()] = (f"{current.label} (current)", current)
    for preset in presets:
        if not preset.is_identity:
            choices.setdefault(preset.content_hash(), (preset.label, preset))
    return list(choices.values())
