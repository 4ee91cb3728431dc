"""Models written to folders that other programs load."""

from os import PathLike, fspath
from pathlib import Path

from wina_core.api.arguments import Sparsity, checked, method_spec, plan_of
from wina_core.api.model import Model
from wina_core.api.session import compute
from wina_core.api.stored import stored_run
from wina_core.errors import WinaError
from wina_core.jobs import RotateJob
from wina_core.records import ExportRecord, RotationReport
from wina_core.report.model_card import export_job, sparse_run
from wina_core.specs import CalibrationSpec, Configuration, MethodSpec, Selection
from wina_core.store import Store


@checked
def export_model(
    model: Model | str,
    folder: str | PathLike[str],
    sparsity: Sparsity | None = None,
    method: str | MethodSpec = "wina",
    *,
    selection: Selection | None = None,
    calibration: CalibrationSpec | None = None,
    dense_prefix: float = 0.0,
    database: str | PathLike[str] | None = None,
) -> Path:
    """Write a model to a new folder in Hugging Face format.

    With a sparsity, or of a stored run, it is a sparse model: after ``import wina_core.hf``, ``from_pretrained`` loads
    and gates it. Without one it is the rotated dense model, which any program loads.

    Parameters
    ----------
    model : Model or str
        The model, with its rotation and quantization; or the beginning of a run's hash (column "run" of results), whose
        gates are taken and whose measurements are on the model card. With a run, the parameters after `folder` are not
        read, but `database`.
    folder : str or path
        A new folder, or an empty one.
    sparsity : float, plan or path, optional
        Fraction of every matrix's inputs to drop, in [0, 1); a plan of `allocate`; or a plan's file.
    method : str or wina_core.specs.MethodSpec
        The gate rule.
    selection : {"topk", "threshold", "statistical", "top_p", "mixed"}, optional
        Keep exactly the top k of each token, or scores by a calibrated value (`MethodSpec.selection`).
    calibration : wina_core.specs.CalibrationSpec, optional
        The text that thresholds are calibrated on.
    dense_prefix : float
        Fraction of each prompt's first tokens that stays dense, in [0, 1).
    database : str or path, optional
        The database of the run; by default the one of the window and the command line.

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
    path = Path(folder)
    if isinstance(model, str):
        address = None if database is None else fspath(database)
        with Store(address) as store:
            spec = stored_run(store, model)
    elif sparsity is not None:
        address = model.database
        configuration = Configuration(rotation=model.rotation, method=method_spec(method, selection))
        spec = sparse_run(model.source, configuration, plan_of(sparsity), calibration, dense_prefix)
    elif model.rotation.is_identity:
        raise WinaError("There is nothing to export: give a sparsity, or rotate the model first.")
    else:
        rotation = RotateJob(model=model.source, rotation=model.rotation, export_to=str(path.absolute()))
        compute(rotation, RotationReport, model.database)
        return path.absolute()
    with Store(address) as store:
        job = export_job(store, spec, path)
    compute(job, ExportRecord, address)
    return Path(job.folder)
