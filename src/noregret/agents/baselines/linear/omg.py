"""OMG-CMDP: play the occupancy measure that trades estimated reward against a logarithmic barrier (after Levy, Cassel,
Cohen and Mansour 2023, OMG-CMDP!)."""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .... import checks as check
from ....checks import Floats
from ....compiler.announcements import announced
from ....compiler.jit import inlined, kernel, merged
from ....numerics.linear_algebra import cholesky, dot, solve_factored
from ....numerics.random import EXPLORE, uniforms
from ....planning.bellman import UNCLIPPED, evaluate, expectation
from ....problem.problem import Problem
from ...base import Trajectory, part_learn
from ...declared import CONSTANTS, REGULARIZATION, REWARD_REGULARIZATION, option
from ...endings import plan_model
from ...glm.family import GLMAgent, GLMPar, GLMState, GLMWork, apply_beliefs
from ...glm.family import learn as learn_estimates

MIX = 1e-3  # of the uniform distribution over the support in every P_hat, so that what is possible stays reachable
STEPS = 500  # of Newton's method, at most
CLOSE = 1e-9  # Newton decrement at which it stops: the next step would gain half its square
NEAR = 0.25  # decrement below which full steps are taken
LARGEST_GAMMA = 1e8  # of gamma: beyond, rounding hides how far a value is from its bound
GAMMA = 30.0  # of the schedule gamma_k = GAMMA sqrt(k): a choice of this library, not of the paper


class OMGPar(NamedTuple):
    glm: GLMPar
    learn: Any  # slot of the family's learn kernel
    gamma: float
    initial: Floats  # [S]
    reachable: NDArray[np.bool_]  # [H, S]


class OMGWork(NamedTuple):
    glm: GLMWork
    gradient: Floats  # [H S]
    step: Floats  # [H S]
    hessian: Floats  # [H S, H S]
    factor: Floats  # [H S, H S]
    chances: Floats  # [A]


@kernel
def plan(par, state, work, x, k, out):
    glm, belief, layout = par.glm, work.glm.belief, par.glm.layout
    apply_beliefs(glm.believe, (glm, state, work.glm, x, 0.0))
    S, A = belief.reward.shape
    for s in range(S):
        for a in range(A):
            for j in range(layout.count[s, a]):
                belief.P[s, a, j] = (1.0 - MIX) * belief.P[s, a, j] + MIX / layout.count[s, a]
    gamma = par.gamma * math.sqrt(k + 1.0)
    # A strictly feasible start: optimal values where every step pays a little more
    for s in range(S):
        for a in range(A):
            work.glm.r[s, a] = belief.reward[s, a] + S * A / gamma
    plan_model(glm, work.glm, belief.P, work.glm.r, UNCLIPPED, k, out)
    multipliers(par, layout, gamma, belief.P, belief.reward, out.values, work)
    draw(glm.seed, k, layout, belief.P, belief.reward, out.values, work.chances, out.policy)
    evaluate(belief.P, layout, belief.reward, out.policy, out.values)


@kernel
def multipliers(par, layout, gamma, P, r, V, work):
    """V [H+1, S] <- argmin of gamma sum mu V_0 - sum ln(V_h(s) - r(s, a) - P V_{h+1}), from a feasible V.

    The dual of the program, standard self-concordant: Newton's method with steps 1/(1 + decrement), then full ones. The
    sum is over reachable (h, s) and available a; V stays as it is elsewhere."""
    H, S, A = par.reachable.shape[0], r.shape[0], r.shape[1]
    g, hessian, n = work.gradient, work.hessian, H * S
    for _ in range(STEPS):
        g[:] = 0.0
        hessian[:] = 0.0
        for h in range(H):
            for s in range(S):
                i = h * S + s
                if not par.reachable[h, s]:
                    hessian[i, i] = 1.0
                    continue
                if h == 0:
                    g[i] += gamma * par.initial[s]
                for a in range(A):
                    if layout.available[s, a]:
                        u = 1.0 / (V[h, s] - r[s, a] - expectation(P, layout, s, a, V[h + 1]))
                        g[i] -= u
                        hessian[i, i] += u * u
                        if h + 1 < H:
                            add_flow(layout, P, h, s, a, u, work)
        cholesky(hessian, 0.0, work.factor)
        values, step = merged(V), work.step
        for i in range(n):
            step[i] = g[i]
        solve_factored(work.factor, step)
        decrement = math.sqrt(max(dot(g, step), 0.0))
        share = 1.0 if decrement < NEAR else 1.0 / (1.0 + decrement)
        for i in range(n):
            values[i] -= share * step[i]
        if decrement < CLOSE:
            break


@inlined
def add_flow(layout, P, h, s, a, u, work):
    """The part of u^2 c c' and u c, c = e_now - P(s, a, .), that lies in the step after h (lower triangle)."""
    g, hessian, S = work.gradient, work.hessian, P.shape[0]
    now, after = h * S + s, (h + 1) * S
    for j in range(layout.count[s, a]):
        to, p = after + layout.outcomes[s, a, j], u * P[s, a, j]
        g[to] += p
        hessian[to, now] -= u * p
        for i in range(j + 1):  # outcomes are in order of state number
            hessian[to, after + layout.outcomes[s, a, i]] += p * u * P[s, a, i]


