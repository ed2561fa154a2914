"""What holds for all tests of learning."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from threadpoolctl import threadpool_limits


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """As the optimizer has it: many small products, which threads only slow down."""
    with threadpool_limits(1):
        yield
