"""Gates on a live model, and measurements of gated models."""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from wina_core.api.arguments import Several, Sparsity, checked, explained, method_spec, plan_of
from wina_core.api.model import Model
from wina_core.api.progress import library_reporter
from wina_core.api.session import COMPUTING, held_while_gated, session
from wina_core.api.studies import run_study
from wina_core.errors import WinaError
from wina_core.specs import DENSE, CalibrationSpec, Configuration, MethodSpec, Selection, TaskSpec, TextSpec
from wina_core.specs.plans import SparsityPlan
from wina_core.studies.launch import StudyOptions, study_of

if TYPE_CHECKING:  # torch and pandas take seconds to import
    import pandas as pd

    from wina_core.compute.gating.gates import Gates


@checked
@contextmanager
def gate(
    model: Model,
    sparsity: Sparsity = 0.5,
    method: str | MethodSpec = "wina",
    *,
    selection: Selection | None = None,
    calibration: CalibrationSpec | None = None,
    dense_prefix: Annotated[float, Field(ge=0, lt=1)] = 0.0,
    kernels: bool = False,
) -> "Iterator[Gates]":
    """Gate a model within a `with` block.

    `model.model` is gated there, in every use: forward passes, `generate`, evaluations of your own. Parameters and
    their names stay as they are. Within the block, functions that compute with models refuse to, in every thread; a
    block begins when a computation in another thread has ended.

    Parameters
    ----------
    model : Model
        The model.
    sparsity : float, plan or path
        Fraction of every matrix's inputs to drop, in [0, 1); a plan of `allocate`; or a plan's file.
    method : str or wina_core.specs.MethodSpec
        The gate rule; a MethodSpec also has variant, shared masks and correction.
    selection : {"topk", "threshold", "statistical", "top_p", "mixed"}, optional
        Keep exactly the top k of each token, or scores by a calibrated value (`MethodSpec.selection`).
    calibration : wina_core.specs.CalibrationSpec, optional
        The text that thresholds are calibrated on, where the method needs that.
    dense_prefix : float
        Fraction of each prompt's first tokens that stays dense, in [0, 1).
    kernels : bool
        Multiply single tokens without reading the weights of dropped inputs, for speed; results differ by rounding.

    Yields
    ------
    wina_core.compute.gating.gates.Gates
        `gated_sparsity` is the measured fraction of dropped weights of the tokens so far, `measured()` that of each
        matrix, `enabled` switches the gates, `reset_counts()` counts anew.

    Raises
    ------
    WinaError
        For an unknown method, a plan of another model, targets out of reach, or a model that is gated already.

    Examples
    --------
    >>> import wina_core
    >>> model = wina_core.open_model("demo", dtype="float32")
    >>> ids = model.tokenizer("A list is", return_tensors="pt").input_ids
    >>> dense = model.model(ids).logits
    >>> with wina_core.gate(model, 0.5, "wina") as gates:
    ...     gated = model.model(ids).logits  # [1, tokens, vocabulary]
    >>> round(gates.gated_sparsity, 2)
    0.5
    >>> bool((model.model(ids).logits == dense).all())
    True
    """
    from wina_core.compute.gating.gates import attach

    spec, plan = method_spec(method, selection), plan_of(sparsity)
    needed = (calibration or CalibrationSpec()) if spec.needs_calibration else None
    with ExitStack() as block:
        with explained(), COMPUTING, library_reporter() as reporter:  # waits for a job of another thread
            # A calibration would measure, and cache, whatever the caller has changed in the model.
            with session().refusing_changed() if needed else nullcontext():
                loaded = model.loaded
            # Before the gates enter the stack, which detaches them first and then releases the model.
            block.enter_context(held_while_gated(model.source, model.rotation, loaded))
            calibrated, resolved = session().gating(loaded, model.rotation, spec, plan, needed, reporter)
            gates = block.enter_context(attach(loaded, spec, resolved, calibrated, dense_prefix, kernels))
        yield gates


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
    levels: Any = [sparsity] if isinstance(sparsity, float | int | str | PathLike | SparsityPlan) else sparsity
    folders = [include_path] if isinstance(include_path, str | PathLike) else include_path
    plans = [] if spec.name == DENSE.name else [plan_of(level) for level in levels]
    if not plans and spec.name != DENSE.name:
        raise WinaError("sparsity: it should name at least one fraction or plan.")
    compared = TextSpec(source=fspath(text), tokens=tokens) if fidelity else None
    options = StudyOptions(
        name=name or f"{spec.name} on {model.source.location}"[:200],
        model=model.source,
        configurations=[Configuration(rotation=model.rotation, method=spec)],
        sparsities=[plan.sparsity for plan in plans if not isinstance(plan, SparsityPlan)],
        plans=[plan for plan in plans if isinstance(plan, SparsityPlan)],
        calibration=calibration or CalibrationSpec(),
        tasks=list(tasks),
        task_folders=[str(Path(folder).absolute()) for folder in folders],
        limit=limit,
        num_fewshot=num_fewshot,
        chat_template=apply_chat_template,
        data_folder=None if data_folder is None else fspath(data_folder),
        batch_size=batch_size,
        dense_prefix=dense_prefix,
        fidelity=compared,
        original=compared,
    )
    return run_study(
        study_of(options),
        database=model.database,
        trust_task_code=trust_task_code,
        confirm_run_unsafe_code=confirm_run_unsafe_code,
    )
