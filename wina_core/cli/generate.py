"""`wina generate` and `wina completions`: completions by dense and gated models, and the stored ones."""

import json
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from wina_core.api.running import run_recorded
from wina_core.cli import makers, options
from wina_core.cli.makers import configuration_of, confirm_products, machines_of
from wina_core.cli.options import in_sampling, with_flags_of
from wina_core.cli.tables import print_pairs, print_table
from wina_core.errors import WinaError
from wina_core.jobs import CompletionFinished, Event, GenerateJob, Token
from wina_core.jobs.completion import Completion, completion_of, first_difference
from wina_core.records.completions import CompletionRecord, CompletionToken, rate_text
from wina_core.records.texts import moment
from wina_core.specs import DENSE, CalibrationSpec, Configuration, Quantization
from wina_core.specs.generation import CompletionSpec, SamplingSpec
from wina_core.specs.presets import check_uniform
from wina_core.store import Store
from wina_core.store.connection import place_of

_TOKEN_FIELDS = set(CompletionToken.model_fields)
_ENDS = {"end": "ended by itself", "length": "reached max length", "stopped": "interrupted"}


COLUMNS = ("id", "time", "model", "configuration", "tokens", "tokens/s", "dense tokens/s", "speed-up", "KL", "prompt")
_PROMPT = 48
"""Characters of a prompt in the table."""
Id = Annotated[int, typer.Argument(metavar="ID", help="A number of `wina completions`.")]
app = typer.Typer(help="List, show and delete stored completions of prompts.", invoke_without_command=True)


@with_flags_of(quantization=makers.quantization_of, configuration=configuration_of)
def generate(
    prompt: Annotated[str, typer.Argument(help='The text to complete; "-" reads it from stdin.')],
    *,
    model: options.ModelOption = "demo",
    dtype: options.Dtype = "auto",
    device: options.Device = "auto",
    memory: options.Memory = None,
    quantization: Quantization,
    configuration: Configuration,
    sparsity: options.Sparsities = None,
    plan: options.Plans = None,
    dense: Annotated[bool, in_sampling("--dense/--no-dense", help="Also complete with the dense model.")] = True,
    max_new_tokens: Annotated[int, in_sampling(help="Largest number of tokens of each completion.")] = 64,
    apply_chat_template: Annotated[
        bool, in_sampling("--apply-chat-template", help="Format the prompt with the tokenizer's chat template.")
    ] = False,
    temperature: Annotated[float, in_sampling(help="0 takes the most likely token.")] = 0.0,
    top_p: Annotated[float, in_sampling(help="Sample from the smallest set of tokens with this probability.")] = 1.0,
    seed: Annotated[int, in_sampling(help="Random seed; all completions use the same random numbers.")] = 0,
    store: Annotated[
        bool, options.in_output("--store/--no-store", help="Store the completions; `wina completions` lists them.")
    ] = True,
    machine: options.Machines = None,
    database: options.Database = None,
    yes: options.Yes = False,
    as_json: options.Json = False,
) -> None:
    """Complete a prompt with the dense model and with gated ones; print where and how far they diverge."""
    check_uniform(configuration, plan or ())
    plans, quantization = makers.gate_plans(plan or (), sparsity, quantization)
    calibration = CalibrationSpec() if configuration.method.needs_calibration else None
    configurations = [CompletionSpec()] if dense or configuration.method.name == DENSE.name else []
    if configuration.method.name != DENSE.name:
        configurations += [
            CompletionSpec(
                rotation=configuration.rotation, method=configuration.method, plan=gate_plan, calibration=calibration
            )
            for gate_plan in plans
        ]
    text = sys.stdin.read() if prompt == "-" else prompt
    if not text:
        raise WinaError("The prompt is empty; write some text.")
    job = GenerateJob(
        model=makers.resolved_source(model, dtype, device, memory, quantization=quantization),
        prompt=text,
        chat=apply_chat_template,
        new_tokens=max_new_tokens,
        sampling=SamplingSpec(temperature=temperature, top_p=top_p, seed=seed),
        configurations=tuple(configurations),
        store=store,
    )
    completions = [Completion(spec) for spec in job.configurations]

    def observe(event: Event) -> None:
        if isinstance(event, Token):
            completions[event.configuration].tokens.append(event)
        elif isinstance(event, CompletionFinished):
            completions[event.configuration].ended = event

    machines = machines_of(machine)
    confirm_products(job, machines, yes)
    try:
        with Store(database if job.store else "sqlite://") as opened:  # in memory
            run_recorded(job, opened, observe, machines=machines)
            address = place_of(opened.url)
        if job.store:
            typer.echo(f"Stored in {address}; `wina completions` lists it, --no-store keeps nothing.", err=True)
    finally:
        # Also after Ctrl-C: interrupted completions have an end, too.
        if all(completion.ended is not None and completion.tokens for completion in completions):
            show_completions(completions, as_json)


def show_completions(completions: Sequence[Completion], as_json: bool) -> None:
    """Print completions that have ended, compared with the dense one among them."""
    dense_one = next((completion for completion in completions if completion.spec.is_dense), None)
    if as_json:
        typer.echo(
            json.dumps([_plain(completion, dense_one) for completion in completions], indent=1, ensure_ascii=False)
        )
        return
    for completion in completions:
        typer.echo(f"{completion.spec.label}: {_summary(completion, dense_one)}")
        typer.echo(f"{completion.text}\n")


