"""Choices of the Playground, and texts of its read-outs."""

import math
from dataclasses import dataclass
from typing import Literal

from wina_app.shared.rotation_choices import ROTATION_PRESETS, is_exact
from wina_app.style.number_format import percent, plural
from wina_core.jobs.completion import Completion
from wina_core.records import ModelSummary
from wina_core.records.completions import LEAST_TOKENS, CompletionToken, rate_text
from wina_core.specs import DENSE, CalibrationSpec, MethodSpec, RotationSpec, method_specs
from wina_core.specs.generation import CompletionSpec, SamplingSpec
from wina_core.specs.plans import SparsityPlan, UniformSparsity

Side = Literal["dense", "sparse"]
SIDES: tuple[Side, Side] = ("dense", "sparse")
SHORT = 60
"""Characters of a prompt in one line."""
MAX_PROMPTS = 20
"""Most prompts remembered."""
PROMPTS: dict[str, str] = {
    "A function's documentation": 'def median(data):\n    """Return the median',
    "The body of a function": "def read_lines(path):\n    with open(path) as file:\n",
    "A unit test": "class TestDict(unittest.TestCase):\n    def test_update(self):\n",
    "Documentation in prose": "The following example shows how to open a file and read its lines::\n\n",
    "A fact": "The capital of France is",
    "An explanation": "Explain in one paragraph why large language models can leave out activations.",
}
"""Example prompts; the first four suit the demo model, trained on Python's library."""


@dataclass(frozen=True)
class PlaygroundSettings:
    """Chosen settings of the page."""

    prompt: str
    chat: bool
    new_tokens: int
    sampling: SamplingSpec
    rotation: RotationSpec
    method: MethodSpec
    sparsity: float
    by_plan: bool
    """Use a plan, the Sparsity page's or a stored completion's, instead of `sparsity`."""
    store: bool = True
    """Store the completions, and remember the prompt."""
    to_server: bool = False
    """Send the prompt to the server that runs."""

    def sparse_spec(self, plan: SparsityPlan | None) -> CompletionSpec:
        return CompletionSpec(
            rotation=self.rotation,
            method=self.method,
            plan=plan if self.by_plan and plan is not None else UniformSparsity(sparsity=self.sparsity),
            calibration=CalibrationSpec() if self.method.needs_calibration else None,
        )


@dataclass(frozen=True)
class PlaygroundChoices:
    """Choices for the current model, each as (text, value)."""

    methods: tuple[tuple[str, MethodSpec], ...]
    rotations: tuple[tuple[str, RotationSpec], ...]
    plan: str
    """The plan in words; empty for none."""
    chat: bool
    """True if the tokenizer has a chat template."""


def make_choices(
    summary: ModelSummary | None,
    plan: SparsityPlan | None,
    rotation: RotationSpec,
    method: MethodSpec,
    stored: CompletionSpec | None = None,
) -> PlaygroundChoices:
    """Return all methods and rotations for a model, with those of other pages and of a stored completion."""
    methods = {spec: spec.label for spec in method_specs() if spec.name != DENSE.name}
    methods.setdefault(method, _as_chosen(method))
    methods.pop(DENSE, None)  # perhaps the Sparsity page's; dense is the other side
    rotations = {spec: name for name, spec in ROTATION_PRESETS.items() if is_exact(spec, summary)}
    rotations.setdefault(rotation, f"As on the Rotation page: {rotation.label}")
    if stored is not None:
        methods.setdefault(stored.method, stored.method.label)
        rotations.setdefault(stored.rotation, stored.rotation.label)
    return PlaygroundChoices(
        methods=tuple((text, spec) for spec, text in methods.items()),
        rotations=tuple((text, spec) for spec, text in rotations.items()),
        plan="" if plan is None else f"{percent(plan.budget)}, {plan.provenance}",
        chat=summary is not None and summary.chat_template,
    )


def _as_chosen(method: MethodSpec) -> str:
    selection = "" if method.selection == "topk" else f", {method.selection}"
    return "As on the Sparsity page: {label}".format(label=f"{method.label}{selection}")


