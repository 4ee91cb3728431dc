"""`wina generate`: completions of one prompt by the dense model and by gated ones, stored for `wina completions`."""

import json
import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from wina_core.cli.arguments import options
from wina_core.cli.arguments.configuration import configuration_of
from wina_core.cli.arguments.flags import taking
from wina_core.cli.arguments.options import in_sampling
from wina_core.cli.asking import announce_products
from wina_core.cli.running import run_recorded
from wina_core.cli.terminal import terminal_reporter
from wina_core.errors import WinaError
from wina_core.jobs import CompletionFinished, Event, GenerateJob, Token
from wina_core.jobs.completion import Completion, first_difference
from wina_core.records.completions import CompletionToken, rate_text
from wina_core.specs import DENSE, CalibrationSpec, Configuration, Quantization
from wina_core.specs.generation import CompletionSpec, SamplingSpec
from wina_core.specs.plans import UniformSparsity
from wina_core.specs.presets import check_uniform
from wina_core.store import Store
from wina_core.store.connection import place_of

_TOKEN_FIELDS = set(CompletionToken.model_fields)
_ENDS = {"end": "ended by itself", "length": "reached max length", "stopped": "interrupted"}


@taking(quantization=options.quantization_of, configuration=configuration_of)
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
    _machine: options.Machines = None,
    database: options.Database = None,
    _yes: options.Yes = False,
    as_json: options.Json = False,
) -> None:
    """Complete a prompt with the dense model and with gated ones; print where and how far they diverge."""
    check_uniform(configuration, plan or ())
    tables, quantization = options.plans_of(plan or (), quantization)
    plans: list[Any] = [*tables]
    plans += [UniformSparsity(sparsity=each) for each in sparsity or (() if plan else (0.5,))]
    calibration = CalibrationSpec() if configuration.method.needs_calibration else None
    configurations = [CompletionSpec()] if dense or configuration.method.name == DENSE.name else []
    if configuration.method.name != DENSE.name:
        configurations += [
            CompletionSpec(
                rotation=configuration.rotation, method=configuration.method, plan=each, calibration=calibration
            )
            for each in plans
        ]
    text = sys.stdin.read() if prompt == "-" else prompt
    if not text:
        raise WinaError("The prompt is empty; write some text.")
    job = GenerateJob(
        model=options.resolved_source(model, dtype, device, memory, quantization=quantization),
        prompt=text,
        chat=apply_chat_template,
        new_tokens=max_new_tokens,
        sampling=SamplingSpec(temperature=temperature, top_p=top_p, seed=seed),
        configurations=tuple(configurations),
        store=store,
    )
    completions = [Completion(spec) for spec in job.configurations]
    try:
        _compute(job, completions, database)
    finally:
        if all(each.ended is not None and each.tokens for each in completions):
            show_completions(completions, as_json)


def show_completions(completions: Sequence[Completion], as_json: bool) -> None:
    """Print completions that have ended, compared with the dense one among them."""
    dense_one = next((each for each in completions if each.spec.is_dense), None)
    if as_json:
        typer.echo(json.dumps([_plain(each, dense_one) for each in completions], indent=1, ensure_ascii=False))
        return
    for completion in completions:
        typer.echo(f"{completion.spec.label}: {_summary(completion, dense_one)}")
        typer.echo(f"{completion.text}\n")


def _compute(job: GenerateJob, completions: Sequence[Completion], database: str | None) -> None:
    """Run the job in this process, fill its completions, and store them if the job says so."""
    announce_products(job)

    def observe(event: Event) -> None:
        if isinstance(event, Token):
            completions[event.configuration].tokens.append(event)
        elif isinstance(event, CompletionFinished):
            completions[event.configuration].ended = event

    if job.store:
        with Store(database) as store:
            run_recorded(job, store, observe)
            place = place_of(store.url)
        typer.echo(f"Stored in {place}; `wina completions` lists it, --no-store keeps nothing.", err=True)
        return
    os.environ.setdefault("TQDM_DISABLE", "1")  # one progress bar is enough
    with terminal_reporter() as reporter:
        from wina_core.compute.session.model_session import Session
        from wina_core.engine.server.run_job import run_job  # loads torch, which takes seconds

        run_job(job, Session(), observe, reporter)


def _summary(completion: Completion, dense: Completion | None) -> str:
    assert completion.ended is not None  # the job is done
    parts = [f"{len(completion.tokens)} tokens, {_ENDS[completion.ended.end]}"]
    if completion.prefill is not None:
        read, seconds = completion.prefill
        parts.append(f"first token after {1e3 * seconds:.1f} ms, prefill of {read} tokens")
    speed = completion.speed
    if speed.rate is not None:
        parts.append(f"decode {rate_text(speed.rate)} tokens/s")
    if speed.dense_rate is not None:
        parts.append(f"dense on this text {rate_text(speed.dense_rate)} tokens/s")
    if speed.speedup is not None:
        parts.append(f"speed-up {speed.speedup:.2f}")
    if completion.divergence is not None:
        if completion.ended.sparsity is not None:
            parts.append(f"sparsity {100 * completion.ended.sparsity:.1f} %")
        parts.append(f"mean KL {completion.divergence:.3g} nats")
        if dense is not None:
            at = first_difference(dense, completion)
            parts.append("equal to the dense completion" if at is None else f"diverges at token {at + 1}")
    return "; ".join(parts)


def _plain(completion: Completion, dense: Completion | None) -> dict[str, Any]:
    """Return a completion for JSON, with all numbers of every token."""
    assert completion.ended is not None  # the job is done
    return {
        "answer": completion.spec.label,
        "text": completion.text,
        "end": completion.ended.end,
        "prompt_tokens": completion.ended.prompt_tokens,
        "tokens_per_second": completion.speed.rate,
        "dense_tokens_per_second": completion.speed.dense_rate,
        "speedup": completion.speed.speedup,
        "prefill_seconds": completion.prefill and completion.prefill[1],
        "sparsity": completion.ended.sparsity,
        "mean_divergence": completion.divergence,
        "first_difference": None if dense in (None, completion) else first_difference(dense, completion),
        "tokens": [token.model_dump(include=_TOKEN_FIELDS) for token in completion.tokens],
    }
