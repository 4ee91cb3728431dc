# mypy: disable-error-code="no-untyped-def"
"""Parts of the kernels between products: the shares of a product's sums, and programs that wait for no other.

Each adds the shares that a product has left, so that no launch is spent on that. Where a number of all programs is
needed, the last one to arrive goes on alone: which one that is does not change the result.
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
    """Return whether all other programs have stored what they had to; the last one sets the counter back to 0."""
    tl.debug_barrier()  # the atomic is one thread's: what the others have stored must come before
    last = tl.atomic_add(counter, 1, sem="acq_rel") == programs - 1
    if last:
        tl.store(counter, 0)
    return last