def problem(choice: PlaygroundSettings, *, has_model: bool) -> str:
    """Return why nothing can be generated now; empty where it can."""
    if not (has_model or choice.to_server):
        return "Open a model first, or send prompts to a server"
    if not choice.prompt.strip():
        return "Type a prompt or choose an example"
    return ""


def figures(completion: Completion | None, other: Completion | None = None) -> dict[str, str]:
    """Return a side's read-outs by name; empty if there is no completion.

    `other` is the sparse completion beside a dense one. The dense rate is then that of the passes over its text, by
    which its speed-up is computed.
    """
    if completion is None or not completion.tokens:
        return {}
    readouts = {"tokens": f"{len(completion.tokens):,}"}
    if completion.prefill is not None:
        read, seconds = completion.prefill
        readouts["prefill"] = f"{read / seconds:,.0f} tokens/s" if seconds > 0 else ""
        readouts["first"] = _time(seconds)
    speed = completion.speed
    paired = other.speed.dense_rate if other is not None and completion.spec.is_dense else None
    rate = paired or speed.rate
    if rate is not None:
        readouts["decode"] = f"{rate_text(rate)} tokens/s"
    if speed.speedup is not None:
        readouts["speedup"] = f"{speed.speedup:.2f} \N{MULTIPLICATION SIGN}"
    elif speed.dense_rate is not None:
        readouts["speedup"] = f"from {LEAST_TOKENS} tokens on"
    if completion.divergence is not None:
        readouts["divergence"] = f"{completion.divergence:.3g} nats"
    if completion.ended is not None and completion.ended.sparsity is not None:
        readouts["sparsity"] = percent(completion.ended.sparsity)
    return readouts


def ending(completion: Completion) -> str:
    """Return how a completion ended, in words."""
    if completion.ended is None:
        return "generating"
    words = {
        "end": "reached end of text",
        "length": "reached max length",
        "stopped": "stopped",
    }
    return words[completion.ended.end]


def token_readout(side: Side, position: int, token: CompletionToken, other: CompletionToken | None) -> str:
    """Return a token's read-out. `other` is the other side's same token after the same prefix, if there is one: it has
    the other model's probability."""
    if token.id < 0:  # of a server
        return f"piece {position + 1}: {token.text!r}"
    gated = token if side == "sparse" else other
    dense = token.log_probability if side == "dense" else token.dense_log_probability
    sparse = None if gated is None else gated.log_probability
    divergence = None if gated is None else gated.divergence
    texts = [
        f"token {position + 1}: {token.text!r} (id {token.id})",
        f"p dense {_probability(dense)}",
        f"p sparse {_probability(sparse)}",
    ]
    if divergence is not None:
        texts.append(f"KL {divergence:.3g} nats")
    if token.read:  # else it was read with the prompt
        texts.append(_time(token.seconds))
    return "   ".join(texts)


def divergence_text(dense: Completion | None, sparse: Completion | None, at: int | None) -> str:
    """Return where the two completions diverge, as a sentence."""
    if dense is None or sparse is None or not dense.tokens or not sparse.tokens:
        return ""
    if at is None:
        same = min(len(dense.tokens), len(sparse.tokens))
        return f"The completions agree so far, for {plural(same, 'tokens', 'token')}."
    words = tuple(
        repr(completion.tokens[at].text) if at < len(completion.tokens) else "the end" for completion in (dense, sparse)
    )
    return f"The completions diverge at token {at + 1}: {words[0]} against {words[1]}."


def shortened(prompt: str, longest: int = SHORT) -> str:
    words = " ".join(prompt.split())
    return words if len(words) <= longest else f"{words[: longest - 1]}\N{HORIZONTAL ELLIPSIS}"


def recent(prompts: list[str], prompt: str) -> list[str]:
    """Return the recent prompts with this one first."""
    return [prompt, *(other for other in prompts if other != prompt)][:MAX_PROMPTS]


def _probability(log: float | None) -> str:
    return "\N{EN DASH}" if log is None else f"{math.exp(log):.3g}"


def _time(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:,.2f} s"
    return f"{1000.0 * seconds:.3g} ms"