@inlined
def draw(seed, k, layout, P, r, V, chances, policy):
    """policy [H, S]: at every (h, s) an action with chance proportional to q(h, s, a) = 1/(gamma (V - r - P V'))."""
    H, S = policy.shape
    for h in range(H):
        for s in range(S):
            total = 0.0
            for a in range(chances.shape[0]):
                chances[a] = 0.0
                if layout.available[s, a]:
                    chances[a] = 1.0 / (V[h, s] - r[s, a] - expectation(P, layout, s, a, V[h + 1]))
                    total += chances[a]
            u, _ = uniforms(seed, k, h * S + s, EXPLORE)
            left = u * total
            for a in range(chances.shape[0]):
                if chances[a] > 0.0:
                    policy[h, s] = a
                    left -= chances[a]
                    if left < 0.0:
                        break


@kernel
def learn(par, state, work, x, k, n, path):
    part_learn(par.learn, (par.glm, state, work.glm, x, k, n, path))


def moderate(name: str, value: Any) -> float:
    """A positive number of a size at which the program can be solved."""
    made = check.positive(name, value, least=1e-9)
    if made > LARGEST_GAMMA:
        raise ValueError(f"{name} must be at most {LARGEST_GAMMA:g}, got {check.shown(value)}: rounding hides the rest")
    return made


class OMGCMDP(GLMAgent):
    """OMG-CMDP (after Levy et al. 2023): trade estimated reward against a logarithmic barrier.

    Plans by a concave program over the occupancy measures q of the estimated MDP of this individual,

        maximise  gamma_k sum q(h, s, a) r_hat(s, a) + sum ln q(h, s, a),   gamma_k = gamma sqrt(k), k = 1, 2, ...

    and play pi_h(a|s) = q(h, s, a)/sum_a q(h, s, a): a policy drawn from it, each (h, s) for itself; regret is that of
    the policy drawn. The oracle that estimates P_hat and r_hat is the library's (online Newton steps and the problem's
    rewards). The program is solved in its dual, to a Newton decrement of 1e-9.

    gamma        of the schedule. The paper's value depends on the oracle's regret and on the number of episodes,
                 neither of which is known here; the default is a choice
    initial      [S], how often an episode begins in each state; None: equally often, as the plan comes before the
                 initial state is seen. Unreachable (h, s) leave the program; what is played there does not matter

    P_hat is mixed with 1/1000 of the uniform distribution over the support. No guarantee is claimed. The published
    algorithm is recalled from its idea, not from its text. Cost per episode: as GLM-ORL, and O((H S)^3) per Newton
    step; memory: GLM-ORL's and O((H S)^2); both constant in the number of episodes. Other options: `GLMAgent`.

    >>> import noregret as nr
    >>> world = nr.worlds.clinic(horizon=3)
    >>> timid, greedy = (nr.simulate(nr.agents.OMGCMDP(world.problem, gamma=g), world, 300) for g in (0.1, 30.0))
    >>> bool(greedy.final[0] < 0.8 * timid.final[0])
    True
    """

    name, group = "omg-cmdp", "contextual"
    masks = False  # its iteration is over all that is available
    plan_kernel = staticmethod(plan)
    learn_kernel = staticmethod(learn)

    gamma: float = option(GAMMA, moderate)
    initial: ArrayLike | None = option(None)
    constants: str = CONSTANTS
    regularization: float | None = REGULARIZATION
    reward_regularization: float | None = REWARD_REGULARIZATION

    def _settle(self) -> None:
        super()._settle()
        if self.initial is not None:
            initial = check.array("initial", self.initial, (self.problem.n_states,))
            if initial.min() < 0.0 or abs(initial.sum() - 1.0) > 1e-9:
                raise ValueError(f"initial must be nonnegative and sum to 1, got {initial.tolist()}")
            self.options["initial"] = initial

    def _kept(self) -> float:
        return super()._kept() + 2.0 * (self.problem.horizon * self.problem.n_states) ** 2

    def build(self) -> tuple[OMGPar, GLMState, OMGWork]:  # type: ignore[override]
        p, f = self.problem, np.zeros
        H, S, A, d = p.horizon, p.n_states, p.n_actions, p.context_dim
        glm, state, work = super().build()
        initial = self.options["initial"]
        mu = np.full(S, 1.0 / S) if initial is None else initial
        path = Trajectory(np.zeros(H + 1, np.int64), np.zeros(H, np.int64), f(H))
        with announced(f"the estimates of {self.name}"):
            where = part_learn.fill(learn_estimates, glm, state, work, f(d), 0, 0, path)
        par = OMGPar(glm, where, self.options["gamma"], mu, reachable(p, mu))
        n = H * S
        return par, state, OMGWork(work, f(n), f(n), f((n, n)), f((n, n)), f(A))


def reachable(problem: Problem, initial: Floats) -> NDArray[np.bool_]:
    """[H, S]: whether a state can occur at a step at all."""
    count, outcomes, available, _ = problem.layout
    made = np.zeros((problem.horizon, problem.n_states), bool)
    made[0] = initial > 0.0
    reached = available[..., None] & (np.arange(outcomes.shape[2]) < count[..., None])  # [S, A, M]
    for h in range(1, problem.horizon):
        made[h, outcomes[made[h - 1]][reached[made[h - 1]]]] = True
        if np.array_equal(made[h], made[h - 1]):
            made[h:] = made[h]
            break
    return made
