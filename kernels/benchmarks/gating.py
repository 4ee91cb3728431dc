"""Costs of gating in an evaluation: forward passes through gates, lm-eval's harness, calibration and allocation.

gating: the evaluation's forward pass through gates, against the same model without them, on a random Llama of hidden
size 512, every token gated at 50 % by WINA. Gating at evaluation saves nothing: it multiplies with the masked input. It
costs scores, masks and products for each of a layer's four inputs, or for each of the seven matrices with separate
masks. Expected: at most 1.15 times dense by threshold; at most 1.5 times by top-k, which partitions every token's
scores. In bfloat16 the matrices may be faster, so gates weigh more. Seen (`results/gating-cpu.json`): Python threads
gained nothing beside torch's (1.17 to 1.20 with separate masks); compiled loops on torch's threads gave 1.13 to 1.15.

harness: evaluation of the demo's multiple-choice task against the bare forward passes of the same batches, which shows
the cost of lm-eval, progress, cancellation and checks. The bar: everything but the forward passes takes at most a tenth
of their time. lm-eval's own class and loop around the same model are measured beside. Turns seconds apart drift by more
than that, so `outside_forward` is reported too: within one evaluation, CPU time outside of the model's forward over the
time inside, median over evaluations. Seen (`results/harness-cpu.json`): 0.075 in bfloat16 and 0.043 in float32, where
lm-eval alone takes 0.158 and 0.074, thanks to log-probabilities from the first scored position only, NaN checks by a
maximum, and contexts encoded once.

calibration: against a plain forward pass over the same tokens, on a random Llama of hidden size 512. Histograms take a
few elementwise passes over every input; error curves multiply each matrix once for every sampled sparsity, with 256
tokens. Expected: at most twice the plain forward over 8,192 tokens, a sixth of the default text.

allocation: TEAL's greedy allocation of one decoder layer as shipped, against the same search with every output
recomputed for every candidate. Both searches must end at the same plan. The naive one runs all of the layer over all
tokens for each candidate; ours (see `wina_core.compute.allocation.greedy`) recomputes one or two of the seven
matrices for most, those behind the attention for the last quarter of the tokens. Expected: at most a fourth of the
peer's time. Seen: an eighth (`results/allocation-cpu.json`).
"""

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, get_args

import torch
from comparing import Contender, Facts, TimingComparison, compare, ready, threads
from naive_greedy import NaiveErrors
from random_models import TOY, Size, forward, random_llama
from torch import Tensor

from wina_core.compute.allocation.cells import AllocationSubject, Values, cells_of
from wina_core.compute.allocation.greedy import LayerErrors, corrected_steps, search
from wina_core.compute.calibration import calibrate
from wina_core.compute.evaluation.harness import evaluate_task
from wina_core.compute.evaluation.lm_eval_adapter import HFLM, evaluate
from wina_core.compute.evaluation.tasks import load_task
from wina_core.compute.gating import attach
from wina_core.compute.gating.gates import Gates
from wina_core.compute.models.loading import LoadedModel, load_model
from wina_core.compute.models.text_tokens import read_tokens
from wina_core.compute.reporter import NullReporter
from wina_core.specs import CalibrationSpec, DType, EvaluationSpec, MethodSpec, ModelSource, TextSpec
from wina_core.specs.plans import UniformSparsity

SIZE = Size(hidden=512, intermediate=1408, layers=8, heads=8, kv_heads=4)
ROWS, SEQUENCE = 4, 256
SPARSITY = 0.5
AT_MOST = {"threshold": 1.15, "topk": 1.5}
MASKS = get_args(MethodSpec.model_fields["masks"].annotation)

TASK = "demo_choice"
DOCUMENTS, BATCH = 100, 16
HARNESS_AT_MOST = 1.1

CALIBRATION_TOKENS, CALIBRATION_SEQUENCE, CALIBRATION_BATCH = 8192, 512, 4096
"""The batch in tokens, as large as the calibration's."""
CALIBRATION_METHOD = MethodSpec(name="wina")
"""One histogram for each matrix; methods whose matrices share scores need fewer."""
CALIBRATION_AT_MOST = 2.0

