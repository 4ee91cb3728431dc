"""`wina eval` and `wina synthetic`: studies made from options."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from wina_core.api.arguments import allocator_spec
from wina_core.api.studies import compute_study
from wina_core.cli import makers, options
from wina_core.cli.makers import combine_on, machines_of
from wina_core.cli.options import ALLOCATORS, in_evaluation, in_gate, in_output, with_flags_of
from wina_core.cli.study import run_study
from wina_core.cli.tables import print_table
from wina_core.files.hardware import allow_memory
from wina_core.model_info.resolve import resolve
from wina_core.model_info.sizes import has_short_weights
from wina_core.records.imports import scored_beside
from wina_core.specs import (
    COST_CONTEXT,
    DENSE,
    SYNTHETIC,
    Configuration,
    EvaluationSpec,
    MethodSpec,
    ModelSource,
    NetworkName,
    Quantization,
    RotationSpec,
    SyntheticSpec,
)
from wina_core.specs.studies import StudySpec
from wina_core.store import MetricFilter, MetricRow, Store
from wina_core.studies import published
from wina_core.studies.expand import save_study_file
from wina_core.studies.launch import LaunchOptions, StudyOptions, study_of

COLUMNS = ("network", "method", "sparsity", "error", "deviation", "paper", "paper deviation", "inside")


@with_flags_of(
    quantization=makers.quantization_of,
    method=makers.method_spec,
    rotation=makers.rotation_spec,
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
    again: options.Again = False,
    yes: options.Yes = False,
    name: Annotated[str | None, in_output(help="The study's name in the database.")] = None,
    save_study: Annotated[Path | None, in_output(help="Also write the study as a .toml or .json file.")] = None,
    samples: options.Samples = False,
    machine: options.Machines = None,
    database: options.Database = None,
    as_json: options.Json = False,
) -> None:
    """Evaluate one method at several sparsities; store and print the results, as `wina study run` does.

    A model of 16 bits is also compared dense with its original in float32, to show what the data type costs.
    """
    configuration = combine_on(calibration_text, command, method, rotation, preset)
    if allocator:  # replaces those of the preset
        configuration = configuration.model_copy(update={"allocators": ()})
    plans, quantization = makers.plans_of(plan or (), quantization)
    source = ModelSource.model_validate(
        {"location": model, "dtype": dtype, "device": device, "quantization": quantization}
    )
    if second_half is None:
        with Store(database) as store:
            imports = store.imports()
        scored = scored_beside(imports, resolve(source)) if imports else "all"
    else:
        scored = "second_half" if second_half else "all"
    compared = {"source": text, "tokens": tokens, "scored": scored}
    with_original = fidelity if original is None else original
    configurations = [configuration]
    if with_original and quantization == "none" and method.name != DENSE.name and has_short_weights(source):
        # The dense model's KL from the original in float32 is what the data type costs, the floor of every other one's.
        configurations.insert(0, Configuration())
    allow_memory(memory)
    study = study_of(
        StudyOptions(
            name=name or f"{preset or method.name} on {model}",
            model=source,
            configurations=configurations,
            sparsities=sparsity or (() if plan or configuration.method.name == DENSE.name else (0.5,)),
            allocators=[allocator_spec(algorithm, data_folder=data_folder) for algorithm in allocator or ("uniform",)],
            plans=plans,
            calibration={
                "text": {"source": calibration_text, "tokens": calibration_tokens},
                "thresholds": thresholds,
            },
            tasks=[task for names in tasks or () for task in names.split(",") if task],
            task_folders=[str(folder.absolute()) for folder in include_path or ()],
            data_folder=data_folder,
            limit=limit,
            num_fewshot=num_fewshot,
            chat_template=apply_chat_template,
            batch_size=int(batch_size) if batch_size.isascii() and batch_size.isdigit() else batch_size,
            seed=seed,
            dense_prefix=dense_prefix,
            fidelity=compared if fidelity else None,
            original=compared if with_original else None,
            cost_context=context,
        )
    )
    if save_study:
        save_study_file(study, save_study)
    if model != "demo" and text.startswith("demo:") and (fidelity or with_original):
        typer.echo(f"{text} is CPython's documentation, the demo's domain; measure on prose, too: --text.", err=True)
    launch = LaunchOptions(
        recompute=again,
        samples=samples,
        run_model_code=run_model_code,
        trust_task_code=trust_task_code,
        machines=machines_of(machine),
    )
    run_study(study, launch, database, as_json, engines=engines, yes=yes)


def synthetic(
    network: Annotated[NetworkName | None, typer.Option(help="The kind of network; both by default.")] = None,
    seeds: Annotated[int, typer.Option(help="Number of random networks of each kind.")] = 20,
    sparsity: Annotated[
        list[float] | None, typer.Option(help="Repeatable: fraction to drop; the paper's four by default.")
    ] = None,
    again: options.Again = False,
    machine: options.Machines = None,
    database: options.Database = None,
    as_json: options.Json = False,
) -> None:
    """Repeat the paper's table of random column-orthogonal networks.

    Measures, stores and prints the errors of TEAL (here equal to CATS), R-Sparse and WINA: mean and standard deviation
    over the seeds, and whether the mean lies inside the paper's error bar.
    """
    networks = (network,) if network else SyntheticSpec().networks
    methods = (MethodSpec(name="teal"), MethodSpec(name="rsparse", rho=0.98), MethodSpec(name="wina"))
    study = StudySpec(
        name=SYNTHETIC,
        models=(ModelSource(location=SYNTHETIC),),
        configurations=tuple(Configuration(method=method) for method in methods),
        sparsities=tuple(sparsity or published.ERROR_SPARSITIES),
        evaluation=EvaluationSpec(synthetic=SyntheticSpec(networks=networks, size=published.ERROR_SIZE, seeds=seeds)),
    )
    with Store(database) as store:
        launch = LaunchOptions(recompute=again, machines=machines_of(machine))
        computed = compute_study(study, launch, store)
        rows = store.metric_rows(MetricFilter(study=computed.study))
    print_table(COLUMNS, comparison(rows), as_json)
    computed.check()


def comparison(rows: Iterable[MetricRow]) -> list[tuple[Any, ...]]:
    """Return a line of COLUMNS for each network, method and sparsity."""
    cells: dict[tuple[str, str, float], dict[str, float]] = {}
    for row in rows:
        cells.setdefault((row.task, row.method, row.target_sparsity), {})[row.metric] = row.value
    lines: list[tuple[Any, ...]] = []
    for (network, method, sparsity), values in sorted(cells.items(), key=lambda cell: cell[0][0]):
        error = values["error"]
        bar = published.paper_error(network, method.partition(" ")[0], sparsity)
        theirs = (None, None, None) if bar is None else (bar.mean, bar.deviation, "yes" if bar.holds(error) else "no")
        lines.append((network, method, sparsity, error, values["error_deviation"], *theirs))
    return lines
