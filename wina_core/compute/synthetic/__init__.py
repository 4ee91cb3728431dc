"""The synthetic study: gate rules on random networks (paper, section 3.4 and its table of approximation errors).

The paper names Kaiming initialization, SiLU, column-orthogonal weights, 20 seeds and the l2 deviation of the output,
but no sizes, scales, or R-Sparse's split. A search found what reproduces the table:

- every matrix W [m, n] is drawn from U(-1, 1) / sqrt(n), linear layers' default, then replaced by W V with V from its
  singular value decomposition, so that W^T W is diagonal; the input is N(0, I); float64; K = n - floor(s n + 1/2);
- the lemma's network is one matrix, `size` x `size`, with `size` 1024;
- the theorem's network is `size` -> `size` / 2 -> `size` with SiLU between, each matrix gated from the gated network's
  input. The first matrix thus has as many zero columns as non-zero ones;
- TEAL and CATS keep the largest |x_i|, WINA the largest |x_i| ||W[:, i]||, R-Sparse the largest |x_i| with rho = 0.98
  (as released it scores with column norms too, and its errors come close to WINA's).

With 20 seeds every cell of both rows lies inside the paper's error bar. The theorem's widths fit the numbers but need
not be the authors' own. Equal widths miss WINA's errors by more than 3 error bars, whatever the number of layers, place
of SiLU, distributions and variances: their ratio to TEAL's rises from 0.41 at 25 % to 0.67 at 65 %, the paper's from
0.52 to 0.58. R-Sparse fits for rho from 0.98 to 0.99, and not at 0.95.
"""
