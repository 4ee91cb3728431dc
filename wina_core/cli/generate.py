"""`wina generate`: completions of one prompt by the dense model and by gated ones."""

import json
import os
import sys
from typing import Annotated, Any

import typer

from wina_core.cli import options
from wina_core.cli.flags import taking
from wina_core.cli.options import in_sampling
from wina_core.cli.terminal import terminal_reporter
from wina_core.engine.protocol import CompletionFinished, Event, GenerateJob, Token
from wina_core.engine.protocol.completion import Completion, first_difference
from wina_core.errors import WinaError
from wina_core.specs import DENSE, CalibrationSpec, Configuration
from wina_core.specs.generation import CompletionSpec, SamplingSpec
from wina_core.specs.plans import UniformSparsity, load_plan

_ENDS = {"end": "ended by itself", "length": "reached max length", "stopped": "interrupted"}


@taking(configuration=options.configuration)
def generate(
    prompt: Annotated[str, typer.Argument(help='The text to complete; "-" reads it from stdin.')],
    *,
    model: options.ModelOption = "demo",
    dtype: options.Dtype = "auto",
    device: options.Device = "auto",
    quantization: options.Quantization = "none",
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
    as_json: options.Json = False,
) -> None:
    """Complete a prompt with the dense model and with gated ones; print where and how far they diverge."""
    plans: list[Any] = [load_plan(file) for file in plan or ()]
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
        model=options.model_source(model, dtype, device, quantization),
        prompt=text,
        chat=apply_chat_template,
        new_tokens=max_new_tokens,
        sampling=SamplingSpec(temperature=temperature, top_p=top_p, seed=seed),
        configurations=tuple(configurations),
    )
    completions = _compute(job)
    dense_one = next((each for each in completions if each.spec.is_dense), None)
    if as_json:
        typer.echo(json.dumps([_plain(each, dense_one) for each in completions], indent=1, ensure_ascii=False))
        return
    for completion in completions:
        typer.echo(f"{completion.spec.label}: {_summary(completion, dense_one)}")
        typer.echo(f"{completion.text}\n")


def _compute(job: GenerateJob) -> list[Completion]:
    """Run the job in this process without storing anything."""
    completions = [Completion(spec) for spec in job.configurations]

    def on_event(event: Event) -> None:
        if isinstance(event, Token):
            completions[event.configuration].tokens.append(event)
        elif isinstance(event, CompletionFinished):
            completions[event.configuration].ended = event

    os.environ.setdefault("TQDM_DISABLE", "1")  # one progress bar is enough
    with terminal_reporter() as reporter:
        from wina_core.compute.session.model_session import Session
        from wina_core.engine.server.run_job import run_job  # loads torch, which takes seconds

        run_job(job, Session(), on_event, reporter)
    return completions


def _summary(completion: Completion, dense: Completion | None) -> str:
    assert completion.ended is not None  # the job is done
    assert completion.prefill is not None
    read, seconds = completion.prefill
    parts = [
        f"{len(completion.tokens)} tokens, {_ENDS[completion.ended.end]}",
        f"prefill {read} tokens in {1e3 * seconds:.1f} ms",
    ]
    rate = completion.tokens_per_second
    if rate is not None:
        parts.append(f"decode {rate:.1f} tokens/s")
    if completion.speedup is not None:
        parts.append(f"{completion.speedup:.2f} x dense")
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
        "tokens_per_second": completion.tokens_per_second,
        "speedup": completion.speedup,
        "prefill_seconds": completion.prefill and completion.prefill[1],
        "sparsity": completion.ended.sparsity,
        "mean_divergence": completion.divergence,
        "first_difference": None if dense in (None, completion) else first_difference(dense, completion),
        "tokens": [token.model_dump(exclude={"type", "job_id", "configuration"}) for token in completion.tokens],
    }
