"""The versions that a study was made with: one seed is one trajectory for one set of them.

Another version of NumPy or SciPy may round otherwise, most of all in a matrix product or a Cholesky
factor. Then the points part, sooner or later. So a study keeps the versions, and says when
it goes on with others.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from ebo.space.parameters import shown


def versions() -> dict[str, str]:
    """The versions of ebo, numpy and scipy that are here."""
    from importlib.metadata import PackageNotFoundError, version  # slow to import

    found = {}
    for name in ("ebo", "numpy", "scipy"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:  # run from its source
            found[name] = "unknown"
    return found


def warn_of_others(study: str, meta: Mapping[str, Any]) -> None:
    """Warn if a study was made with other versions than are here, as far as it says."""
    kept = meta.get("versions")
    if not isinstance(kept, Mapping):  # an older study, which does not say
        return
    here = versions()
    other = [name for name in here if name in kept and kept[name] != here[name]]
    if other:
        was = ", ".join(f"{name} {_plain(kept[name])}" for name in other)
        now = ", ".join(f"{name} {here[name]}" for name in other)
        warnings.warn(
            f"{study} was made with {was}; here is {now}. It goes on, and nothing is lost. But "
            f"its next points may be others than with the versions before. Install those for the "
            f"same trajectory",
            UserWarning,
            stacklevel=3,
        )


def _plain(version: object) -> str:
    """A version of a file, which may hold anything, for a message."""
    return shown(version).strip("'")
