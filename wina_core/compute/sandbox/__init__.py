"""A sandbox for programs that a model writes, as tasks such as humaneval run them, and for the verdict on them.

Two processes are confined by bubblewrap in the same way. The candidate runs the program. The judge runs the task's
tests, never the program's code, and alone gives the verdict, on a channel that the candidate does not hold.

Allowed: computing with this Python's standard library and packages, in one thread, with an empty working folder and
environment, for 3 s of processor time and 1 GiB of memory for each process and 15 s of wall time
(`runner.SandboxLimits`). The clock and random numbers can be read.
Refused: the network, all other files, any writing, new processes and threads, seeing other processes, and raising a
limit. Where the system cannot enforce that (Linux with bubblewrap, on x86-64 or aarch64), nothing is run.

Between the two cross lines of JSON of at most 8 MiB (`confined.values`): plain data by value; functions among the
tests' arguments, which the program may call; and the program's other objects as numbers, on which the judge requests
calls, attributes, items, iteration and comparisons with each other. Such an object never equals plain data. The text of
the tests alone decides which names are the program's (`confined.names`): builtins and modules are the judge's own.
Anything else that the candidate sends, and its end, is a failure that no test can catch.

The limits of this: lists of the program and of its tests are not shared after a call; arrays do not change in place;
objects of the tests' own classes cannot go to the program.
"""

from wina_core.compute.sandbox.runner import Outcome, SandboxLimits, run_confined

__all__ = ["Outcome", "SandboxLimits", "run_confined"]
