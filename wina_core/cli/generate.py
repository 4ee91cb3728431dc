"""`wina generate`: one prompt, answered by the dense model and by gated ones."""

import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from wina_core.cli import options
from wina_core.cli.flags import taking
from wina_core.cli.terminal import terminal_reporter
from wina_core.engine.protocol import CompletionFinished, Event, GenerateJob, Token
from wina_core.engine.protocol.response import Answer, first_difference
from wina_core.errors import WinaError
from wina_core.specs import DENSE, CalibrationSpec, MethodSpec, RotationSpec
from wina_core.specs.generation import AnswerSpec, SamplingSpec
from wina_core.specs.plans import UniformSparsity, load_plan

_ENDS = {"end": "ended by itself", "length": "stopped at the length asked for", "stopped": "interrupted"}


@taking(method=options.method_spec, rotation=options.rotation_spec)
def generate(
    prompt: Annotated[str, typer.Argument(help='What is to be answered; "-" reads it from stdin.')],
    *,
    model: options.ModelOption = "demo",
    method: MethodSpec,
    rotation: RotationSpec,
    preset: options.Preset = None,
    sparsity: Annotated[
        list[float] | None, typer.Option(help="Repeatable: dropped fraction, [0, 1); 0.5 is 50 %.")
    ] = None,
    plan: Annotated[list[Path] | None, typer.Option(help="Repeatable: a sparsity plan's JSON file.")] = None,
    new_tokens: Annotated[int, typer.Option(help="Most tokens of each answer.")] = 64,
    chat: Annotated[bool, typer.Option("--chat", help="Put the prompt into the tokenizer's chat template.")] = False,
    temperature: Annotated[
        float, typer.Option(help="0 for the most likely token, else what softmax divides by.")
    ] = 0.0,
    top_p: Annotated[float, typer.Option(help="Draw from the smallest set of tokens with so much mass.")] = 1.0,
    seed: Annotated[int, typer.Option(help="Of what is drawn; every answer meets the same noise.")] = 0,
    dense: Annotated[bool, typer.Option("--dense/--no-dense", help="Also answer by the dense model.")] = True,
    dtype: options.Dtype = "auto",
    device: options.Device = "auto",
    quantization: options.Quantization = "none",
    as_json: options.Json = False,
) -> None:
    """Answer a prompt by the dense model and, side by side, by the gated one; tell where and how far they part."""
    chosen = options.arm(preset, rotation, method)
    plans: list[Any] = [load_plan(file) for file in plan or ()]
    plans += [UniformSparsity(sparsity=each) for each in sparsity or (() if plan else (0.5,))]
    calibration = CalibrationSpec() if chosen.method.needs_calibration else None
    arms = [AnswerSpec()] if dense or chosen.method.name == DENSE.name else []
    if chosen.method.name != DENSE.name:
        arms += [
            AnswerSpec(rotation=chosen.rotation, method=chosen.method, plan=each, calibration=calibration)
            for each in plans
        ]
    text = sys.stdin.read() if prompt == "-" else prompt
    if not text:
        raise WinaError("The prompt is empty; write some text.")
    job = GenerateJob(
        model=options.model_source(model, dtype, device, quantization),
        prompt=text,
        chat=chat,
        new_tokens=new_tokens,
        sampling=SamplingSpec(temperature=temperature, top_p=top_p, seed=seed),
        arms=tuple(arms),
    )
    answers = _compute(job)
    if as_json:
        typer.echo(json.dumps([_plain(answer, answers) for answer in answers], indent=1, ensure_ascii=False))
        return
    for answer in answers:
        typer.echo(f"{answer.spec.label}: {_summary(answer, answers)}")
        typer.echo(f"{answer.text}\n")


def _compute(job: GenerateJob) -> list[Answer]:
    """Do the job in this process; nothing of it is stored."""
    answers = [Answer(spec) for spec in job.arms]

    def hear(event: Event) -> None:
        if isinstance(event, Token):
            answers[event.arm].tokens.append(event)
        elif isinstance(event, CompletionFinished):
            answers[event.arm].ended = event

    os.environ.setdefault("TQDM_DISABLE", "1")  # one progress bar is enough
    with terminal_reporter() as reporter:
        from wina_core.compute.session.model_session import Session
        from wina_core.engine.server.run_job import run_job  # loads torch, which takes seconds

        run_job(job, Session(), hear, reporter)
    return answers


def _dense(answers: list[Answer]) -> Answer | None:
    return next((answer for answer in answers if answer.spec.is_dense), None)


def _summary(answer: Answer, answers: list[Answer]) -> str:
    assert answer.ended is not None  # the job is done
    assert answer.prefill is not None
    read, seconds = answer.prefill
    parts = [
        f"{len(answer.tokens)} tokens, {_ENDS[answer.ended.end]}",
        f"prefill {read} tokens in {1e3 * seconds:.1f} ms",
    ]
    rate = answer.tokens_per_second
    if rate is not None:
        parts.append(f"decode {rate:.1f} tokens/s")
    if answer.speedup is not None:
        parts.append(f"{answer.speedup:.2f} x dense")
    dense = _dense(answers)
    if answer.divergence is not None:
        if answer.ended.sparsity is not None:
            parts.append(f"sparsity {100 * answer.ended.sparsity:.1f} %")
        parts.append(f"mean KL {answer.divergence:.3g} nats")
        if dense is not None:
            at = first_difference(dense, answer)
            parts.append("the dense answer" if at is None else f"first differs at token {at + 1}")
    return "; ".join(parts)


def _plain(answer: Answer, answers: list[Answer]) -> dict[str, Any]:
    """An answer for JSON: every token with every number."""
    dense = _dense(answers)
    assert answer.ended is not None  # the job is done
    return {
        "answer": answer.spec.label,
        "text": answer.text,
        "end": answer.ended.end,
        "prompt_tokens": answer.ended.prompt_tokens,
        "tokens_per_second": answer.tokens_per_second,
        "speedup": answer.speedup,
        "prefill_seconds": answer.prefill and answer.prefill[1],
        "sparsity": answer.ended.sparsity,
        "mean_divergence": answer.divergence,
        "first_difference": None if dense in (None, answer) else first_difference(dense, answer),
        "tokens": [token.model_dump(exclude={"type", "job_id", "arm"}) for token in answer.tokens],
    }
