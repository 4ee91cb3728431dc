"""`wina allocate`: a budget of sparsity, or of bits read and held, spread over layers and projections."""

from pathlib import Path
from typing import Annotated, Any

import typer

from wina_core.cli.arguments import options
from wina_core.cli.arguments.configuration import combine_on
from wina_core.cli.arguments.data_folder import chosen_data_folder
from wina_core.cli.arguments.flags import taking
from wina_core.cli.arguments.options import in_allocation, in_output
from wina_core.cli.asking import announce_products
from wina_core.cli.running import run_recorded
from wina_core.cli.tables import print_pairs, print_table
from wina_core.errors import WinaError
from wina_core.files.tables import write_atomically
from wina_core.jobs import AllocateJob, AllocateJointlyJob
from wina_core.model_info.resolve import resolve_rotation, resolve_text
from wina_core.records import AllocationRecord, JointRecord
from wina_core.specs import (
    AllocatedSparsity,
    AllocatorSpec,
    Configuration,
    JointSpec,
    MethodSpec,
    ModelSource,
    QuantizationSpec,
    RotationSpec,
)
from wina_core.store import Store

_DEFAULT = AllocatorSpec()
_SPARSITY = 0.5


@taking(model=options.model_source, method=options.method_spec, rotation=options.rotation_spec)
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
    _data_folder: options.TextFolder = None,
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
    _yes: options.Yes = False,
    _machine: options.Machines = None,
    database: options.Database = None,
    as_json: options.Json = False,
) -> None:
    """Spread a budget over layers and projections. If interrupted, the same command continues the search."""
    configuration = combine_on(text, context, method, rotation, preset)
    if preset:
        resolved = resolve_rotation(configuration.rotation, chosen_data_folder())
        configuration = configuration.model_copy(update={"rotation": resolved})
    settings = {"step": step, "text": {"source": text, "tokens": tokens}}
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
        budgets = {"bits_read": bits_read, "bits_held": bits_held, "refined": refined}
        _jointly(model, configuration, settings | budgets, output_path, database, as_json)
        return
    if bits_read is not None or bits_held is not None or refined:
        raise WinaError(
            "--bits-read, --bits-held and --refined need --allocator joint; the other allocators spread --sparsity."
        )
    job = AllocateJob(
        model=model,
        rotation=configuration.rotation,
        method=configuration.method,
        plan=AllocatedSparsity(
            sparsity=_SPARSITY if sparsity is None else sparsity,
            allocator=options.allocator_spec(allocator, **settings, **searched),
        ),
    )
    announce_products(job)
    with Store(database) as store:
        record = run_recorded(job, store).value
    assert isinstance(record, AllocationRecord)
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
    rows = [(layer, *row) for layer, row in enumerate(record.plan.sparsity)]
    print_table(("layer", *record.plan.layout.projections), rows, as_json=False)


def _jointly(
    model: ModelSource,
    configuration: Configuration,
    settings: dict[str, Any],
    output_path: Path | None,
    database: str | None,
    as_json: bool,
) -> None:
    """Run a joint allocation, and print and save its bits and targets."""
    if isinstance(model.quantization, QuantizationSpec):
        settings["quantization"] = model.quantization
    elif model.quantization != "none":
        raise WinaError(
            f"A joint allocation chooses the bits; leave out --quantization {model.quantization}, and give --bits and "
            "--quantizer for a quantizer other than planes."
        )
    spec = JointSpec.model_validate(settings)
    job = AllocateJointlyJob(
        model=model,
        rotation=configuration.rotation,
        method=configuration.method.model_copy(update={"selection": "topk"}),  # the found plan says which it is for
        spec=spec.model_copy(update={"text": resolve_text(spec.text, chosen_data_folder())}),
    )
    announce_products(job)
    with Store(database) as store:
        record = run_recorded(job, store).value
    assert isinstance(record, JointRecord)
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
    rows = [(layer, *row) for layer, row in enumerate(cells)]
    print_table(("layer", *record.pair.plan.layout.projections), rows, as_json=False)
    if spec.in_planes:
        typer.echo("\nThe plan is made for gates by threshold: evaluate it with --selection threshold.")
