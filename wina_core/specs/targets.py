"""Resolution of a plan into the fraction that each mask drops, without a model."""

from wina_core.errors import WinaError
from wina_core.specs import MethodSpec
from wina_core.specs.methods import get_method
from wina_core.specs.methods.base import BLOCKS, Method
from wina_core.specs.plans import PlanLayout, SparsityPlan, UniformSparsity

Table = tuple[tuple[float, ...], ...]


def resolve_plan(plan: UniformSparsity | SparsityPlan, layout: PlanLayout, spec: MethodSpec) -> SparsityPlan:
    """Return the plan with the target of every cell that the method can reach.

    A uniform target is the sparsity of all the plan's weights: a method that leaves some matrices dense gets
    s_cell = s * all / gated in the others, one with levels of its own (LaRoSA) gets those. Cells that share a mask get
    their mean, weighted by numbers of weights. A method that gates nothing has targets of 0.

    Raises WinaError for a target out of reach, a target in a dense matrix, different targets of up and down where one
    mask serves both, shares rho without a low-rank part, and another model's table.
    """
    method = get_method(spec)
    names = tuple(name for name in layout.projections if method.gates(name))
    method.check_projections(layout.projections)
    if not names:
        return SparsityPlan.uniform(layout, 0.0)
    if isinstance(plan, UniformSparsity):
        return _concentrated(plan.sparsity, layout, names, method)
    table = plan.for_layout(layout)
    if table.rho is not None and method.default_rho is None:
        raise WinaError(
            f'The plan has shares rho of a low-rank part, which the method "{spec.name}" does not have; choose the '
            "plan's own method, or allocate the budget again."
        )
    for row in table.sparsity:
        cells = dict(zip(layout.projections, row, strict=True))
        outside = [name for name, target in cells.items() if target > 0 and name not in names]
        if outside:
            raise WinaError(
                f'The method "{spec.name}" leaves {", ".join(outside)} dense, but the plan has targets there; '
                "set them to 0 or choose another method."
            )
        if method.by_gate_activation and cells["up"] != cells["down"]:
            raise WinaError(
                f'The method "{spec.name}" drops the same rows of up and columns of down, but the plan has '
                f"{100 * cells['up']:.4g} and {100 * cells['down']:.4g} % there; make them equal."
            )
    return _averaged(table) if spec.masks == "shared" else table


def mask_plan(plan: SparsityPlan, spec: MethodSpec) -> SparsityPlan:
    """Return the fraction of inputs that each cell's mask drops, for a resolved plan: more beside a low-rank part."""
    method = get_method(spec)
    if method.default_rho is None:
        return plan
    table = tuple(
        tuple(method.mask_sparsity(target, cell_rho(plan, layer, column)) for column, target in enumerate(row))
        for layer, row in enumerate(plan.sparsity)
    )
    return SparsityPlan(layout=plan.layout, sparsity=table, provenance=plan.provenance)


def cell_rho(plan: SparsityPlan, layer: int, column: int) -> float | None:
    """Return the plan's own rho of a cell; None where the method's applies."""
    return None if plan.rho is None else plan.rho[layer][column]


def shares_of(plan: SparsityPlan, layer: int) -> dict[str, float] | None:
    """Return the plan's own rho of a layer's cells by name; None where the method's applies."""
    return None if plan.rho is None else dict(zip(plan.layout.projections, plan.rho[layer], strict=True))


def _concentrated(sparsity: float, layout: PlanLayout, names: tuple[str, ...], method: Method) -> SparsityPlan:
    if set(names) == set(layout.projections):
        row = tuple(method.cell_target(name, sparsity) for name in names)
        return SparsityPlan(layout=layout, sparsity=(row,) * layout.layers)
    columns = [layout.projections.index(name) for name in names]
    gated = sum(row[column] for row in layout.parameters for column in columns)
    share = gated / sum(map(sum, layout.parameters))
    if sparsity >= share:
        dense = [name for name in layout.projections if name not in names]
        raise WinaError(
            f'The method "{method.name}" reaches less than {100 * share:.1f} % of this model\'s weights, since it '
            f"leaves {', '.join(dense)} dense, so {100 * sparsity:.4g} % is out of its reach; choose a lower sparsity."
        )
    cells = {(layer, column): sparsity / share for layer in range(layout.layers) for column in columns}
    return SparsityPlan.uniform(layout, 0.0).with_cells(cells, provenance="uniform")


def _averaged(plan: SparsityPlan) -> SparsityPlan:
    rho = None if plan.rho is None else block_means(plan.rho, plan.layout)
    return SparsityPlan(
        layout=plan.layout, sparsity=block_means(plan.sparsity, plan.layout), provenance=plan.provenance, rho=rho
    )


def block_means(table: Table, layout: PlanLayout) -> Table:
    """Return the table with each block's cells at their mean, weighted by numbers of weights."""
    rows = []
    for row, counts in zip(table, layout.parameters, strict=True):
        values = list(row)
        for block in BLOCKS:
            columns = [layout.projections.index(name) for name in block if name in layout.projections]
            if len({row[column] for column in columns}) > 1:
                total = sum(counts[column] for column in columns)
                mean = sum(row[column] * counts[column] for column in columns) / total
                for column in columns:
                    values[column] = mean
        rows.append(tuple(values))
    return tuple(rows)
