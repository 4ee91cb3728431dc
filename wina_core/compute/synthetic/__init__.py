"""The synthetic study: gate rules on random networks, no model needed (paper, section 3.4 and its table of
approximation errors).

The paper names Kaiming initialization, SiLU, column-orthogonal weights, 20 seeds and the l2 deviation of the output; it
does not name sizes, scales, or R-Sparse's split. What follows was found by search and reproduces the table:

- every matrix W [m, n] is drawn from U(-1, 1) / sqrt(n), the default of linear layers (Kaiming-uniform with a =
  sqrt(5)), then replaced by W V with V from its singular value decomposition, so that W^T W is diagonal; the input is
  N(0, I), not rotated; all in float64, with K = n - floor(s n + 1/2) of n inputs kept;
- the lemma's network is one matrix, `size` x `size`, with `size` 1024;
- the theorem's network is `size` -> `size` / 2 -> `size` with SiLU between the two, each matrix gated from what the
  gated network hands it. The first matrix thus has as many zero columns as non-zero ones;
- TEAL (and CATS, which the paper groups with it) keep the largest |x_i|, WINA the largest |x_i| ||W[:, i]||, R-Sparse
  the largest |x_i| with rho = 0.98. (As released, R-Sparse scores with column norms too; its errors then come close to
  WINA's, 2.84 for the lemma at 50 %, which is not what the paper's row has.)

With 20 seeds every cell of both rows lies inside the paper's error bar. Since the theorem's widths are inferred from
the numbers, agreement there shows that they fit, not that they are the authors' own. Searched for that row, beside
widths n -> r n -> n with r in 1/2, 1, 1.25, 1.5, 2, 2.67, 3, 4: up to four layers of equal width; SiLU between, after
or before the layers, or none; normal and uniform inputs and weights; variances of inputs from 0.04 to 2 and of weights
from 1/6 to 2 over the fan-in or fan-out; only the second matrix, or none, made orthogonal; inputs rotated along. Equal
widths miss WINA's errors by more than 3 error bars whatever the rest: their ratio to TEAL's rises from 0.41 at 25 % to
0.67 at 65 %, the paper's only from 0.52 to 0.58. Of the other widths, 2 n with SiLU before each matrix has that ratio
too, but the size of the errors only for inputs of variance 1/2, which nothing suggests. R-Sparse fits for rho from 0.98
to 0.99, and at 0.95 it does not.
"""
