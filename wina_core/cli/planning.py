"""`wina calibrate`, `wina allocate` and `wina plan`: thresholds, and plans of sparsity and bits."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from wina_core.api.arguments import allocate_job, allocator_spec, calibrate_job, joint_job
from wina_core.cli import makers, options
from wina_core.cli.makers import IN_MEMORY, combine_on, confirm_and_run
from wina_core.cli.options import in_allocation, in_output, with_flags_of
from wina_core.cli.tables import print_pairs, print_table
from wina_core.errors import WinaError
from wina_core.files.tables import write_atomically
from wina_core.jobs import CostJob
from wina_core.model_info.resolve import resolve_rotation
from wina_core.records import LEAST_EXPERT_TOKENS, AllocationRecord, CalibrationRecord, CostRecord, JointRecord
from wina_core.records.texts import moment
from wina_core.specs import (
    DENSE,
    AllocatorSpec,
    JointSpec,
    MethodSpec,
    ModelSource,
    QuantizationSpec,
    RotationSpec,
    TextSpec,
    quantization_label,
)
from wina_core.specs.plans import PlanLayout, UniformSparsity, read_searched_shares
from wina_core.specs.quantization import load_pair
from wina_core.store import Store

CALIBRATED = {
    "own thresholds": "experts_with_own_threshold",
    "layer's thresholds": "experts_with_layer_threshold",
    "smallest share of tokens": "smallest_expert_share",
    "largest share of tokens": "largest_expert_share",
}
"""Columns of `calibrated_experts` after the layer, and their metrics in JSON."""


_DEFAULT = AllocatorSpec()
_SPARSITY = 0.5
plans = typer.Typer(
    help="Manage the plans saved in the database: target sparsities, and bits with them.", no_args_is_help=True
)
Name = Annotated[str, typer.Argument(help="A saved plan's name.")]
File = Annotated[Path, typer.Argument(help="A plan's JSON file, as `wina eval --plan` and `wina cost --plan` read it.")]


@with_flags_of(model=makers.model_source, method=makers.method_spec, rotation=makers.rotation_spec)
def calibrate(
    model: ModelSource,
    method: MethodSpec,
    rotation: RotationSpec,
    text: options.Text = options.CALIBRATION_TEXT.source,
    tokens: options.Tokens = options.CALIBRATION_TEXT.tokens,
    data_folder: options.TextFolder = None,
    yes: options.Yes = False,
    machine: options.Machines = None,
    database: options.Database = None,
    as_json: options.Json = False,
) -> None:
    """Measure and store score thresholds and output errors per layer, projection and sparsity."""
    job = calibrate_job(model, rotation, method, TextSpec(source=text, tokens=tokens), data_folder)
    record = confirm_and_run(job, CalibrationRecord, machine, yes, database)
    rows: list[Sequence[Any]] = [
        (layer.layer, layer.projection, layer.metric, layer.x, layer.value) for layer in record.layers
    ]
    experts = calibrated_experts(record)
    if as_json:
        rows += [
            (layer, None, metric, None, value)
            for layer, *numbers in experts
            for metric, value in zip(CALIBRATED.values(), numbers, strict=True)
        ]
    print_table(("layer", "projection", "metric", "sparsity", "value"), rows, as_json)
    if experts and not as_json:
        typer.echo(
            f"\nExperts that read at least {LEAST_EXPERT_TOKENS} of the {record.tokens:,} tokens have thresholds of "
            "their own, the others their layer's:"
        )
        print_table(("layer", *CALIBRATED), experts, as_json=False)


def calibrated_experts(record: CalibrationRecord) -> list[tuple[int, int, int, float, float]]:
    """Return for each layer with experts how many have thresholds of their own and how many take their layer's, and the
    smallest and the largest share of the text's tokens that an expert read."""
    layers: dict[int, list[float]] = {}
    for reads in record.experts:  # a layer's projections read the same tokens
        layers.setdefault(reads.layer, [value or 0.0 for value in reads.values])
    rows = []
    for layer, tokens in layers.items():
        calibrated = sum(count >= LEAST_EXPERT_TOKENS for count in tokens)
        rows.append(
            (layer, calibrated, len(tokens) - calibrated, min(tokens) / record.tokens, max(tokens) / record.tokens)
        )
    return rows


