"""A server's answer as a completion that grows."""

import time

from PySide6.QtCore import QObject, Signal

from wina_app.services.server_answer import ServerAnswer
from wina_core.jobs import CompletionFinished
from wina_core.jobs.completion import Completion
from wina_core.records.completions import CompletionEnd, CompletionToken
from wina_core.specs.generation import CompletionSpec

_UNKNOWN = -1
"""Id of a token of which only the text is known."""
_ENDS: dict[str, CompletionEnd] = {"stop": "end", "length": "length"}


class ServedCompletion(QObject):
    """Completion made of an answer's pieces, which are its tokens without probabilities; deleted after its end."""

    token = Signal(object)
    ended = Signal(str)
    """The sentence of a failure, or nothing."""

    def __init__(self, answer: ServerAnswer, title: str, parent: QObject) -> None:
        super().__init__(parent)
        self.completion = Completion(CompletionSpec(), title=title)
        self.stop = answer.stop
        self._last = time.perf_counter()
        answer.piece.connect(self._on_piece)
        answer.ended.connect(self._on_ended)
        self.ended.connect(self.deleteLater)

    def _on_piece(self, text: str) -> None:
        last, self._last = self._last, time.perf_counter()
        first = not self.completion.tokens  # how many tokens its pass read is not known
        token = CompletionToken(
            id=_UNKNOWN, text=text, log_probability=None, read=0 if first else 1, seconds=self._last - last
        )
        self.completion.tokens.append(token)
        self.token.emit(token)

    def _on_ended(self, reason: str, error: str) -> None:
        end = _ENDS.get(reason, "stopped")
        self.completion.ended = CompletionFinished(job_id="", configuration=0, end=end, prompt_tokens=0)
        self.ended.emit(error)
