"""For tests of the kernels: each leaves torch with the number of threads that it found."""

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def same_threads() -> Iterator[None]:
    """Restore torch's threads, which numba's pool sets too: the last digits of other tests depend on them."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)
