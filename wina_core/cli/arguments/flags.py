"""Groups of flags that several commands take and turn into one spec."""

import inspect
from collections.abc import Callable
from typing import Any


def taking(**makers: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Replace each parameter named here by all flags of its maker, and pass what the maker returns.

    A maker's parameters become `PARAMETER_FLAG`, so that the flags of two makers never collide. The annotation of each
    must therefore name its option. The result may be a maker itself.
    """

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        flags = {name: inspect.signature(maker, eval_str=True).parameters for name, maker in makers.items()}
        parameters: list[inspect.Parameter] = []
        for name, parameter in inspect.signature(command, eval_str=True).parameters.items():
            own = [flag.replace(name=f"{name}_{flag.name}") for flag in flags.get(name, {}).values()]
            parameters += own or [parameter]

        def run(**given: Any) -> Any:
            made = {
                name: maker(**{flag: given.pop(f"{name}_{flag}") for flag in flags[name]})
                for name, maker in makers.items()
            }
            return command(**given, **made)

        keyword = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]
        run.__signature__ = inspect.Signature(keyword)  # type: ignore[attr-defined]  # typer reads it
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in keyword}
        run.__name__, run.__doc__ = command.__name__, command.__doc__
        return run

    return decorate
