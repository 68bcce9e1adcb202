"""From beliefs to a policy: one Bellman operator (`bellman`), and optimism over local sets (`optimism`). From a joint
set to an interval for the values of policies: `joint.joint_interval`.

`plan` is the planner for models of one's own, in NumPy; `solve` is the same for kernels of one's own, and
`distributions` is the link for them. A kernel fills arrays that it is given:

>>> from typing import NamedTuple
>>> import numpy as np
>>> import noregret as nr
>>> from noregret.planning import distributions, solve
>>> class Room(NamedTuple):
...     policy: np.ndarray  # [H, S]
...     values: np.ndarray  # [H+1, S]
>>> @nr.kernel
... def best(layout, gradient, P, r, widths, Q, out):  # P [S, A, M]: predictors, then probabilities
...     for s in range(P.shape[0]):
...         distributions(gradient, P[s], layout.count[s])
...     solve(layout, P, r, widths, 0, 0, Q, out)
>>> world = nr.worlds.clinic(horizon=3)
>>> p, x = world.problem, world.context(seed=0, episode=0)
>>> P, r, zero = p.to_slots(world.weights @ x), world.reward_weights @ x, np.zeros((p.n_states, p.n_actions))
>>> out = Room(np.zeros((3, p.n_states), np.int64), np.zeros((4, p.n_states)))
>>> best(p.layout, p.link.gradient_address(), P, r, zero, zero.copy(), out)
>>> bool(np.allclose(out.values, world.optimal(x).values))
True
"""

from .models import distributions, plan, solve

__all__ = ["distributions", "plan", "solve"]
