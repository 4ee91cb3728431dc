"""The risk of running a model's programs, and the rules of their sandbox."""

RISK = (
    "The model's programs run in a sandbox without network, files or other processes, but a sandbox may have holes: "
    "consent only where nothing of value would be lost."
)
"""Shown with every request for consent to run a model's programs."""

PROCESSOR_SECONDS, WALL_SECONDS, MEMORY_BYTES = 3, 15.0, 2**30

RULES = {
    "allowed": (
        "computing with this Python's standard library and packages, in one process and one thread",
        f"{PROCESSOR_SECONDS} s of processor time and {MEMORY_BYTES / 2**30:.0f} GiB of memory for the program, the "
        f"same again for its tests, and {WALL_SECONDS:.0f} s of wall time for both",
        "reading the files of Python, its packages and the system's libraries, and nothing else",
        "reading the clock and random numbers",
    ),
    "refused": (
        "the network and any other connection",
        "any writing",
        "new processes and threads, and seeing those of the system",
        "the environment, and raising a limit",
    ),
    "verdict": (
        "the tests run in a second process with the same limits, which never runs the program's code",
        "only values, and requests to the program's own objects, cross between the two",
        "an object of the program never equals plain data; builtins and modules of the tests are the tests' own",
    ),
}
"""The sandbox's rules: allowed, refused, and the origin of the verdict."""


def sandbox_rules() -> str:
    """Return the rules, a line for each kind."""
    return "\n".join(f"{rule.capitalize()}: {'; '.join(items)}." for rule, items in RULES.items())
