"""Earlier names of options, which work with a warning for one release."""

from collections.abc import Sequence

EVERYWHERE = {
    "--again": "--recompute",
    "--samples": "--log-samples",
    "--heads": "--rotate-heads",
    "--no-heads": "--no-rotate-heads",
    "--run-model-code": "--confirm-run-unsafe-code",
}
IN_COMMAND = {
    "rotate": {"--to": "--output-path"},
    "allocate": {"--out": "--output-path"},
    "eval": {
        "--fewshot": "--num-fewshot",
        "--task-folder": "--include-path",
        "--deviation": "--fidelity",
        "--no-deviation": "--no-fidelity",
    },
    "generate": {"--new-tokens": "--max-new-tokens", "--chat": "--apply-chat-template"},
    "latency": {"--batch": "--batch-size", "--export": "--output-path"},
    "results": {"--task": "--tasks", "--marks": "--annotations"},
    "export": {"--task": "--tasks"},
    "report": {"--output": "--output-path"},
}


def with_current_names(arguments: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Return a command line's arguments with current option names, and the replacements made, old to new."""
    new_names = EVERYWHERE | IN_COMMAND.get(arguments[0] if arguments else "", {})
    current, replaced = [], {}
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if name in new_names:
            replaced[name] = new_names[name]
            argument = new_names[name] + equals + value
        current.append(argument)
    return current, replaced
