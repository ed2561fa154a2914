"""What holds for all tests of batches."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from threadpoolctl import threadpool_limits


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Many small products, which threads only slow down."""
    with threadpool_limits(1):
        yield
