"""The dense model."""

from typing import ClassVar

from wina_core.specs.methods.base import Method, tr


class Dense(Method):
    """y = W x for every matrix."""

    name: ClassVar[str] = "dense"
    summary: ClassVar[str] = tr("The model as it is: every input is kept")
    projections = ()
