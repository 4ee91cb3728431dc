"""A sandbox for programs that a model writes, as tasks such as humaneval run them.

Allowed: computing with this Python's standard library and packages, in one process and thread, with an empty working
folder and environment, for 3 s of processor time, 15 s of wall time and 1 GiB of memory (`runner.Limits`).
Refused: the network, other files, any writing, new processes and programs, signals to others, and raising a limit.
Where the system cannot enforce that (Linux 5.13 with Landlock and seccomp, on x86-64 or aarch64), nothing is run.
"""

from wina_core.compute.sandbox.runner import Limits, Outcome, check_sandbox, run_confined

__all__ = ["Limits", "Outcome", "check_sandbox", "run_confined"]
