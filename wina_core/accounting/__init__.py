"""What a generated token costs, from a model's sizes alone. Light: importing it loads no torch."""

from wina_core.accounting.cost import costs
from wina_core.accounting.terms import shortcut_count
from wina_core.accounting.warning import metric_warning, sparsity_warning

__all__ = ["costs", "metric_warning", "shortcut_count", "sparsity_warning"]
