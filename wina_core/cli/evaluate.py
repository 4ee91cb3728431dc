"""`wina eval`: a study of one method, made from options."""

from pathlib import Path
from typing import Annotated, Any

import typer

from wina_core.cli.arguments import options
from wina_core.cli.arguments.configuration import combine_on
from wina_core.cli.arguments.flags import taking
from wina_core.cli.arguments.options import ALLOCATORS, in_evaluation, in_gate, in_output
from wina_core.cli.computing import RunOptions, run_study
from wina_core.model_info.resolve import resolve
from wina_core.model_info.sizes import has_short_weights
from wina_core.records.imports import scored_beside
from wina_core.specs import COST_CONTEXT, DENSE, Configuration, MethodSpec, ModelSource, Quantization, RotationSpec
from wina_core.specs.machine import RayCluster
from wina_core.specs.studies import StudySpec
from wina_core.specs.texts import Scored
from wina_core.store import Store
from wina_core.studies.expand import save_study_file


@taking(
    quantization=options.quantization_of,
    method=options.method_spec,
    rotation=options.rotation_spec,
    ray=options.ray_options,
)
def evaluate(
    command: typer.Context,
    *,
    model: options.ModelOption = "demo",
    dtype: options.Dtype = "auto",
    device: options.Device = "auto",
    memory: options.Memory = None,
    quantization: Quantization,
    method: MethodSpec,
    rotation: RotationSpec,
    preset: options.Preset = None,
    sparsity: options.Sparsities = None,
    plan: options.Plans = None,
    allocator: Annotated[list[str] | None, in_gate(help=f"Repeatable: {', '.join(ALLOCATORS)}.")] = None,
    calibration_text: options.CalibrationText = options.CALIBRATION_TEXT.source,
    calibration_tokens: options.CalibrationTokens = options.CALIBRATION_TEXT.tokens,
    thresholds: options.Thresholds = "gated",
    dense_prefix: options.DensePrefix = 0.0,
    tasks: Annotated[list[str] | None, in_evaluation(help="lm-eval tasks; repeatable or comma-separated.")] = None,
    include_path: Annotated[
        list[Path] | None, in_evaluation(help="Repeatable: a folder of lm-eval task files.")
    ] = None,
    data_folder: options.DataFolder = None,
    limit: Annotated[int | None, in_evaluation(help="Documents per task; all by default.")] = None,
    num_fewshot: Annotated[
        int | None, in_evaluation(help="Examples in the prompt; the task's own number by default.")
    ] = None,
    apply_chat_template: Annotated[
        bool,
        in_evaluation(help="Ask the tasks within the model's chat template, few-shot examples as earlier turns."),
    ] = False,
    batch_size: Annotated[
        str, in_evaluation(help='Sequences per batch; "auto" takes as many as memory allows.', metavar="COUNT")
    ] = "16",
    seed: Annotated[int, in_evaluation(help="Random seed of few-shot examples and generation.")] = 1234,
    fidelity: Annotated[
        bool, in_evaluation(help="Compare logits with the same model's without gates: KL divergence and more.")
    ] = True,
    original: Annotated[
        bool | None,
        in_evaluation(
            help="Compare them with the original's: dense, unrotated, unquantized. By default as --fidelity.",
        ),
    ] = None,
    text: options.Text = "demo:heldout",
    tokens: options.Tokens = 16_384,
    second_half: Annotated[
        bool | None,
        in_evaluation(
            help="Compare only the second half of each row of the text, as llama-perplexity does; by default where its "
            "results are imported for the model."
        ),
    ] = None,
    context: Annotated[
        int | None,
        in_evaluation(
            help="Positions that a token attends to, to count its cost; 0 not to count it. By default "
            f"{COST_CONTEXT:,} where anything else is measured.",
            min=0,
        ),
    ] = None,
    run_model_code: options.RunModelCode = False,
    trust_task_code: options.TrustTaskCode = False,
    engines: options.Engines = None,
    ray: RayCluster | None,
    again: options.Again = False,
    _yes: options.Yes = False,
    name: Annotated[str | None, in_output(help="The study's name in the database.")] = None,
    save_study: Annotated[Path | None, in_output(help="Also write the study as a .toml or .json file.")] = None,
    samples: options.Samples = False,
    _machine: options.Machines = None,
    database: options.Database = None,
    as_json: options.Json = False,
) -> None:
    """Evaluate one method at several sparsities; store and print the results, as `wina study run` does.

    A model of 16 bits is also compared dense with its original in float32, to show what the data type costs.
    """
    configuration = combine_on(calibration_text, command, method, rotation, preset)
    if allocator:
        configuration = configuration.model_copy(update={"allocators": ()})
    plans, quantization = options.plans_of(plan or (), quantization)
    source = ModelSource.model_validate(
        {"location": model, "dtype": dtype, "device": device, "quantization": quantization}
    )
    measured_on = {"source": text, "tokens": tokens, "scored": _scored(second_half, source, database)}
    evaluation: dict[str, Any] = {
        "tasks": [task for given in tasks or () for task in given.split(",") if task],
        "task_folders": [str(folder.absolute()) for folder in include_path or ()],
        "data_folder": data_folder,
        "limit": limit,
        "num_fewshot": num_fewshot,
        "chat_template": apply_chat_template,
        "batch_size": int(batch_size) if batch_size.isascii() and batch_size.isdigit() else batch_size,
        "seed": seed,
        "dense_prefix": dense_prefix,
        "fidelity": measured_on if fidelity else None,
        "original": measured_on if original or (original is None and fidelity) else None,
    }
    options.allow_memory(memory)
    measured = any(evaluation[name] for name in ("tasks", "fidelity", "original"))
    evaluation["cost_context"] = (COST_CONTEXT if measured and context is None else context) or None
    study = StudySpec.model_validate(
        {
            "name": name or f"{preset or method.name} on {model}",
            "models": [source],
            "configurations": [*_floor(source, configuration, evaluation["original"]), configuration],
            "sparsities": sparsity or (() if plan or configuration.method.name == DENSE.name else (0.5,)),
            "allocators": [options.allocator_spec(each) for each in allocator or ("uniform",)],
            "plans": plans,
            "calibration": {
                "text": {"source": calibration_text, "tokens": calibration_tokens},
                "thresholds": thresholds,
            },
            "evaluation": evaluation,
        }
    )
    if save_study:
        save_study_file(study, save_study)
    if model != "demo" and text.startswith("demo:") and measured_on in (evaluation["fidelity"], evaluation["original"]):
        typer.echo(f"{text} is CPython's documentation, the demo's domain; measure on prose, too: --text.", err=True)
    manner = RunOptions(
        again=again,
        samples=samples,
        run_model_code=run_model_code,
        trust_task_code=trust_task_code,
        engines=engines,
        ray=ray,
    )
    run_study(study, manner, database, as_json)


def _scored(second_half: bool | None, model: ModelSource, database: str | None) -> Scored:
    if second_half is None:
        with Store(database) as store:
            imports = store.imports()
        return scored_beside(imports, resolve(model)) if imports else "all"
    return "second_half" if second_half else "all"


def _floor(model: ModelSource, configuration: Configuration, original: object) -> list[Configuration]:
    """Return the dense configuration where its KL from the original in float32 is what the data type costs."""
    changed = model.quantization == "none" and configuration.method.name != DENSE.name
    return [Configuration()] if original and changed and has_short_weights(model) else []
