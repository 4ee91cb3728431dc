"""Requests about array jobs, sent to the machine that answers them."""

from wina_core.cluster.answers import answer
from wina_core.cluster.requests import ArrayAnswer, ArrayRequest
from wina_core.errors import WinaError

LOCAL = "local"
"""Name of this computer among the machines."""


def ask(machine: str, request: ArrayRequest) -> ArrayAnswer:
    """Return the answer of a machine. Raises WinaError where it cannot be reached or refuses."""
    if machine != LOCAL:
        raise WinaError(f'There is no machine "{machine}"; this computer is "{LOCAL}".')
    return answer(request)
