"""The base of all methods: the matrices that a method gates, their inputs' scores, and what it adds to the output.

A package's method is checked before it is listed.
"""

import re
from collections.abc import Collection
from importlib.metadata import EntryPoint
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

from wina_core.errors import WinaError

if TYPE_CHECKING:
    from wina_core.specs.gates import MethodSpec

Variant = Literal["paper", "as_released", "own"]
Masks = Literal["separate", "shared"]
Centring = Literal["none", "inputs", "matrix"]
"""The point that inputs are scored from: 0, a calibrated centre of each input, or one centre of the whole matrix."""

BLOCKS = (("q", "k", "v"), ("o",), ("gate", "up"), ("down",))
"""Projections that read the same input, and may therefore share a mask."""


class Method:
    """A gate rule y = W (m * x), with a mask m per token that keeps the inputs of highest score |x_i| * c_i.

    A plan says how many inputs are kept; a method says which matrices it gates and with which c. Gates, calibration,
    accounting, allocators and the window read only this class, so that a subclass and its line in the registry are a
    whole method.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    """One sentence for users, in `tr`."""
    colour: ClassVar[str] = ""
    """Its colour in plots, as "#0072B2", if it is none of `METHOD_COLOURS`; empty for grey."""
    variants: ClassVar[tuple[Variant, ...]] = ("paper",)
    """Its readings: the paper's text, the authors' released code where that differs, or one of our own."""
    by_gate_activation: ClassVar[bool] = False
    """Whether the MLP's gate activation is scored instead of the matrix's own input (CATS)."""
    keeps_ties: ClassVar[bool] = False
    """Whether top k keeps every input that scores like the k-th, instead of exactly k (LaRoSA)."""
    projections: tuple[str, ...] | None = None
    """Canonical names of the gated projections; None for all."""
    centring: Centring = "none"
    """The centre also replaces each dropped input (SCAP)."""
    signed_thresholds: bool = False
    """Whether the threshold of a target s is the inverse CDF of the signed values at (1 + s) / 2, instead of that of
    the scores at s (TEAL as released)."""
    scores_by_shares: bool = False
    """Whether a plan's own rho decides how a matrix is scored."""
    default_rho: float | None = None
    """Share of the kept budget that goes to the mask, unless the spec or the plan says otherwise; the rest buys a
    low-rank part. None for a method without one."""

    def __init__(self, choice: "MethodSpec") -> None:
        self.variant, self.masks = choice.variant, choice.masks
        self.rho = self.default_rho if choice.rho is None else choice.rho
        """The chosen share of the mask, or the default one; None without a low-rank part."""

    @property
    def scores_by_norms(self) -> bool:
        """Return whether matrices with the same input are scored by different norms, so that sharing a mask matters."""
        return any(self.norms_of(name, block, fused=False) for block in BLOCKS for name in block)

    def kept(self, inputs: Any, sparsity: Any) -> Any:
        """Return K, the number of n inputs that top k keeps: n - floor(s n + 1/2), at least 1; numbers or arrays alike.

        Released code keeps `released_kept` instead.
        """
        import numpy as np  # late: specs import methods, and most of their users need no arrays

        if self.variant == "as_released":
            return released_kept(inputs, sparsity)
        # Halves go up in every case; np.round would take them to the even number.
        return np.maximum(1, inputs - np.floor(np.multiply(sparsity, inputs) + 0.5))

    def cell_target(self, name: str, sparsity: float) -> float:
        return sparsity

    def gates(self, name: str) -> bool:
        return self.projections is None or name in self.projections

    def check_projections(self, names: Collection[str]) -> None:
        """Raise WinaError for a model without a projection that the method reads."""
        if self.by_gate_activation and "gate" not in names:
            raise WinaError(f'The method "{self.name}" needs a gated MLP, which this model does not have; choose teal.')

    def norms_of(self, name: str, block: tuple[str, ...], *, fused: bool, rho: float | None = None) -> tuple[str, ...]:
        """Return the projections whose column norms weigh the score of `name`; none for c = 1.

        c_i^2 is the sum of ||W[:, i]||_2^2 over them. They belong to `block`, all projections of a model that read the
        same input; with `fused`, these are rows of one matrix. `rho` is the plan's share of the mask in the cell; None
        for the method's own.
        """
        return ()

    def column_weights(self, weight: Any) -> Any:
        """Return c, float32 [n], of the columns of W, a torch.Tensor [m, n] of any float dtype; None for their norms.

        c replaces the norms wherever `norms_of` names a projection. c_i must be at least 0, depend on W[:, i] alone,
        and scale with it; then it stays the same where a rotation folds norms into inputs.
        """
        return None

    @property
    def has_column_weights(self) -> bool:
        return type(self).column_weights is not Method.column_weights

    def masks_by_norms(self, block: tuple[str, ...], *, fused: bool) -> dict[str, tuple[str, ...]]:
        """Return the norms that decide the mask of each gated projection: its `norms_of`, or all where one is shared.

        Projections with equal values here and equal targets use the same mask.
        """
        norms_by_name = {name: self.norms_of(name, block, fused=fused) for name in block if self.gates(name)}
        if self.masks == "separate":
            return norms_by_name
        return dict.fromkeys(
            norms_by_name, tuple(dict.fromkeys(norm for norms in norms_by_name.values() for norm in norms))
        )

    def mask_sparsity(self, sparsity: float, rho: float | None) -> float:
        """Return the fraction of inputs that the mask drops, given the fraction of weights to leave out."""
        return sparsity

    def rank(self, name: str, shape: tuple[int, int], sparsity: float, rho: float | None) -> int:
        """Return the rank of the part added for the dropped inputs of the matrix W [m, n] of that name; 0 for none."""
        return 0


