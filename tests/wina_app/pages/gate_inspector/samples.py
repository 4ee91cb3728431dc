"""An inspected gate as the engine would answer, from numbers drawn by a fixed seed."""

import numpy as np

from wina_core.analysis.gate_views import highest
from wina_core.jobs import InspectGateJob
from wina_core.model_info.cost.matrices import kept_inputs
from wina_core.records.gates import GateDecision, GateRecord, GateTarget, PackedArray

WORDS = (" The", " mill", " by", " the", "\n", " river")


def answer(job: InspectGateJob, inputs: int = 60, tokens: int = len(WORDS)) -> GateRecord:
    """What the job's methods keep of random inputs; every method of a name with "wina" weighs by the norms, CATS by a
    signal of its own."""
    draw = np.random.default_rng(7)
    x = np.abs(draw.normal(size=(tokens, inputs))).astype(np.float32)
    norms = np.exp(draw.normal(size=inputs)).astype(np.float32)
    signal = np.abs(draw.normal(size=(tokens, inputs))).astype(np.float32)
    gates = tuple(_decision(each, job.projection, x, norms, signal) for each in job.gates)
    words = tuple(WORDS[place % len(WORDS)] for place in range(tokens))
    return GateRecord(
        layer=job.layer,
        projection=job.projection,
        tokens=words,
        prompt_tokens=tokens + 3,
        inputs=PackedArray.of(x),
        norms=PackedArray.of(norms),
        gates=gates,
        seconds=0.1,
    )


def _decision(asked: GateTarget, projection: str, x: np.ndarray, norms: np.ndarray, signal: np.ndarray) -> GateDecision:
    weighs, by_signal = asked.method.name == "wina", asked.method.name == "cats"
    scores = signal if by_signal else x * norms if weighs else x
    mask = highest(scores, int(kept_inputs(x.shape[1], asked.target, asked.method, (projection,)).item()))
    energy = (x * norms).astype(float) ** 2
    return GateDecision(
        asked=asked,
        scored="activation" if by_signal else "input",
        magnitudes=PackedArray.of(signal) if by_signal else None,
        scale=PackedArray.of(norms) if weighs else None,
        quantiles=None,
        mask=PackedArray.of(mask),
        rank=0,
        output_error=0.125,
        kept_energy=float(energy[mask].sum() / energy.sum()),
    )