@with_flags_of(model=makers.model_source, method=makers.method_spec, rotation=makers.rotation_spec)
def allocate(
    context: typer.Context,
    model: ModelSource,
    method: MethodSpec,
    rotation: RotationSpec,
    preset: options.Preset = None,
    allocator: Annotated[
        str,
        in_allocation(
            metavar=f"[{'|'.join((*options.ALLOCATORS, 'joint'))}]",
            help="The search algorithm; joint chooses bits and sparsity of every matrix within --bits-read and "
            "--bits-held, for the quantizer of --bits' flags: planes by energy without them.",
        ),
    ] = "curves",
    sparsity: Annotated[
        float | None,
        in_allocation(help="The budget: fraction of all gated weights to drop, [0, 1).", show_default=str(_SPARSITY)),
    ] = None,
    step: Annotated[
        float, in_allocation(help="Greedy: sparsity added to q by a step. Other searches: the smallest move.")
    ] = _DEFAULT.step,
    rounds: Annotated[
        int | None,
        in_allocation(
            help="Largest number of refine's rounds or evolution's generations.", show_default=str(_DEFAULT.rounds)
        ),
    ] = None,
    seed: Annotated[
        int | None, in_allocation(help="Random seed of evolution.", show_default=str(_DEFAULT.seed))
    ] = None,
    text: options.Text = _DEFAULT.text.source,
    tokens: options.Tokens = _DEFAULT.text.tokens,
    data_folder: options.TextFolder = None,
    bits_read: Annotated[
        float | None,
        in_allocation(
            help="Joint: budget of bits read per token for each gated weight, with scales; planes need it, and their "
            "plan is made for --selection threshold."
        ),
    ] = None,
    bits_held: Annotated[
        float | None,
        in_allocation(
            help="Joint: budget of bits held for each gated weight, with scales; planes hold --bits, or 8, without it."
        ),
    ] = None,
    refined: Annotated[
        bool,
        in_allocation("--refined", help="Joint, in planes: also measure the divergence that each mask causes alone."),
    ] = False,
    output_path: Annotated[Path | None, in_output(help="Also write the plan to this JSON file.")] = None,
    yes: options.Yes = False,
    machine: options.Machines = None,
    database: options.Database = None,
    as_json: options.Json = False,
) -> None:
    """Spread a budget over layers and projections. If interrupted, the same command continues the search."""
    configuration = combine_on(text, context, method, rotation, preset)
    if preset:
        resolved = resolve_rotation(configuration.rotation, data_folder)
        configuration = configuration.model_copy(update={"rotation": resolved})
    settings: dict[str, Any] = {"step": step, "text": {"source": text, "tokens": tokens}}
    searched = {name: value for name, value in (("rounds", rounds), ("seed", seed)) if value is not None}
    if configuration.method.selection not in ("topk", "mixed") and allocator != "joint":
        raise WinaError(
            "An allocator searches with top-k selection, and its plan works with every selection; leave out "
            "--selection here, and give it to wina eval together with the plan."
        )
    if allocator == "joint":
        if sparsity is not None or searched:
            raise WinaError(
                "--sparsity, --rounds and --seed are for the other allocators; give joint its budgets with --bits-read "
                "and --bits-held."
            )
        if isinstance(model.quantization, QuantizationSpec):
            settings["quantization"] = model.quantization
        elif model.quantization != "none":
            raise WinaError(
                f"A joint allocation chooses the bits; leave out --quantization {model.quantization}, and give --bits "
                "and --quantizer for a quantizer other than planes."
            )
        joint = joint_job(
            model,
            configuration.rotation,
            configuration.method,
            data_folder=data_folder,
            bits_read=bits_read,
            bits_held=bits_held,
            refined=refined,
            **settings,
        )
        _print_joint(joint.spec, confirm_and_run(joint, JointRecord, machine, yes, database), output_path, as_json)
        return
    if bits_read is not None or bits_held is not None or refined:
        raise WinaError(
            "--bits-read, --bits-held and --refined need --allocator joint; the other allocators spread --sparsity."
        )
    spec = allocator_spec(allocator, data_folder=data_folder, **settings, **searched)
    budget = _SPARSITY if sparsity is None else sparsity
    job = allocate_job(model, configuration.rotation, configuration.method, budget, spec)
    record = confirm_and_run(job, AllocationRecord, machine, yes, database)
    if output_path:
        write_atomically(output_path, (record.plan.model_dump_json(indent=1) + "\n").encode())
    if as_json:
        typer.echo(record.model_dump_json(indent=1))
        return
    summary = {"allocator": record.plan.provenance, "sparsity": record.plan.budget, record.objective: record.value}
    if record.bound is not None:
        summary["lower bound"] = record.bound
    effort = {"forward passes": record.evaluations, "seconds": record.seconds, "saved in": output_path}
    print_pairs(summary | effort)
    _print_cells(record.plan.layout, record.plan.sparsity)


