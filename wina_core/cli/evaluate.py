"""`wina eval`: a study of one method, from flags."""

from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from wina_core.cli import options
from wina_core.cli.computing import RunOptions, run_study
from wina_core.cli.flags import taking
from wina_core.specs import DENSE, MethodSpec, RotationSpec, Thresholds
from wina_core.specs.plans import load_plan
from wina_core.specs.studies import StudySpec
from wina_core.studies.expand import save_study_file


@taking(method=options.method_spec, rotation=options.rotation_spec)
def evaluate(
    *,
    model: options.ModelOption = "demo",
    method: MethodSpec,
    rotation: RotationSpec,
    preset: options.Preset = None,
    sparsity: Annotated[
        list[float] | None, typer.Option(help="Repeatable: dropped fraction, [0, 1); 0.5 is 50 %.")
    ] = None,
    allocator: Annotated[
        list[str] | None,
        typer.Option(help=f"Repeatable: how each sparsity is spread, {', '.join(get_args(options.AllocatorName))}."),
    ] = None,
    plan: Annotated[list[Path] | None, typer.Option(help="Repeatable: a sparsity plan's JSON file.")] = None,
    tasks: Annotated[list[str] | None, typer.Option(help="lm-eval tasks; repeatable or comma-separated.")] = None,
    task_folder: Annotated[list[Path] | None, typer.Option(help="Repeatable: a folder of lm-eval task files.")] = None,
    data_folder: options.DataFolder = None,
    limit: Annotated[int | None, typer.Option(help="Documents per task; all by default.")] = None,
    fewshot: Annotated[int | None, typer.Option(help="Examples in the prompt; the task's own by default.")] = None,
    batch_size: Annotated[
        str, typer.Option(help='Sequences per batch; "auto" for as many as memory allows.', metavar="COUNT")
    ] = "16",
    seed: Annotated[int, typer.Option(help="Seed of few-shot sampling and generation.")] = 1234,
    dense_prefix: Annotated[float, typer.Option(help="Fraction of a sequence's first tokens left dense.")] = 0.0,
    deviation: Annotated[bool, typer.Option(help="Compare the logits with the dense model's.")] = True,
    text: options.Text = "demo:heldout",
    tokens: options.Tokens = 16_384,
    calibration_text: Annotated[
        str, typer.Option(help="The text of the thresholds' calibration, as demo:calibration or a file.")
    ] = options.CALIBRATION_TEXT.source,
    calibration_tokens: Annotated[int, typer.Option(help="Tokens of it to read.")] = options.CALIBRATION_TEXT.tokens,
    thresholds: Annotated[
        Thresholds, typer.Option(help="Corrected in the gated model, or the dense model's, as released.")
    ] = "gated",
    dtype: options.Dtype = "auto",
    device: options.Device = "auto",
    quantization: options.Quantization = "none",
    name: Annotated[str | None, typer.Option(help="The study's name in the store.")] = None,
    save_study: Annotated[Path | None, typer.Option(help="Also write the study as a .toml or .json file.")] = None,
    samples: options.Samples = False,
    run_model_code: options.RunModelCode = False,
    engines: options.Engines = 1,
    again: options.Again = False,
    database: options.Database = None,
    as_json: options.Json = False,
) -> None:
    """Evaluate one method at some sparsities, and store and print the results: the same path as `study run`."""
    arm = options.arm(preset, rotation, method)
    evaluation: dict[str, Any] = {
        "tasks": [task for given in tasks or () for task in given.split(",") if task],
        "task_folders": [str(folder.absolute()) for folder in task_folder or ()],
        "data_folder": data_folder,
        "limit": limit,
        "num_fewshot": fewshot,
        "batch_size": int(batch_size) if batch_size.isascii() and batch_size.isdigit() else batch_size,
        "seed": seed,
        "dense_prefix": dense_prefix,
        "deviation": {"source": text, "tokens": tokens} if deviation else None,
    }
    study = StudySpec.model_validate(
        {
            "name": name or f"{preset or method.name} on {model}",
            "models": [{"location": model, "dtype": dtype, "device": device, "quantization": quantization}],
            "arms": [arm],
            "sparsities": sparsity or (() if plan or arm.method.name == DENSE.name else (0.5,)),
            "allocators": [options.allocator_spec(each) for each in allocator or ("uniform",)],
            "plans": [load_plan(file) for file in plan or ()],
            "calibration": {
                "text": {"source": calibration_text, "tokens": calibration_tokens},
                "thresholds": thresholds,
            },
            "evaluation": evaluation,
        }
    )
    if save_study:
        save_study_file(study, save_study)
    manner = RunOptions(again=again, samples=samples, run_model_code=run_model_code, engines=engines)
    run_study(study, manner, database, as_json)
