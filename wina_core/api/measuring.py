"""Measurements of gated models, and studies."""

from collections.abc import Iterable, Mapping
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from wina_core.api.arguments import Several, Sparsity, checked, method_spec, plan_of
from wina_core.api.model import Model
from wina_core.api.session import in_job
from wina_core.cli.computing import RunOptions, compute
from wina_core.cli.latency import sweep_products
from wina_core.cli.study import open_study
from wina_core.errors import WinaError
from wina_core.specs import (
    COST_CONTEXT,
    DENSE,
    CalibrationSpec,
    Configuration,
    EvaluationSpec,
    MethodSpec,
    Selection,
    TaskSpec,
    TextSpec,
)
from wina_core.specs.plans import SparsityPlan
from wina_core.specs.studies import StudySpec
from wina_core.store import MetricFilter, Store

if TYPE_CHECKING:
    import pandas as pd


@checked
def measure(
    model: Model,
    sparsity: Sparsity | Iterable[Sparsity] = 0.5,
    method: str | MethodSpec = "wina",
    *,
    selection: Selection | None = None,
    calibration: CalibrationSpec | None = None,
    tasks: Annotated[Iterable[str | TaskSpec], Several] = (),
    include_path: str | PathLike[str] | Iterable[str | PathLike[str]] = (),
    limit: int | None = None,
    num_fewshot: int | None = None,
    apply_chat_template: bool = False,
    data_folder: str | PathLike[str] | None = None,
    fidelity: bool = True,
    text: str | PathLike[str] = "demo:heldout",
    tokens: int = 16384,
    batch_size: int | Literal["auto"] = 16,
    dense_prefix: float = 0.0,
    name: str = "",
    trust_task_code: bool = False,
    confirm_run_unsafe_code: bool = False,
) -> "pd.DataFrame":
    """Measure a method: its fidelity to the original model, lm-eval tasks, and the cost of a token.

    It is `wina eval`: every number is stored when it is found, and nothing is computed twice.

    Parameters
    ----------
    model : Model
        The model, with its rotation and quantization.
    sparsity : float, plan or path, or an iterable of them
        Fractions to drop in [0, 1), plans of `allocate`, or their files.
    method : str or wina_core.specs.MethodSpec
        The gate rule; "dense" for the model without gates.
    selection : {"topk", "threshold", "statistical", "top_p", "mixed"}, optional
        Keep exactly the top k of each token, or scores by a calibrated value (`MethodSpec.selection`).
    calibration : wina_core.specs.CalibrationSpec, optional
        The text that thresholds are calibrated on.
    tasks : iterable of str or wina_core.specs.TaskSpec
        Names of lm-eval tasks.
    include_path : path or iterable of paths
        Folders of lm-eval task files beside the stock ones.
    limit : int, optional
        Documents of each task; all by default.
    num_fewshot : int, optional
        Examples in the prompt; the task's own number by default.
    apply_chat_template : bool
        Ask the tasks within the model's chat template, few-shot examples as earlier turns.
    data_folder : str or path, optional
        Local data instead of the Hugging Face Hub's; "demo" for the shipped one.
    fidelity : bool
        Compare next-token distributions with the original's (task "original": dense, unrotated, unquantized) and with
        the same model's without gates (task "fidelity").
    text : str or path
        Text of that comparison: a UTF-8 file or "demo:heldout".
    tokens : int
        Tokens to read of it.
    batch_size : int or "auto"
        Sequences per forward pass.
    dense_prefix : float
        Fraction of each sequence's first tokens left dense, in [0, 1).
    name : str
        Name of the study in the database; by default method and model.
    trust_task_code : bool
        Consent, this once, to the code that task folders ask for: Python functions, metrics and readers of data. It
        runs with all of your rights.
    confirm_run_unsafe_code : bool
        Consent, this once, to running programs that the model writes (humaneval, mbpp), each in a sandbox.

    Returns
    -------
    pandas.DataFrame
        As `query_results` returns it: one row per run and metric. The metric "kl" is in nats per token.

    Raises
    ------
    WinaError
        If nothing is to be measured, a task is unknown or asks for code without consent, or a run failed; the results
        of other runs are stored.

    Examples
    --------
    >>> import wina_core
    >>> model = wina_core.open_model("demo", dtype="float32")
    >>> found = wina_core.measure(model, [0.25, 0.5], "wina", tokens=512)
    >>> kl = found.query("task == 'original' and metric == 'kl'").set_index("target_sparsity").value
    >>> bool(kl[0.25] < kl[0.5])
    True
    """
    spec = method_spec(method, selection)
    given: Any = [sparsity] if isinstance(sparsity, float | int | str | PathLike | SparsityPlan) else sparsity
    folders = [include_path] if isinstance(include_path, str | PathLike) else include_path
    plans = [] if spec.name == DENSE.name else [plan_of(each) for each in given]
    if not plans and spec.name != DENSE.name:
        raise WinaError("sparsity: it should name at least one fraction or plan.")
    compared = TextSpec(source=fspath(text), tokens=tokens) if fidelity else None
    measured = tuple(tasks)
    study = StudySpec(
        name=name or f"{spec.name} on {model.source.location}"[:200],
        models=(model.source,),
        configurations=(Configuration(rotation=model.rotation, method=spec),),
        sparsities=tuple(plan.sparsity for plan in plans if not isinstance(plan, SparsityPlan)),
        plans=tuple(plan for plan in plans if isinstance(plan, SparsityPlan)),
        calibration=calibration or CalibrationSpec(),
        evaluation=EvaluationSpec(
            tasks=measured,
            task_folders=tuple(str(Path(folder).absolute()) for folder in folders),
            limit=limit,
            num_fewshot=num_fewshot,
            chat_template=apply_chat_template,
            data_folder=None if data_folder is None else fspath(data_folder),
            batch_size=batch_size,
            dense_prefix=dense_prefix,
            fidelity=compared,
            original=compared,
            cost_context=COST_CONTEXT if fidelity or measured else None,
        ),
    )
    return run_study(
        study,
        database=model.database,
        trust_task_code=trust_task_code,
        confirm_run_unsafe_code=confirm_run_unsafe_code,
    )


