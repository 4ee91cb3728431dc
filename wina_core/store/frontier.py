"""Lines of a frontier plot, sorted from metrics."""

from wina_core.store.metric_rows import MetricRow
from wina_core.store.rows import FrontierLine, FrontierPoint


def lines(rows: list[MetricRow]) -> tuple[FrontierLine, ...]:
    """Sort rows of one metric into lines that differ in more than their sparsity and plans of one provenance.

    Labels say only what sets a line apart; settings, also how many examples a task was asked with and on how many
    documents, where that is not the same for all: a task may have numbers of its own.
    """
    several_examples = len({row.num_fewshot for row in rows}) > 1
    several_counts = len({row.n for row in rows}) > 1
    groups: dict[tuple[str, ...], list[MetricRow]] = {}
    for row in rows:
        asked = [row.settings]
        if several_examples and row.num_fewshot is not None and f"{row.num_fewshot}-shot" not in row.settings:
            asked.append(f"{row.num_fewshot}-shot")
        if several_counts and row.n is not None and f"limit {row.n}" not in row.settings:
            asked.append(f"n {row.n}")
        settings = ", ".join(filter(None, asked))
        key = (row.model, row.model_hash, row.method, row.rotation, row.selection, row.plan, settings)
        groups.setdefault(key, []).append(row)
    several_models = len({row.model_hash for row in rows}) > 1
    lines = []
    for (model, _, method, rotation, selection, plan, settings), members in groups.items():
        parts = (
            model if several_models else "",
            method,
            rotation if rotation != "none" else "",
            selection if selection != "topk" else "",
            plan if plan != "uniform" else "",
            settings,
        )
        members.sort(key=lambda row: row.target_sparsity)
        points = tuple(
            FrontierPoint(
                row.run, row.target_sparsity, row.gated_sparsity, row.net_sparsity, row.value, row.stderr, row.n
            )
            for row in members
        )
        label = ", ".join(part for part in parts if part)
        lines.append(FrontierLine(label, model, method, rotation, selection, plan, settings, points))
    return tuple(lines)