ALLOCATION_SIZE = Size(hidden=512, intermediate=1408, layers=2, heads=8, kv_heads=2)
LAYER, ALLOCATION_SEQUENCE, BUDGET, STEP = 1, 512, 0.5, 0.1
ALLOCATION_AT_MOST = 0.25


def measure(toy: bool) -> list[TimingComparison]:
    """Measure passes through gates in float32 and bfloat16, with one thread and with two."""
    size, repetitions, sequence, counts = (TOY, 1, 16, (1,)) if toy else (SIZE, 5, SEQUENCE, (1, 2))
    comparisons = []
    for dtype in (torch.float32, torch.bfloat16):
        loaded = random_llama(size, dtype)
        tokens = read_tokens(
            TextSpec(source="demo:heldout", tokens=ROWS * sequence, sequence=sequence), loaded.tokenizer
        )
        plan = UniformSparsity(sparsity=SPARSITY)
        text = CalibrationSpec(text=TextSpec(tokens=4 * sequence, sequence=sequence))
        gated = []
        for selection, at_most in AT_MOST.items():
            for masks in MASKS:
                method = MethodSpec(name="wina", selection=selection, masks=masks)
                calibration = calibrate(loaded, method, text, NullReporter()) if selection == "threshold" else None
                gates = partial(attach, loaded, method, plan, calibration)
                passing = partial(_gated, loaded, tokens, gates)
                gated.append(Contender(f"{selection}, {masks} masks", passing, at_most))
        dense = ready("dense", partial(forward, loaded, tokens))
        for count in counts:
            setting: Facts = {**size.facts, "batch": ROWS, "sequence": sequence, "sparsity": SPARSITY,
                              "dtype": str(dtype).removeprefix("torch."), "threads": count}  # fmt: skip
            comparisons.append(compare(dense, gated, repetitions, setting))
    return comparisons


@contextmanager
def _gated(loaded: LoadedModel, tokens: Tensor, gates: "partial[Gates]") -> Iterator[partial[None]]:
    with gates():
        yield partial(forward, loaded, tokens)


def measure_harness(toy: bool) -> list[TimingComparison]:
    """Measure in bfloat16, as the demo model is stored, and in float32, with one thread, which other load disturbs
    least."""
    documents, repetitions = (2, 1) if toy else (DOCUMENTS, 3)
    spec = EvaluationSpec(tasks=(TASK,), limit=documents, batch_size=BATCH, fidelity=None)
    dtypes: tuple[DType, ...] = ("float32",) if toy else ("bfloat16", "float32")
    comparisons = []
    for dtype in dtypes:
        loaded = load_model(ModelSource(location="demo", dtype=dtype, device="cpu"), NullReporter())
        batches = _batches(loaded, spec)
        works = {"evaluate": partial(_evaluate, loaded, spec), "lm-eval alone": partial(_stock, loaded, spec)}
        setting: Facts = {"task": TASK, "documents": documents, "batch": BATCH, "batches": len(batches),
                          "dtype": dtype, "threads": 1}  # fmt: skip
        with threads(1):
            facts: dict[str, Facts] = {
                name: {"outside_forward": statistics.median(_outside_forward(loaded, work) for _ in range(repetitions))}
                for name, work in works.items()
            }
        bare = ready("forward passes", partial(_forward_batches, loaded, batches))
        evaluations = [
            ready(name, work, HARNESS_AT_MOST if name == "evaluate" else None) for name, work in works.items()
        ]
        comparisons.append(compare(bare, evaluations, repetitions, setting, facts))
    return comparisons


def _batches(loaded: LoadedModel, spec: EvaluationSpec) -> list[Tensor]:
    batches: list[Tensor] = []
    hook = loaded.model.register_forward_pre_hook(lambda _, arguments: batches.append(arguments[0]))
    _evaluate(loaded, spec)
    hook.remove()
    return batches


def _outside_forward(loaded: LoadedModel, work: "partial[None]") -> float:
    """Return the work's CPU time outside of the model's forward passes over that inside."""
    # Starts count negative and ends positive, so that the sum is the time inside.
    clock: list[float] = []
    hooks = [
        loaded.model.register_forward_pre_hook(lambda *_: clock.append(-time.process_time())),
        loaded.model.register_forward_hook(lambda *_: clock.append(time.process_time())),
    ]
    start = time.process_time()
    work()
    total = time.process_time() - start
    for hook in hooks:
        hook.remove()
    return total / sum(clock) - 1


