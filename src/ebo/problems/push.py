"""Robot pushing in 14 dimensions: two hands push two objects on a table towards their goals.

Simulated by Box2D in single precision. The parameters of each hand, in order: start x, y; wanted
velocity x, y; for how long it pushes; start angle. After those of both hands come the two wanted
angular velocities.

The reward is how much nearer to their goals the objects are at the end, in sum; at most, both are
there. The noise is on the wanted velocities: four numbers for each point.
"""

from __future__ import annotations

import importlib
import math
import warnings
from typing import Any

import numpy as np

from ebo.arrays import Floats
from ebo.problems.base import Problem

HAND_LOWER = (-5.0, -5.0, -10.0, -10.0, 2.0, 0.0)
HAND_UPPER = (5.0, 5.0, 10.0, 10.0, 30.0, 2.0 * math.pi)
SPIN = 5.0  # largest angular velocity
STARTS = ((0.0, 2.0), (0.0, -2.0))
GOALS = ((4.0, 3.5), (-4.0, 3.5))
NOISE = 0.01  # standard deviation of each component of a wanted velocity

TIME_STEP = 0.01
ITERATIONS = 10  # of the velocity and of the position solver
STEPS_A_SECOND = 10  # of pushing: the literature counts so, whatever the time step
COASTING_STEPS = 100
GAIN = 30.0  # force and torque by mass and difference from what is wanted


class Push(Problem):
    """`push14`; needs Box2D."""

    def __init__(self, noise: np.random.Generator | None) -> None:
        box2d()
        super().__init__(
            "push14",
            (*HAND_LOWER, *HAND_LOWER, -SPIN, -SPIN),
            (*HAND_UPPER, *HAND_UPPER, SPIN, SPIN),
            sum(math.dist(start, goal) for start, goal in zip(STARTS, GOALS, strict=True)),
            noise,
        )

    def _values(self, X: Floats) -> Floats:
        if self.noise is not None:
            X = X.copy()
            X[:, [2, 3, 8, 9]] += NOISE * self.noise.standard_normal((len(X), 4))
        return np.array([self.upper_bound - simulate(x.tolist()) for x in X], dtype=np.float64)


def box2d() -> Any:
    """The module Box2D; an error that tells how to install it where it is not there."""
    try:
        with warnings.catch_warnings():  # SWIG's types have no __module__, which Python deprecates
            warnings.simplefilter("ignore", DeprecationWarning)
            return importlib.import_module("Box2D")
    except ImportError as error:
        raise ImportError("push14 needs Box2D: pip install 'ebo[bench]'") from error


def simulate(x: list[float]) -> float:
    """The sum of the objects' distances from their goals after pushing with parameters x (14)."""
    b2 = box2d()
    world = b2.b2World(gravity=(0.0, 0.0), doSleep=True)
    table = world.CreateStaticBody(shapes=b2.b2PolygonShape(box=(500.0, 500.0)))

    def put(shape: Any, density: float, friction: float, force: float, **place: Any) -> Any:
        """A body that slides on the table with friction up to a force."""
        body = world.CreateDynamicBody(**place)
        body.CreateFixture(shape=shape, density=density, friction=friction)
        world.CreateFrictionJoint(bodyA=table, bodyB=body, maxForce=force, maxTorque=2.0)
        return body

    shapes = (b2.b2PolygonShape(box=(0.5, 0.5)), b2.b2CircleShape(radius=1.0))
    things = [put(shapes[i], 0.05, 0.01, 5.0, position=STARTS[i]) for i in range(2)]
    hands = []
    for i in range(2):
        x0, y0, vx, vy, duration, angle = x[6 * i : 6 * i + 6]
        shape = b2.b2PolygonShape(box=(1.0, 0.3))
        hand = put(shape, 0.1, 0.1, 2.0, position=(x0, y0), angle=angle)
        hands.append((hand, b2.b2Vec2(vx, vy), x[12 + i], int(STEPS_A_SECOND * duration)))

    for step in range(max(steps for *_, steps in hands) + COASTING_STEPS):
        for hand, velocity, spin, steps in hands:
            if step < steps:
                hand.ApplyTorque(hand.mass * (spin - hand.angularVelocity) * GAIN, True)
                force = hand.mass * (velocity - hand.linearVelocity) * GAIN
                hand.ApplyForce(force, hand.position, True)
        world.Step(TIME_STEP, ITERATIONS, ITERATIONS)
    return sum(math.dist(things[i].position, GOALS[i]) for i in range(2))
