"""The one exception type whose message is meant for the user's eyes."""


class WinaError(Exception):
    """A foreseen failure. Its message is one sentence: what is wrong and how to mend it.

    The command line prints it without a traceback, the engine sends it as a `Failed` message, and the window
    shows it on the page it concerns. Anything else that is raised is a defect and keeps its traceback.
    """


class Cancelled(Exception):  # noqa: N818 - a request that was honoured, not an error
    """Raised inside a job, between two batches, once its cancellation was asked for."""