@torch.no_grad()
def _forward_batches(loaded: LoadedModel, batches: list[Tensor]) -> None:
    for batch in batches:
        loaded.model(batch)


def _evaluate(loaded: LoadedModel, spec: EvaluationSpec) -> None:
    evaluate_task(loaded, None, spec, TASK, NullReporter())


def _stock(loaded: LoadedModel, spec: EvaluationSpec) -> None:
    # As ours computes them: log-probabilities of 16-bit models in float32.
    dtype: Any = "float32" if loaded.dtype.itemsize == 2 else None
    model = HFLM(pretrained=loaded.model, tokenizer=loaded.tokenizer, batch_size=BATCH, softmax_dtype=dtype)
    evaluate(model, load_task(TASK), limit=spec.limit, log_samples=False)


def measure_calibration(toy: bool) -> list[TimingComparison]:
    """Measure with one thread and with two."""
    size, repetitions, tokens, counts = (
        (TOY, 1, CALIBRATION_SEQUENCE, (1,)) if toy else (SIZE, 3, CALIBRATION_TOKENS, (1, 2))
    )
    loaded = random_llama(size)
    text = TextSpec(source="demo:calibration", tokens=tokens, sequence=CALIBRATION_SEQUENCE)
    spec = CalibrationSpec(text=text)
    plain = ready("plain forward", partial(_read_and_forward, loaded, text))
    calibrating = partial(calibrate, loaded, CALIBRATION_METHOD, spec, NullReporter())
    ours = ready("calibrate wina", calibrating, CALIBRATION_AT_MOST)
    setting: Facts = {**size.facts, "tokens": tokens, "sequence": CALIBRATION_SEQUENCE, "dtype": "float32"}
    return [compare(plain, [ours], repetitions, {**setting, "threads": count}) for count in counts]


def _read_and_forward(loaded: LoadedModel, text: TextSpec) -> None:
    for batch in torch.split(read_tokens(text, loaded.tokenizer), max(1, CALIBRATION_BATCH // CALIBRATION_SEQUENCE)):
        # Calibration needs no logits; one position is the least that the model computes.
        forward(loaded, batch, logits=1)


def measure_allocation(toy: bool) -> list[TimingComparison]:
    """Measure with two threads; raise RuntimeError if the two searches end at different plans."""
    size, sequence, count, repetitions = (TOY, 32, 1, 1) if toy else (ALLOCATION_SIZE, ALLOCATION_SEQUENCE, 2, 5)
    loaded = random_llama(size)
    subject = AllocationSubject(loaded, MethodSpec(name="teal"))
    cells = cells_of(loaded.view.layout, subject.method).in_layer(LAYER)
    tokens = torch.randint(len(loaded.tokenizer), (1, sequence), generator=torch.Generator().manual_seed(0))
    plans: dict[str, Values] = {}
    facts: dict[str, Facts] = {}  # each turn writes the same

    def searched(name: str, errors: Callable[[], NaiveErrors | LayerErrors]) -> None:
        error = errors()
        steps = corrected_steps(cells.blocks, cells.layout, BUDGET, STEP)
        plans[name] = search(error, steps, (0.0,) * len(cells.blocks), lambda _: None)
        facts[name] = {"evaluations": error.evaluations}

    def contender(name: str, kind: type[NaiveErrors] | type[LayerErrors], at_most: float | None = None) -> Contender:
        return ready(name, partial(searched, name, partial(kind, subject, cells, LAYER, tokens)), at_most)

    naive, ours = contender("naive greedy", NaiveErrors), contender("greedy", LayerErrors, ALLOCATION_AT_MOST)
    setting: Facts = {**size.facts, "sequence": sequence, "budget": BUDGET, "step": STEP, "dtype": "float32",
                      "threads": count}  # fmt: skip
    comparison = compare(naive, [ours], repetitions, setting, facts)
    if plans[naive.name] != plans[ours.name]:
        raise RuntimeError(f"The searches end at different plans: {plans}")
    return [comparison]
