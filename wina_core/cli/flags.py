"""Flags that several commands take, from which each of them wants one spec."""

import inspect
from collections.abc import Callable
from typing import Any


def taking(**makers: Callable[..., Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a command, in place of each parameter named here, all flags of its maker, and hands it what that makes of
    them. A flag needs the name of its option in its annotation: its own is put behind the parameter's, so that flags
    of two makers, or the command's own, never meet."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        flags = {name: inspect.signature(maker, eval_str=True).parameters for name, maker in makers.items()}
        parameters: list[inspect.Parameter] = []
        for name, parameter in inspect.signature(command, eval_str=True).parameters.items():
            own = [flag.replace(name=f"{name}_{flag.name}") for flag in flags.get(name, {}).values()]
            parameters += own or [parameter]

        def run(**given: Any) -> None:
            made = {
                name: maker(**{flag: given.pop(f"{name}_{flag}") for flag in flags[name]})
                for name, maker in makers.items()
            }
            command(**given, **made)

        keyword = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]
        run.__signature__ = inspect.Signature(keyword)  # type: ignore[attr-defined]  # what typer reads
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in keyword}
        run.__doc__ = command.__doc__
        return run

    return decorate
