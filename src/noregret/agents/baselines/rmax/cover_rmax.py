"""Cover-Rmax: a cover of context space by balls, and Rmax in each of them (Modi, Jiang, Singh and Tewari 2018)."""

import math

import numpy as np

from .... import checks as check
from ....compiler.jit import kernel
from ....planning.bellman import TO_REST
from ....problem.links import LinearCombination
from ....problem.problem import Problem
from ....theory import pac
from ...declared import CONSTANTS, DELTA, EPSILON, option
from ...endings import ModelWork, plan_model
from .family import RmaxAgent, add_slack
from .group_models import GroupPar, GroupState, ball_of, group_parts, learn, outside


@kernel
def plan(par, state, work, x, k, out):
    b = ball_of(par, state, x)
    if b >= 0 and outside(par, state, b, x):
        state.forced[0] += 1
    H, S = out.policy.shape
    for s in range(S):
        for a in range(work.r.shape[1]):
            known = b >= 0 and state.visits[b, s, a] >= par.enough and state.rated[b, s, a] >= par.enough
            if known:
                for j in range(work.P.shape[2]):
                    work.P[s, a, j] = state.counts[b, s, a, j] / state.visits[b, s, a]
                work.r[s, a] = state.total[b, s, a] / state.rated[b, s, a]
            else:
                work.P[s, a] = 0.0
                work.r[s, a] = float(H)  # clipped: worth H - h, as much as anything can be
    plan_model(par, work, work.P, work.r, TO_REST, k, out)
    add_slack(par.slack, out.values)


def transition_lipschitz(problem: Problem) -> float:
    """L_p with ||P_x - P_x'||_1 <= L_p ||x - x'||_2, from the link and weight_bound."""
    p = problem
    counts = (int(m) for m in np.unique(p.layout.count[p.layout.available]))
    norm2 = {m: p.link.weight_norm2(m, p.weight_bound, p.context_dim, "corrected") for m in counts}
    generic = max(0.0 if m == 1 else p.link.l1(m) * math.sqrt(bound) for m, bound in norm2.items())
    if isinstance(p.link, LinearCombination):  # columns are distributions: ||W u||_1 <= ||u||_1
        return min(generic, math.sqrt(p.context_dim))
    return float(generic)


def reward_lipschitz_of(problem: Problem) -> float:
    """L_r with |r_x - r_x'| <= L_r ||x - x'||_2."""
    return problem.reward_bound * (0.25 if problem.rewards == "logistic" else 1.0)


class CoverRmax(RmaxAgent):
    """Cover-Rmax (Modi et al. 2018): a cover of context space by balls, and Rmax in each of them.

    Everybody within r0 of a ball's centre shares one tabular model; a pair of it is known after m visits.

        Q_h = r_hat + P_hat V_{h+1}  for known pairs (frequencies of the first m samples),   H - h  for the others

    A context belongs to the first ball that it lies in and otherwise opens one. Values are reported with `theory.pac`'s
    slack added, what the known models may be off, and bound the optimal ones; the policy is that of Rmax.

    epsilon, delta   with probability 1 - delta all but `mistake_bound` plans are within epsilon of optimal (in sums of
                     rewards over the H steps)
    lipschitz, reward_lipschitz   ||P_x - P_x'||_1 <= lipschitz ||x - x'||_2, likewise for mean rewards. None: what the
                     problem's link and bounds imply
    constants        "corrected": m and r0 of `theory.pac`. "paper": the published ones from memory, without a guarantee
    m, r0            your own; fewer visits or larger balls than `theory.pac` says carry no guarantee
    max_balls        room for so many balls. When it is used up the nearest ball takes everybody else, which voids the
                     guarantee from that episode on (`state.forced` counts such episodes)

    Caveat: the number of balls grows like r0^-d, and m like H^4/epsilon^2. Cost per episode O(max_balls d + S^2 A H),
    memory O(max_balls S^2 A), both constant in the number of episodes.

    >>> import noregret as nr
    >>> world = nr.worlds.clinic()
    >>> agent = nr.agents.CoverRmax(world.problem, epsilon=0.5)
    >>> print(f"{agent.mistake_bound:.0e}")  # plans that may be bad: proved, and more than anybody will make
    2e+10
    >>> tuned = nr.agents.CoverRmax(world.problem, m=20, r0=0.3)
    >>> tuned.label
    'cover-rmax (m=20, r0=0.3, no guarantee)'
    >>> run = nr.simulate(tuned, world, 1000, every=100)
    >>> bool(run.late[0] < 0.1 * run.regret[0, 0] / 100)  # per episode, against the first hundred
    True
    """

    name = "cover-rmax"
    plan_kernel = staticmethod(plan)
    learn_kernel = staticmethod(learn)

    epsilon: float = EPSILON
    delta: float = DELTA
    lipschitz: float | None = option(None, check.nonnegative)
    reward_lipschitz: float | None = option(None, check.nonnegative)
    constants: str = CONSTANTS
    m: int | None = option(None, check.integer)
    r0: float | None = option(None, check.positive)
    max_balls: int = option(64, check.integer)

    def _kept(self) -> float:
        S, A, M = self.problem.layout.outcomes.shape
        return float(self.options["max_balls"] * (S * A * (M + 3) + self.problem.context_dim))

    def build(self) -> tuple[GroupPar, GroupState, ModelWork]:
        p, o = self.problem, self.options
        H, epsilon, delta, balls = p.horizon, o["epsilon"], o["delta"], o["max_balls"]
        smooth = (
            transition_lipschitz(p) if o["lipschitz"] is None else o["lipschitz"],
            reward_lipschitz_of(p) if o["reward_lipschitz"] is None else o["reward_lipschitz"],
        )
        # Half of delta for the models, two events for each pair of each ball; half for the number of mistakes.
        log = math.log(4.0 * balls * p.n_pairs / delta)
        outcomes = int(p.layout.count[p.layout.available].max())
        visits, far = pac.rmax_visits(outcomes, H, epsilon, log), 4.0 * p.context_bound  # far: one ball holds everybody
        radius = min(pac.cover_radius(H, epsilon, *smooth), far)
        m, r0 = visits, radius
        if o["constants"] == "paper":
            m = pac.printed_visits(p.n_states, p.n_actions, H, epsilon, delta)
            r0 = pac.printed_radius(H, epsilon, *smooth)
        m, r0 = m if o["m"] is None else o["m"], min(r0 if o["r0"] is None else o["r0"], far)
        self.sound = o["constants"] == "corrected" and m >= visits and r0 <= radius
        slack = np.zeros(H + 1)
        if self.sound:
            e_r = pac.reward_rate(log) / math.sqrt(m) + 2.0 * smooth[1] * r0
            slack = pac.slack(H, e_r, pac.transition_rate(outcomes, log) / math.sqrt(m) + 2.0 * smooth[0] * r0)
        return group_parts(p, self.seed, np.zeros((balls, p.context_dim)), 0, radius=r0, enough=m, slack=slack)

    @property
    def bounds_values(self) -> bool:  # type: ignore[override]
        return self.sound and int(self.state.forced[0]) == 0

    def _escapes(self) -> float:
        return float(self.max_balls * self.problem.n_pairs * self.par.enough)

    def _assumed(self) -> tuple[str, ...]:
        return ()  # its promise says what

    @property
    def promised(self) -> str:  # type: ignore[override]
        smooth = "where transitions and rewards are as smooth in the context as assumed"
        return f"{smooth} and {self.max_balls} balls cover the contexts, {self._mistakes()}"
