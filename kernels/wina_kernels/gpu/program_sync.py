# mypy: disable-error-code="no-untyped-def"
"""Device functions of the kernels between products: reading a product, and finding the last program of a grid.

A product of a decoding step leaves the sums of its shares in memory. The kernel that follows adds them while it loads
them, so that no launch is spent on that. A kernel that needs a number of the whole grid, such as a norm, has no
barrier for the grid: each program stores its part and counts itself, and the one that counts last reads all parts
and finishes. It adds them in a fixed order, so the result does not depend on which program that is.
"""

import triton
import triton.language as tl


@triton.jit
def share_sum(sums, at, inside, length, SHARES: tl.constexpr):
    """Return sums[0, at] + ... + sums[SHARES - 1, at], float32 of the shape of `at`, int [any].

    All loads are in flight together.
    """
    lines = tl.arange(0, SHARES).to(tl.int64)[:, None] * length
    return tl.sum(tl.load(sums + lines + at[None, :], inside[None, :], 0.0).to(tl.float32), axis=0)


@triton.jit
def product_at(sums, bias, at, inside, length, dtype: tl.constexpr, SHARES: tl.constexpr):
    """Return a product with its bias, if any, rounded to the model's dtype, as float32."""
    y = share_sum(sums, at, inside, length, SHARES)
    if bias is not None:
        y += tl.load(bias + at, inside, 0.0).to(tl.float32)
    return y.to(dtype).to(tl.float32)


@triton.jit
def is_last(counter, programs):
    """Return whether this is the last of the programs that call it, so that it can read what the others have stored.

    counter: int32 [1], 0. The last program sets it back to 0 for the next launch.
    """
    tl.debug_barrier()  # the atomic is one thread's: what the others have stored must come before
    last = tl.atomic_add(counter, 1, sem="acq_rel") == programs - 1
    if last:
        tl.store(counter, 0)
    return last