def _print_joint(spec: JointSpec, record: JointRecord, output_path: Path | None, as_json: bool) -> None:
    """Print and save the bits and targets of a joint allocation."""
    if output_path:
        write_atomically(output_path, record.pair.text().encode())
    if as_json:
        typer.echo(record.model_dump_json(indent=1))
        return
    predicted = (
        {"predicted KL": record.value}
        if spec.in_planes
        else {"sum of KL alone": record.value, "lower bound": record.bound}
    )
    print_pairs(
        {
            "allocator": record.pair.plan.provenance,
            "bits read per weight": record.bits_read,
            "bits held per weight": record.bits_held,
            "sparsity": record.pair.plan.budget,
            "KL": record.kl,
            **predicted,
            "forward passes": record.evaluations,
            "seconds": record.seconds,
            "saved in": output_path,
        }
    )
    quantization = record.pair.quantization
    assert isinstance(quantization, QuantizationSpec)  # of a joint allocation
    bits = quantization.plan(record.pair.plan.layout).bits
    cells = (map("{:g} b, {:.1%}".format, *rows) for rows in zip(bits, record.pair.plan.sparsity, strict=True))
    _print_cells(record.pair.plan.layout, [tuple(row) for row in cells])
    if spec.in_planes:
        typer.echo("\nThe plan is made for gates by threshold: evaluate it with --selection threshold.")


@plans.command("list")
def list_plans(database: options.Database = None, as_json: options.Json = False) -> None:
    """List the saved plans, the newest first."""
    with Store(database) as store:
        plans = store.list_plans()
    rows = [(row.name, row.provenance, row.budget, moment(row.saved)[:16]) for row in plans]
    print_table(("name", "provenance", "budget", "saved"), rows, as_json)


@plans.command()
def show(name: Name, database: options.Database = None, as_json: options.Json = False) -> None:
    """Print a saved plan, layers by projections; with --json, as the file would be."""
    with Store(database) as store:
        pair = store.load_plan(name)
    if as_json:
        typer.echo(pair.text().rstrip())
        return
    plan, bits = pair.plan, pair.quantization
    weights = sum(map(sum, plan.layout.parameters))
    facts = {"name": name, "provenance": plan.provenance, "budget": plan.budget, "gated weights": weights}
    print_pairs(facts | ({} if bits is None else {"quantization": quantization_label(bits)}))
    _print_cells(plan.layout, plan.sparsity, "target sparsity")
    if isinstance(bits, QuantizationSpec):
        _print_cells(plan.layout, bits.plan(plan.layout).bits, "bits")


@plans.command()
def export(name: Name, file: File, database: options.Database = None) -> None:
    """Write a saved plan to a file."""
    with Store(database) as store:
        pair = store.load_plan(name)
    write_atomically(file, pair.text().encode())


@plans.command("import-shares")
def import_shares(
    searched: Annotated[
        Path, typer.Argument(help="The output of R-Sparse's search: one share and one sparsity for each matrix.")
    ],
    model: options.Model,
    file: File,
) -> None:
    """Convert R-Sparse's searched shares into a plan for MODEL. Reads no weights."""
    job = CostJob(model=ModelSource(location=model), method=DENSE, plan=UniformSparsity(sparsity=0.0))
    layout = confirm_and_run(job, CostRecord, None, True, IN_MEMORY).shape.layout
    plan = read_searched_shares(searched, layout)
    write_atomically(file, (plan.model_dump_json(indent=1) + "\n").encode())


@plans.command()
def save(file: File, name: Name, database: options.Database = None) -> None:
    """Save a file's plan in the database under a name; an earlier plan of that name is replaced."""
    pair = load_pair(file)
    with Store(database) as store:
        store.save_plan(name, pair.plan, pair.quantization)


@plans.command()
def forget(name: Name, database: options.Database = None) -> None:
    """Delete a saved plan."""
    with Store(database) as store:
        store.delete_plan(name)


def _print_cells(layout: PlanLayout, rows: Sequence[Sequence[float | str]], quantity: str = "") -> None:
    if quantity:
        typer.echo(f"\n{quantity}")
    print_table(("layer", *layout.projections), [(layer, *row) for layer, row in enumerate(rows)], as_json=False)
