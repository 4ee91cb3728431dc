"""A session for a program that uses this one as a library, and so can change the loaded models."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from weakref import WeakKeyDictionary

from torch import nn

from wina_core.compute.models.loading import LoadedModel
from wina_core.compute.reporter import Reporter
from wina_core.compute.session.model_session import Session
from wina_core.errors import WinaError
from wina_core.specs import ModelSource, RotationSpec

_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_Calls = Mapping[str, tuple[object, ...]]
"""{module name: ids of the module, its forward pass and its hooks, and its mode}."""


class SharedSession(Session):
    """A session that refuses models that its caller has changed: jobs would measure the changes, too."""

    def __init__(self) -> None:
        super().__init__()
        self._loaded: WeakKeyDictionary[nn.Module, _Calls] = WeakKeyDictionary()
        self._changed: dict[nn.Module, str] = {}

    def prepare(self, source: ModelSource, rotation: RotationSpec, reporter: Reporter) -> LoadedModel:
        """Return the model; raise WinaError if it is to be refused."""
        loaded = super().prepare(source, rotation, reporter)
        if loaded.model not in self._loaded:
            self._loaded[loaded.model] = _calls(loaded.model)
        if loaded.model in self._changed:
            name = self._changed[loaded.model]
            raise WinaError(
                f"{f'The module {name}' if name else 'The model'} of {source.location} is not as it was loaded: it has "
                "a hook, a wrapper or training mode, which would change what is computed; remove that first."
            )
        return loaded

    @contextmanager
    def refusing_changed(self) -> Iterator[None]:
        """Refuse, within the block, the models that are changed when it begins."""
        before = self._changed
        self._changed = {
            model: name for model, calls in self._loaded.items() if (name := _difference(calls, model)) is not None
        }
        try:
            yield
        finally:
            self._changed = before


def _calls(model: nn.Module) -> _Calls:
    return {
        name: (
            id(module),  # no references, which would keep the model in memory
            id(module.__dict__.get("forward")),
            [id(hook) for hooks in _HOOKS for hook in getattr(module, hooks).values()],
            module.training,
        )
        for name, module in model.named_modules()
    }


def _difference(before: _Calls, model: nn.Module) -> str | None:
    """Return the name of the first module whose call has changed; None if there is none."""
    now = _calls(model)
    return next((name for name in (*now, *before) if now.get(name) != before.get(name)), None)
