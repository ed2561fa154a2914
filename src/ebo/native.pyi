from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

KNOWN: float

def instruction_set() -> str: ...
def instruction_sets() -> list[str]: ...
def collisions(a: NDArray[np.uint16], b: NDArray[np.uint16]) -> NDArray[np.int32]: ...
def limit_gram(
    laplace: bool,
    P: NDArray[np.float32],
    T: NDArray[np.float32],
    columns: int,
    members: NDArray[np.int64],
    ends: NDArray[np.int64],
    cuts: NDArray[np.float32],
    categorical: NDArray[np.bool_],
    scale: float,
) -> NDArray[np.float32]: ...
def smooth_gram(
    P: NDArray[np.float32],
    T: NDArray[np.float32],
    columns: int,
    group: NDArray[np.int64],
    rates: NDArray[np.float32],
    categorical: NDArray[np.bool_],
    scale: float,
) -> NDArray[np.float32]: ...
def whiten(
    kappa: NDArray[np.float32],
    inverse: NDArray[np.float32],
    w: NDArray[np.float32],
    base: NDArray[np.float32],
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float32]]: ...

class Aim:
    def __init__(
        self,
        *,
        kind: str,
        best: float,
        upper_bound: float,
        deviations: float,
        maxima: Sequence[float],
        mean: float,
        scale: float,
    ) -> None: ...
    def worth(self, mean: NDArray[np.float64], sd: NDArray[np.float64]) -> NDArray[np.float64]: ...

class Walk:
    def __init__(
        self,
        *,
        laplace: bool,
        T: NDArray[np.float32],
        cuts: NDArray[np.float32],
        categorical: NDArray[np.bool_],
        scale: float,
        rates: NDArray[np.float32],
        share: float,
        inverse: NDArray[np.float32],
        w: NDArray[np.float32],
    ) -> None: ...
    def vary(
        self, P: NDArray[np.float64], group: NDArray[np.int64], base: NDArray[np.float32]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float32]]: ...
    def climb(
        self,
        aim: Aim,
        P: NDArray[np.float64],
        members: NDArray[np.int64],
        ends: NDArray[np.int64],
        base: NDArray[np.float32],
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]: ...

class Gibbs:
    def __init__(
        self,
        *,
        family: str,
        dims: int,
        layers: int,
        max_cuts: int,
        uniforms: NDArray[np.float64],
        categorical: Sequence[bool],
        alpha: NDArray[np.float64],
        beta_rate: float,
        beta_shape: float,
        widths: NDArray[np.float64],
        group_limit: int,
        noise: NDArray[np.float64],
        per_layer: bool,
        threads: int,
    ) -> None: ...
    def add_block(self, t: NDArray[np.float64], y: NDArray[np.float64]) -> None: ...
    def start(self, z: Sequence[int], cuts: Sequence[int], noise: int) -> None: ...
    def run(
        self, sweeps: int, seed: int, learn_cuts: bool = True
    ) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float64], NDArray[np.float64]]: ...
    def log_likelihood(self) -> float: ...
    def can_be_rough(self) -> bool: ...
    def rough_log_likelihood(self) -> float: ...
    def group_likelihoods(
        self, d: int, rough: bool = False
    ) -> tuple[NDArray[np.int32], NDArray[np.float64]]: ...
    def cut_likelihoods(
        self, d: int, layer: int, cuts: Sequence[int], rough: bool = False
    ) -> NDArray[np.float64]: ...
    def counts(self) -> dict[str, int]: ...
