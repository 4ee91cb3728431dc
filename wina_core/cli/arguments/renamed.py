"""Earlier names of options and of their values, which work with a warning for one release."""

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

VALUES = {"--by": {"counted": "gated", "full": "net"}}


def with_current_names(arguments: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Return a command line's arguments with current names and values, and the replacements made, old to new."""
    new_names = EVERYWHERE | IN_COMMAND.get(arguments[0] if arguments else "", {})
    current, replaced, option = [], {}, ""
    for argument in arguments:
        name, equals, value = argument.partition("=")
        new = new_names.get(name, name)
        values = VALUES.get(new if equals else option, {})
        if new != name:
            replaced[name] = new
        if (given := value if equals else name) in values:
            replaced[given] = values[given]
            new, value = (new, values[given]) if equals else (values[given], value)
        current.append(new + equals + value)
        option = name
    return current, replaced
