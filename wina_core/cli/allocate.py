"""`wina allocate`: a budget spread over a model's layers and projections."""

from pathlib import Path
from typing import Annotated

import typer

from wina_core.cli import options
from wina_core.cli.flags import taking
from wina_core.cli.running import run_recorded
from wina_core.cli.tables import print_pairs, print_table
from wina_core.engine.protocol import AllocateJob
from wina_core.errors import WinaError
from wina_core.files.tables import write_atomically
from wina_core.records import AllocationRecord
from wina_core.specs import AllocatedSparsity, AllocatorSpec, MethodSpec, RotationSpec
from wina_core.store import Store

_DEFAULT = AllocatorSpec()


@taking(method=options.method_spec, rotation=options.rotation_spec)
def allocate(
    model: options.Model,
    method: MethodSpec,
    rotation: RotationSpec,
    preset: options.Preset = None,
    allocator: Annotated[options.AllocatorName, typer.Option(help="How the budget is spread.")] = "curves",
    sparsity: Annotated[float, typer.Option(help="The budget: dropped fraction of all gated weights, [0, 1).")] = 0.5,
    step: Annotated[
        float, typer.Option(help="Greedy: sparsity that one step adds to q. Others: the smallest move.")
    ] = _DEFAULT.step,
    rounds: Annotated[int, typer.Option(help="At most so many rounds of refine, or generations.")] = _DEFAULT.rounds,
    seed: Annotated[int, typer.Option(help="Seed of the evolution.")] = _DEFAULT.seed,
    text: options.Text = _DEFAULT.text.source,
    tokens: options.Tokens = _DEFAULT.text.tokens,
    out: Annotated[Path | None, typer.Option(help="Also write the plan as a JSON file.")] = None,
    dtype: options.Dtype = "auto",
    device: options.Device = "auto",
    quantization: options.Quantization = "none",
    database: options.Database = None,
    as_json: options.Json = False,
) -> None:
    """Spread a sparsity budget over layers and projections; ended early, the same command goes on from there."""
    settings = {"step": step, "rounds": rounds, "seed": seed, "text": {"source": text, "tokens": tokens}}
    if method.selection != "topk":
        raise WinaError(
            "An allocator searches with top-k selection, and its plan serves every selection; leave --selection out "
            "here, and give it to wina eval together with the plan."
        )
    arm = options.arm(preset, rotation, method)
    job = AllocateJob(
        model=options.model_source(model, dtype, device, quantization),
        rotation=arm.rotation,
        method=arm.method,
        plan=AllocatedSparsity(sparsity=sparsity, allocator=options.allocator_spec(allocator, **settings)),
    )
    with Store(database) as store:
        record = run_recorded(job, store).value
    assert isinstance(record, AllocationRecord)
    if out:
        write_atomically(out, (record.plan.model_dump_json(indent=1) + "\n").encode())
    if as_json:
        typer.echo(record.model_dump_json(indent=1))
        return
    told = {"allocator": record.plan.origin, "sparsity": record.plan.budget, record.objective: record.value}
    bound = {} if record.bound is None else {"at least": record.bound}
    print_pairs({**told, **bound, "forward passes": record.evaluations, "seconds": record.seconds, "saved in": out})
    rows = [(layer, *row) for layer, row in enumerate(record.plan.sparsity)]
    print_table(("layer", *record.plan.layout.projections), rows, as_json=False)
