"""The compared ways to rotate a model."""

from collections.abc import Callable

from full_svd import rotate_by_full_svd

from wina_core.compute.models.view import ModelView
from wina_core.compute.reporter import NullReporter
from wina_core.compute.rotation.apply import apply_bases
from wina_core.compute.rotation.choose import choose_bases
from wina_core.specs import AS_RELEASED_ROTATION, RotationSpec

Route = Callable[[ModelView], None]

PEER = "full_svd"


def ours(spec: RotationSpec) -> Route:
    """Return the part of `wina_core.compute.rotation.rotate` between its measurements, for bases from weights alone."""
    return lambda view: apply_bases(view, choose_bases(view, spec, None, NullReporter()), NullReporter())


ROUTES: dict[str, Route] = {
    PEER: rotate_by_full_svd,
    "per_site (k, gate)": ours(AS_RELEASED_ROTATION),
    "global": ours(RotationSpec(attention_basis=("qkv",), mlp_basis=("gate_up",), per_head=False)),
    "global + heads": ours(RotationSpec(attention_basis=("qkv",), mlp_basis=("gate_up",))),
}
"""The second computes the peer's own bases, up to what is arbitrary in them; the others are free at run time."""