def released_kept(inputs: Any, sparsity: Any) -> Any:
    """Return int(n (1 - s)) in double precision, at least 1; numbers or arrays alike."""
    import numpy as np

    return np.maximum(1, np.trunc(inputs * (1 - np.asarray(sparsity))))


_COLOUR = re.compile(r"(#[0-9a-fA-F]{6})?")


def method_of(name: str, point: EntryPoint) -> type[Method]:
    """Import the class that an entry point names, and call what the window and the estimates call.

    Raises WinaError for anything but a fitting class, and whatever its code raises.
    """
    from wina_core.specs.gates import MethodSpec  # which imports the methods

    method_class = point.load()
    if not (isinstance(method_class, type) and issubclass(method_class, Method)):
        raise WinaError(f"{point.value} is no subclass of wina_core.specs.methods.Method")
    if getattr(method_class, "name", None) != name or not getattr(method_class, "summary", ""):
        raise WinaError(f'the class {method_class.__name__} needs name = "{name}" and a summary')
    if not _COLOUR.fullmatch(method_class.colour):
        raise WinaError(f'its colour is "{method_class.colour}", not of the form "#0072B2"')
    if not method_class.variants or not set(method_class.variants) <= set(get_args(Variant)):
        raise WinaError(f"its variants are {method_class.variants}, not some of {get_args(Variant)}")
    for variant in method_class.variants:
        for masks in get_args(Masks):
            _call(method_class(MethodSpec(name=name, variant=variant, masks=masks)))
    return method_class


def _call(method: Method) -> None:
    for block in BLOCKS:
        for name in block:
            norms = method.norms_of(name, block, fused=False)
            if not isinstance(norms, tuple) or not set(norms) <= set(block):
                raise WinaError(f"its norms_of({name!r}, ...) is {norms!r}, not a tuple of some of {block}")
            if not 0 <= method.cell_target(name, 0.5) <= 1:
                raise WinaError(f"its cell_target({name!r}, 0.5) is no fraction")
            method.gates(name)
            method.rank(name, (8, 8), 0.5, None)
    if not 1 <= method.kept(8, 0.5) <= 8 or not 0 <= method.mask_sparsity(0.5, None) <= 1:
        raise WinaError("it keeps no number of inputs from 1 to all at a sparsity of 0.5")