@checked
def run_study(
    study: str | PathLike[str] | StudySpec,
    *,
    roles: Mapping[str, str | PathLike[str]] | None = None,
    data_folder: str | PathLike[str] | None = None,
    engines: Annotated[int, Field(ge=0)] = 1,
    recompute: bool = False,
    trust_task_code: bool = False,
    confirm_run_unsafe_code: bool = False,
    database: str | PathLike[str] | None = None,
) -> "pd.DataFrame":
    """Compute the missing measurements of a study, as `wina study run` does.

    Parameters
    ----------
    study : str, path or wina_core.specs.studies.StudySpec
        Its name in the gallery, a TOML or JSON file, or a spec.
    roles : mapping of str to str or path, optional
        Folder or Hugging Face id of the model for each role, this once.
    data_folder : str or path, optional
        Local data of the tasks.
    engines : int
        Processes that share the runs: 1 for this one, 0 for one on each GPU. More than one need a script that begins
        with ``if __name__ == "__main__":``.
    recompute : bool
        Compute everything again, stored results included.
    trust_task_code : bool
        Consent, this once, to the code that task folders ask for: Python functions, metrics and readers of data. It
        runs with all of your rights.
    confirm_run_unsafe_code : bool
        Consent, this once, to running programs that the model writes (humaneval, mbpp), each in a sandbox.
    database : str or path, optional
        SQLite file or PostgreSQL address; by default the one of the window and the command line.

    Returns
    -------
    pandas.DataFrame
        The study's metrics, as `query_results` returns them. Latencies are in its table "latency".

    Raises
    ------
    WinaError
        For an unknown study, a role without a model, or runs that failed; the results of other runs are stored.

    Examples
    --------
    >>> import wina_core
    >>> found = wina_core.run_study("demo-gflops")
    >>> sorted(found.method.unique())
    ['dense', 'wina (as released)']
    """
    if isinstance(study, StudySpec):
        spec = study
    else:
        given = [f"{role}={location}" for role, location in (roles or {}).items()]
        spec = open_study(fspath(study), given, None if data_folder is None else fspath(data_folder))
    options = RunOptions(
        again=recompute,
        engines=engines,
        trust_task_code=trust_task_code,
        run_model_code=confirm_run_unsafe_code,
    )
    with in_job() as models, Store(None if database is None else fspath(database)) as store:
        computed = compute(spec, options, store, models)
        if spec.latency:
            sweep_products(spec.latency, recompute, store)
        found = store.metrics(MetricFilter(study=computed.study)).copy()
    computed.check()
    return found
