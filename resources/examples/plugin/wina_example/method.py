"""A gate rule: magnitude times the mean magnitude of the input's weights. It imports no torch: menus load this file."""

from wina_core.specs.methods import Method


class MeanNorm(Method):
    """Score |x_i| * c_i with c_i the mean of |W[j, i]| over the outputs j."""

    name = "mean_norm"
    summary = "Keeps the inputs with the largest product of magnitude and mean weight"
    colour = "#0072B2"

    def norms_of(self, name, block, *, fused, rho=None):
        """Weigh every matrix's inputs by its own columns."""
        return (name,)

    def column_weights(self, weight):
        """Return c [n] of W [m, n]."""
        return weight.float().abs().mean(0)
