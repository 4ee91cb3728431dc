"""Models written to folders that other programs load."""

from os import PathLike
from pathlib import Path

from wina_core.api.arguments import Sparsity, explained, method_spec, plan_of
from wina_core.api.gating import gate
from wina_core.api.model import Model
from wina_core.api.session import compute
from wina_core.engine.protocol import RotateJob
from wina_core.errors import WinaError
from wina_core.specs import CalibrationSpec, MethodSpec, Selection


@explained()
def export_model(
    model: Model,
    folder: str | PathLike[str],
    sparsity: Sparsity | None = None,
    method: str | MethodSpec = "wina",
    *,
    selection: Selection | None = None,
    calibration: CalibrationSpec | None = None,
    dense_prefix: float = 0.0,
) -> Path:
    """Write a model to a new folder in Hugging Face format.

    With a sparsity it is a sparse model: after ``import wina_core.hf``, ``from_pretrained`` loads and gates it. Without
    one it is the rotated dense model, which any program loads.

    Parameters
    ----------
    model : Model
        The model, with its rotation and quantization.
    folder : str or path
        A new folder, or an empty one.
    sparsity : float, plan or path, optional
        Fraction of every matrix's inputs to drop, a plan of `allocate`, or a plan's file.
    method : str or wina_core.specs.MethodSpec
        The gate rule.
    selection : {"topk", "threshold", "statistical", "top_p"}, optional
        Keep exactly the top k of each token, or the scores above a calibrated value.
    calibration : wina_core.specs.CalibrationSpec, optional
        The text that thresholds are calibrated on.
    dense_prefix : float
        Fraction of each prompt's first tokens that stays dense.

    Returns
    -------
    pathlib.Path
        The folder.

    Raises
    ------
    WinaError
        If the folder is in use, the disk is full, or there is neither a sparsity nor a rotation.

    Examples
    --------
    >>> import tempfile, wina_core
    >>> model = wina_core.open_model("demo", dtype="float32")
    >>> folder = wina_core.export_model(model, tempfile.mkdtemp(), 0.5, "wina")
    >>> import wina_core.hf
    >>> from transformers import AutoModelForCausalLM
    >>> sparse = AutoModelForCausalLM.from_pretrained(folder)
    >>> sparse.wina.gates.enabled
    True
    """
    path = Path(folder).absolute()
    if sparsity is None:
        if model.rotation.is_identity:
            raise WinaError("There is nothing to export: give a sparsity, or rotate the model first.")
        compute(RotateJob(model=model.source, rotation=model.rotation, export_to=str(path)), model.database)
        return path
    from wina_core.compute.rotation.storage import check_unused
    from wina_core.compute.sparse.export import save_sparse
    from wina_core.masks.targets import resolve_plan

    check_unused(path)  # now, not after a calibration
    spec, plan = method_spec(method, selection), plan_of(sparsity)
    gated = gate(model, sparsity, spec, calibration=calibration, dense_prefix=dense_prefix)
    with gated as gates:
        table = resolve_plan(plan, model.layout, spec)
        save_sparse(model.loaded, gates, spec, table, path, dense_prefix=dense_prefix)
    return path
