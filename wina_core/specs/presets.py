"""Named configurations: published methods with their rotations, and the workbench's own."""

from collections.abc import Sequence

from wina_core.errors import WinaError
from wina_core.specs import (
    AS_RELEASED_ROTATION,
    AUTO_ROTATION,
    FREE_KL_ROTATION,
    FREE_ROTATION,
    AllocatorSpec,
    CalibrationSpec,
    Configuration,
    MethodSpec,
    RotationSpec,
)
from wina_core.specs.allocations import with_texts

LAROSA_ROTATION = RotationSpec(mode="per_layer", attention_basis=("activations",), mlp_basis=(), per_head=False)
"""LaRoSA's (Liu et al., 2025; alibaba/EfficientAI, larosa): each layer's principal axes of the attention's input, for
its MLP too.

The norms' gains are folded into the weights first, since the paper merges the rotation. The released evaluation rotates
at run time, with the gains in the axes; the two are the same where all gains are equal.
"""

PRESETS: dict[str, Configuration] = {
    "dense": Configuration(),
    "teal": Configuration(method=MethodSpec(name="teal")),
    "teal-transform": Configuration(rotation=AS_RELEASED_ROTATION, method=MethodSpec(name="teal")),
    "cats": Configuration(method=MethodSpec(name="cats")),
    "rsparse": Configuration(method=MethodSpec(name="rsparse")),
    "rsparse-released": Configuration(method=MethodSpec(name="rsparse", variant="as_released")),
    "scap": Configuration(method=MethodSpec(name="scap")),
    "scap-released": Configuration(method=MethodSpec(name="scap", variant="as_released")),
    "larosa": Configuration(rotation=LAROSA_ROTATION, method=MethodSpec(name="larosa")),
    "wina-released": Configuration(
        rotation=AS_RELEASED_ROTATION, method=MethodSpec(name="wina", variant="as_released")
    ),
    "wina-paper": Configuration(rotation=AS_RELEASED_ROTATION, method=MethodSpec(name="wina")),
    "wina-auto": Configuration(
        rotation=AUTO_ROTATION,
        method=MethodSpec(name="wina", selection="mixed", masks="shared", correction="tuned"),
        allocators=(AllocatorSpec(name="marginal"),),
    ),
    "wina-free": Configuration(rotation=FREE_ROTATION, method=MethodSpec(name="wina", masks="shared")),
    "wina-free-kl": Configuration(rotation=FREE_KL_ROTATION, method=MethodSpec(name="wina", masks="shared")),
}
"""TEAL-transform is TEAL on the published transform; wina-free has the rotation that costs nothing at run time, and the
masks of fused kernels. wina-auto needs no knowledge of the model: rotation `auto`, targets by marginal costs,
thresholds for gate and up, and tuned biases."""


def with_text_source(configuration: Configuration, source: str) -> Configuration:
    """Return a preset whose choice of a rotation and allocators read a calibration text."""
    rotation = configuration.rotation
    # The usual calibration text changes nothing: rotations and allocators have another usual text.
    if not rotation.is_auto or source == CalibrationSpec().text.source:
        return configuration
    return configuration.model_copy(
        update={
            "rotation": rotation.model_copy(update={"text": rotation.text.model_copy(update={"source": source})}),
            "allocators": with_texts(configuration.allocators, lambda text: text.model_copy(update={"source": source})),
        }
    )


def check_uniform(configuration: Configuration, plans: Sequence[object]) -> None:
    """Raise WinaError for a preset with an allocator and no plan, in a command that does not allocate."""
    if configuration.allocators and not plans:
        raise WinaError(
            "This preset spreads its sparsity by an allocator, and this command does not allocate. Give it the plan "
            "of wina allocate --output-path with --plan; wina export-model --run takes a measured run as it is."
        )


def preset(name: str) -> Configuration:
    """Return the configuration of that name; WinaError with the known names for any other."""
    if name not in PRESETS:
        raise WinaError(f'There is no preset "{name}"; choose one of {", ".join(PRESETS)}.')
    return PRESETS[name]
