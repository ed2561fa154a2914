"""The points that optimizers ask for are those of the golden file, to the last bit."""

from __future__ import annotations

import numpy as np
import pytest

from ebo import native
from tests import trajectories


@pytest.mark.parametrize("instruction_set", native.instruction_sets())
def test_trajectories_are_as_they_were(instruction_set: str) -> None:
    golden = dict(np.load(trajectories.GOLDEN))
    made_with = str(golden["versions"])
    if made_with != trajectories.versions():  # rounding may differ: nothing can be said
        pytest.skip(
            f"the golden file was made with {made_with}, here are {trajectories.versions()}: check "
            f"out the commit that made it and make it anew by `python -m tests.trajectories`"
        )
    found = trajectories.run(instruction_set)
    expected = {f"{instruction_set}: {name}" for name in found}
    assert expected == {name for name in golden if name.startswith(f"{instruction_set}:")}
    different = [
        name
        for name, points in found.items()
        if not np.array_equal(points, golden[f"{instruction_set}: {name}"])
    ]
    assert not different
