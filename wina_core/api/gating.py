"""Gates on a live model."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from wina_core.api.arguments import Sparsity, checked, explained, method_spec, plan_of
from wina_core.api.model import Model
from wina_core.api.session import hold_gated, in_library, release_gated, session
from wina_core.cli.terminal import terminal_reporter
from wina_core.specs import CalibrationSpec, MethodSpec, Selection

if TYPE_CHECKING:  # torch takes seconds to import
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
        with explained(), in_library(), terminal_reporter() as reporter:  # waits for a job of another thread
            with session().refusing_changed() if needed else nullcontext():
                loaded = model.loaded
            hold_gated(model.source, model.rotation, loaded)
            block.callback(release_gated, model.source, model.rotation)
            found, corrected = session().gating(loaded, model.rotation, spec, plan, needed, reporter)
            gates = block.enter_context(attach(loaded, spec, plan, found, dense_prefix, kernels, corrected))
        yield gates
