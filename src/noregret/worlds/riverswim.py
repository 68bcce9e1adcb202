"""RiverSwim as a multinomial-logit MDP: a chain with a current, on which learners of such models have been tried."""

import math

import numpy as np

from .. import checks as check
from ..checks import Floats
from ..problem.design import Design
from ..problem.problem import Problem
from .contexts import Table
from .world import World

ACTIONS = ("left", "right")
# Swimming to the right, in the first state, between, and in the last: {by how much one moves: how likely}.
FIRST = {0: 0.4, 1: 0.6}
BETWEEN = {-1: 0.05, 0: 0.6, 1: 0.35}
LAST = {-1: 0.4, 0: 0.6}
LITTLE, MUCH = 0.005, 1.0  # rewards: left in the first state, right in the last
NEVER = math.log(1e-6)  # logit of what cannot happen, where the learner is not told


def _unrolled(table: Floats, horizon: int) -> Floats:
    """[S, A, S', ...] -> [H S, A, H S', ...]: state s at step h is number h S + s, and leads to step h + 1. What comes
    after the last step does not matter: there it stays at that step."""
    S, A = table.shape[:2]
    made = np.zeros((horizon, S, A, horizon, S, *table.shape[3:]))
    for h in range(horizon):
        made[h, :, :, min(h + 1, horizon - 1)] = table
    return made.reshape(horizon * S, A, horizon * S, *table.shape[3:])


def riverswim_logit(
    n_states: int = 6,
    horizon: int = 20,
    features: str = "moves",
    known_rewards: bool = True,
    shared: bool = True,
    per_step: bool = False,
    known_support: bool = True,
) -> World:
    """RiverSwim with logit features: a chain of states against a current, the same for everybody (x = 1, d = 1).

    From Cho et al. (2024, arXiv 2405.20165, appendix F; the chain of Osband et al. 2013, arXiv 1306.0940, after
    Strehl and Littman 2008): left moves one state to the left for sure. Right in the first state moves with chance
    0.6 and stays with 0.4; between the ends it moves right with 0.35, stays with 0.6 and drifts left with 0.05; in the
    last state it stays with 0.6 and drifts with 0.4. Left in the first state is worth 0.005, right in the last 1,
    nothing else anything. Episodes begin in the first state. Next states that cannot be reached are not in the support,
    and the learner knows the rewards. Their sizes are n_states=4, horizon=12 and n_states=8, horizon=24.

    Our choices: the default size, that of common implementations; rewards are 0 or 1 with these means; and the design.

    features        "moves": 4 features, that right moves on and drifts back between the ends, moves on from the first
                    state, and drifts back from the last: 4 parameters for any number of states. "pairs": an indicator
                    of every (s, a, s'), the tabular features of published scripts, of which 2 S - 2 move odds
    known_rewards   False: mean rewards are to be learned, too
    shared          False: the same chain without a design
    per_step        True: steps have nothing in common, as Cho et al. assume. A state is a place at a step, h S + s, of
                    H S, and every step has a block of its own. What is best, and its value, stay the same
    known_support   False: the learner does not know which next states are possible, all are in the support ("pairs"
                    only). Those that are not have a millionth of the chance of the one that is likeliest or stays

    With enough steps left it is best to swim right everywhere; towards the end, near the left bank, to take the little.

    >>> import noregret as nr
    >>> world = nr.worlds.riverswim_logit(n_states=4, horizon=12)
    >>> world.transitions([1.0])[:, 1].round(2)  # [S, S'] of right
    array([[0.4 , 0.6 , 0.  , 0.  ],
           [0.05, 0.6 , 0.35, 0.  ],
           [0.  , 0.05, 0.6 , 0.35],
           [0.  , 0.  , 0.4 , 0.6 ]])
    >>> print(world.problem.design.describe(1, world.problem.layout).splitlines()[0])
    4 parameters in 1 block; 6 if every pair had its own
    >>> world.optimal([1.0]).policy[0].tolist()
    [1, 1, 1, 1]
    """
    S = check.integer("n_states", n_states, 3)
    check.one_of("features", features, ("moves", "pairs"))
    states = np.arange(S)
    chance = np.zeros((S, 2, S))
    chance[states, 0, np.maximum(states - 1, 0)] = 1.0
    phi = np.zeros((S, 2, S, 4))
    logits = np.array([math.log(q[move] / q[0]) for q, move in ((BETWEEN, 1), (BETWEEN, -1), (FIRST, 1), (LAST, -1))])
    for s in range(S):
        for move, q in (FIRST if s == 0 else LAST if s == S - 1 else BETWEEN).items():
            chance[s, 1, s + move] = q
            if move:
                phi[s, 1, s + move, 2 if s == 0 else 3 if s == S - 1 else 0 if move == 1 else 1] = 1.0
    names = ["moves on", "drifts back", "moves on from the first", "drifts back from the last"]
    weights, allowed = phi @ logits, chance > 0.0
    if not check.flag("known_support", known_support):
        if features != "pairs":
            raise ValueError('features must be "pairs" where the support is not known')
        weights, allowed = np.where(allowed, weights, NEVER), np.ones_like(allowed)
    if features == "pairs":
        phi = np.eye(2 * S * S).reshape(S, 2, S, 2 * S * S)
        names = [f"{s} {a} {j}" for s in range(S) for a in ACTIONS for j in range(S)]
    theta = np.zeros((S, 2, 1))
    theta[0, 0], theta[-1, 1] = LITTLE, MUCH
    bound, block = float(np.linalg.norm(logits if features == "moves" else weights)), None
    if check.flag("per_step", per_step):
        H, met = check.integer("horizon", horizon), np.flatnonzero(phi[allowed].any(0))
        names, block = [names[i] for i in met], np.repeat(np.arange(H), 2 * S).reshape(H * S, 2)
        weights, phi = _unrolled(weights, H), _unrolled(phi[..., met], H)
        allowed = _unrolled(allowed.astype(float), H) > 0.0
        theta = np.tile(theta, (H, 1, 1))
    rewards = theta if check.flag("known_rewards", known_rewards) else None
    design = None
    if check.flag("shared", shared):
        design = Design(phi, math.ceil(10.0 * bound) / 10.0, block, names)
    span = math.log(0.6 / 0.05) if known_support else float(np.ptp(weights))
    problem = Problem(
        len(theta), 2, horizon, 1, weight_bound=math.ceil(10.0 * span) / 10.0, reward_bound=MUCH,
        support=allowed, known_rewards=rewards, initial_states=(0,), action_names=ACTIONS, design=design,
    )  # fmt: skip
    return World(problem, weights[..., None], theta, Table([[1.0]]), name="riverswim-logit")