def _summary(completion: Completion, dense: Completion | None) -> str:
    assert completion.ended is not None  # the job is done
    clauses = [f"{len(completion.tokens)} tokens, {_ENDS[completion.ended.end]}"]
    if completion.prefill is not None:
        read, seconds = completion.prefill
        clauses.append(f"first token after {1e3 * seconds:.1f} ms, prefill of {read} tokens")
    speed = completion.speed
    if speed.rate is not None:
        clauses.append(f"decode {rate_text(speed.rate)} tokens/s")
    if speed.dense_rate is not None:
        clauses.append(f"dense on this text {rate_text(speed.dense_rate)} tokens/s")
    if speed.speedup is not None:
        clauses.append(f"speed-up {speed.speedup:.2f}")
    if completion.divergence is not None:
        if completion.ended.sparsity is not None:
            clauses.append(f"sparsity {100 * completion.ended.sparsity:.1f} %")
        clauses.append(f"mean KL {completion.divergence:.3g} nats")
        if dense is not None:
            at = first_difference(dense, completion)
            clauses.append("equal to the dense completion" if at is None else f"diverges at token {at + 1}")
    return "; ".join(clauses)


def _plain(completion: Completion, dense: Completion | None) -> dict[str, Any]:
    """Return a completion for JSON, with all numbers of every token."""
    assert completion.ended is not None  # the job is done
    return {
        "answer": completion.spec.label,
        "text": completion.text,
        "end": completion.ended.end,
        "prompt_tokens": completion.ended.prompt_tokens,
        **_speeds(completion),
        "prefill_seconds": completion.prefill and completion.prefill[1],
        "sparsity": completion.ended.sparsity,
        "mean_divergence": completion.divergence,
        "first_difference": None if dense in (None, completion) else first_difference(dense, completion),
        "tokens": [token.model_dump(include=_TOKEN_FIELDS) for token in completion.tokens],
    }


def _beginning(prompt: str) -> str:
    words = " ".join(prompt.split())
    return words if len(words) <= _PROMPT else f"{words[: _PROMPT - 1]}\N{HORIZONTAL ELLIPSIS}"


def _speeds(completion: Completion) -> dict[str, float | None]:
    rate, dense_rate, speedup = completion.speed
    return {"tokens_per_second": rate, "dense_tokens_per_second": dense_rate, "speedup": speedup}


@app.callback()
def list_completions(
    context: typer.Context,
    search: Annotated[
        str, typer.Option(help="Only those with all of these words in prompt, completion, configuration or model.")
    ] = "",
    limit: Annotated[int, typer.Option(min=1, help="Largest number of completions.")] = 50,
    database: options.Database = None,
    as_json: options.Json = False,
) -> None:
    """List stored completions, the latest first."""
    if context.invoked_subcommand is not None:
        return
    with Store(database) as store:
        rows = store.completions(search, limit)
    table = [
        [
            *(row.id, moment(row.recorded), row.model, row.configuration, row.tokens),
            *(row.tokens_per_second, row.dense_tokens_per_second, row.speedup, row.divergence),
            row.prompt if as_json else _beginning(row.prompt),
        ]
        for row in rows
    ]
    print_table(COLUMNS, table, as_json)


@app.command()
def show(completion: Id, database: options.Database = None, as_json: options.Json = False) -> None:
    """Print a completion beside the dense one of its prompt; with --json all numbers of all tokens."""
    with Store(database) as store:
        stored = store.completion(completion)
    if as_json:

        def content(record: CompletionRecord) -> dict[str, Any]:
            completion = completion_of(record)
            numbers = {**_speeds(completion), "mean_divergence": completion.divergence}
            return {"text": completion.text, **numbers, **record.model_dump(mode="json")}

        dense = None if stored.dense is None else content(stored.dense)
        printed = {"id": stored.id, "recorded": stored.recorded, **content(stored.record), "dense": dense}
        typer.echo(json.dumps(printed, indent=1, ensure_ascii=False))
        return
    point, environment = stored.record.point, stored.record.environment
    sampling = point.sampling
    print_pairs(
        {
            "time": moment(stored.recorded),
            "model": point.model.location,
            "environment": f"{environment.hardware}, {environment.device}" if environment else "unknown",
            "sampling": f"temperature {sampling.temperature:g}, top-p {sampling.top_p:g}, seed {sampling.seed}",
            "chat template": "applied" if point.chat else "not applied",
        }
    )
    typer.echo(f"\n{point.prompt}\n")
    show_completions(
        [completion_of(record) for record in (stored.dense, stored.record) if record is not None], as_json=False
    )


@app.command()
def delete(
    completions: Annotated[list[int], typer.Argument(metavar="ID...", help="Numbers of `wina completions`.")],
    database: options.Database = None,
) -> None:
    """Erase completions, and dense ones that stood beside none but these."""
    with Store(database) as store:
        store.delete_completions(completions)
    typer.echo(f"{len(completions)} erased.", err=True)
