"""A study like the paper's Table 3 and numbers for it, for the tests of reports."""

from wina_core.records import Environment, LayerRecord, MetricRecord, SampleRecord, UnitRecord
from wina_core.report.layout import published_metric
from wina_core.specs import (
    DENSE,
    Configuration,
    EvaluationSpec,
    MethodSpec,
    ModelSource,
    RunSpec,
)
from wina_core.specs.plans import UniformSparsity
from wina_core.specs.studies import Role, StudySpec
from wina_core.store import Store
from wina_core.studies.published import COMMONSENSE, published_value
from wina_core.studies.run_labels import LabelledRun, RunLabel, configuration_names, model_names

ENVIRONMENT = Environment(device="cpu", hardware="a processor", versions={"torch": "2.13.0", "lm-eval": "0.4.13"})
CONFIGURATIONS = (
    Configuration(name="dense", method=DENSE),
    Configuration(name="TEAL", method=MethodSpec(name="teal")),
    Configuration(name="WINA", method=MethodSpec(name="wina")),
)
STEPS = {"dense": 0.02, "teal": -0.03, "wina": 0.0}
"""How far each method's accuracies lie above the paper's WINA at 50 %."""
MISSES = {"teal": 0.02, "wina": 0.002}
"""How far each method's measured sparsity lies above its target."""


def study(**changes: object) -> StudySpec:
    settings: dict[str, object] = {
        "name": "The commons' <sense> & $x_1$",
        "title": "Table 3 <script>alert(1)</script>",
        "paper": "commonsense",
        "roles": (Role(name="Llama-2-7B", hub="meta-llama/Llama-2-7b-hf", location="/home/somebody/llama"),),
        "models": (ModelSource(location="role:Llama-2-7B"),),
        "configurations": CONFIGURATIONS,
        "sparsities": (0.5, 0.65),
        "evaluation": EvaluationSpec(tasks=COMMONSENSE, fidelity=None),
    }
    return StudySpec.model_validate(settings | changes)


def named(of: StudySpec) -> list[LabelledRun]:
    """As `labelled` makes them, of models that are not here."""
    locations = {f"role:{role.name}": role.location for role in of.roles}
    labelled_runs = []
    for model, model_name in zip(of.models, model_names(of), strict=True):
        for configuration, configuration_name in zip(of.configurations, configuration_names(of), strict=True):
            for sparsity in (0.0,) if configuration.method.name == "dense" else of.sparsities:
                location = locations.get(model.location, model.location)
                run = RunSpec(
                    model=model.model_copy(update={"location": location, "fingerprint": "f"}),
                    rotation=configuration.rotation,
                    method=configuration.method,
                    plan=UniformSparsity(sparsity=sparsity),
                    calibration=of.calibration if configuration.method.needs_calibration else None,
                    evaluation=of.evaluation,
                )
                labelled_runs.append(
                    LabelledRun(run, RunLabel(run.content_hash(), model_name, configuration_name, "uniform"))
                )
    return labelled_runs


def runs(of: StudySpec) -> list[RunSpec]:
    return [run.spec for run in named(of)]


def unit(run: RunSpec, task: str, value: float, metric: str = "acc", samples: int = 0, **more: object) -> UnitRecord:
    right = round(value * samples)
    documents = tuple(
        SampleRecord(task=task, doc=doc, scores={metric: (float(doc < right), 1.0)}, target="0", response="[]")
        for doc in range(samples)
    )
    value = right / samples if samples else value
    record = {"task": task, "metric": metric, "value": value, "stderr": 0.01, "n": samples or 4000, "num_fewshot": 0}
    layers = tuple(
        LayerRecord(layer=layer, projection=name, metric="sparsity", value=0.4 + layer / 10)
        for layer in range(2)
        for name in ("q", "down")
    )
    counted = None if run.method.name == "dense" else run.plan.budget + MISSES.get(run.method.name, 0.0)
    return UnitRecord(
        run=run.content_hash(),
        unit=task,
        metrics=(MetricRecord.model_validate(record | more),),
        layers=() if run.method.name == "dense" else layers,
        gated_sparsity=counted,
        net_sparsity=None if counted is None else counted - 0.1,
        seconds=1.5,
        samples=documents,
    )


def fill(store: Store, of: StudySpec, missing: tuple[str, str] = ("", ""), samples: int = 0) -> None:
    """Store all units of the study but those of the method and task in `missing`."""
    store.save_study(of, named(of))
    for run in runs(of):
        store.begin_run(run.content_hash(), ENVIRONMENT)
        for task in set(of.evaluation.task_names) & set(COMMONSENSE):
            paper = published_value("commonsense", "Llama-2-7B", "WINA", 0.5, task)
            assert paper is not None
            if (run.method.name, task) != missing:
                value, metric = paper / 100 + STEPS[run.method.name], published_metric("commonsense", task)
                store.record_unit(unit(run, task, value, metric, samples))
