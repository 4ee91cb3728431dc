"""Small studies, runs and records for the tests of the store."""

from wina_core.records import Environment, LatencyRecord, LayerRecord, MetricRecord, ModelSummary, UnitRecord
from wina_core.records.completions import CompletionRecord, CompletionToken
from wina_core.specs import (
    FIDELITY,
    NO_ROTATION,
    Configuration,
    EvaluationSpec,
    MethodSpec,
    ModelSource,
    RotationSpec,
    RunSpec,
)
from wina_core.specs.generation import CompletionPoint, CompletionSpec
from wina_core.specs.latency import LatencyPoint
from wina_core.specs.plans import PlanLayout, UniformSparsity
from wina_core.specs.studies import StudySpec
from wina_core.store import Store

MODEL = ModelSource(location="/models/small llama", fingerprint="0123456789abcdef")
WINA = MethodSpec(name="wina")
LAYOUT = PlanLayout(projections=("q", "down"), parameters=((64, 256), (64, 256)))
ENVIRONMENT = Environment(device="cpu", hardware="a processor", versions={"torch": "2.13.0"})
EVALUATION = EvaluationSpec(tasks=("choice",))


def run(sparsity: float = 0.5, rotation: RotationSpec = NO_ROTATION, method: MethodSpec = WINA) -> RunSpec:
    """A run with two units, the fidelity and the task "choice"."""
    plan = UniformSparsity(sparsity=sparsity)
    return RunSpec(model=MODEL, rotation=rotation, method=method, plan=plan, evaluation=EVALUATION)


def study(name: str = "a study") -> StudySpec:
    """The study that the runs above could come from."""
    return StudySpec(
        name=name,
        models=(MODEL,),
        configurations=(Configuration(method=WINA),),
        sparsities=(0.5,),
        evaluation=EVALUATION,
    )


def unit(of: RunSpec, name: str = "choice", value: float = 0.75, layer_value: float = 0.5) -> UnitRecord:
    """A finished unit with one metric and a layer map of 2 x 2."""
    metric = MetricRecord(
        task=name,
        metric="kl" if name == FIDELITY else "acc",
        value=value,
        stderr=0.01,
        n=400,
        higher_is_better=True,
        version="1.0",
        num_fewshot=5,
        prompt_hash="0123456789abcdef",
        truncated=2,
    )
    layers = tuple(
        LayerRecord(layer=layer, projection=projection, metric="sparsity", value=layer_value + layer / 10)
        for layer in range(2)
        for projection in ("q", "down")
    )
    return UnitRecord(
        run=of.content_hash(),
        unit=name,
        metrics=(metric,),
        layers=layers,
        gated_sparsity=0.49,
        net_sparsity=0.4,
        seconds=1.5,
    )


def summary(source: ModelSource = MODEL) -> ModelSummary:
    """The summary of an opened model."""
    return ModelSummary(
        location=source.location,
        fingerprint=source.fingerprint,
        architecture="LlamaForCausalLM",
        family="llama",
        layout=LAYOUT,
        hidden_size=8,
        intermediate_size=32,
        heads=2,
        kv_heads=1,
        head_dim=4,
        vocabulary=100,
        context=128,
        tied_embeddings=True,
        dtype="float32",
        parameters=5_000_000_000,
        gated_parameters=640,
        memory_bytes=20_000_000_000,
    )


def timed(point: LatencyPoint, environment: Environment = ENVIRONMENT, median: float = 2.0) -> LatencyRecord:
    """A timed point that is half as fast again as the dense product."""
    return LatencyRecord(
        point=point,
        op="down",
        environment=environment,
        measured_sparsity=0.5,
        read_bytes=8e6,
        median_ms=median,
        p10_ms=1.5,
        p90_ms=3.0,
        dense_ms=3.0,
        speedup=1.5,
        bandwidth=8.0,
    )


def opened_models(store: Store) -> list[ModelSummary]:
    """The opened models in the database, the last one last."""
    with store._engine.connect() as connection:
        rows = connection.exec_driver_sql("SELECT summary FROM models WHERE opened IS NOT NULL ORDER BY opened, id")
        return [ModelSummary.model_validate_json(text) for (text,) in rows]


def completion(
    sparsity: float | None = 0.5,
    *,
    prompt: str = "def median(data):",
    text: str = "return",
    length: int = 20,
    **changes: object,
) -> CompletionRecord:
    """A completion gated at a sparsity, or the dense one; the gated model is twice as fast."""
    configuration = CompletionSpec()
    if sparsity is not None:
        configuration = CompletionSpec(method=WINA, plan=UniformSparsity(sparsity=sparsity))
    gated = sparsity is not None
    tokens = tuple(
        CompletionToken(
            id=number,
            text=text if number == 0 else f" {number}",
            log_probability=-1.0,
            dense_log_probability=-2.0 if gated else None,
            divergence=0.25 if gated else None,
            read=1 if number else 4,
            seconds=0.01 if gated else 0.02,
            dense_seconds=0.02 if gated else None,
        )
        for number in range(length)
    )
    record = CompletionRecord(
        point=CompletionPoint(model=MODEL, prompt=prompt, new_tokens=length, configuration=configuration),
        environment=ENVIRONMENT,
        end="length",
        prompt_tokens=4,
        sparsity=0.49 if gated else None,
        tokens=tokens,
    )
    return record.model_copy(update=changes)
