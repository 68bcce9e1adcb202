"""LSVI-UCB: least-squares value iteration with bonuses, for linear MDPs (Jin, Yang, Wang and Jordan 2019)."""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .... import checks as check
from ....checks import Floats
from ....compiler.announcements import announced
from ....compiler.jit import inlined, kernel
from ....compiler.slots import EMPTY
from ....estimators.gram import first_grams
from ....numerics.linear_algebra import apply_refresh, dot, form, refresh_address, times
from ....problem.layout import Layout
from ....problem.problem import Problem
from ...base import Agent
from ...declared import BONUS_SCALE, DELTA, option
from ...endings import plan_hooked, with_hooks

BETA = 1.0  # c of beta = c d_phi H sqrt(ln(2 d_phi T/delta)): the paper has "an absolute constant"
LEAST_REGULARIZATION = 1e-6  # of lambda/R^2: below, taking old episodes out of a Gram matrix would lose too many digits


class LSVIPar(NamedTuple):
    seed: int
    layout: Layout
    hooked: Any  # slots of `agents.endings.with_hooks`
    adjust: Any
    settle: Any
    refresh: Any  # slot of `refresh_inverse`
    dim: float  # d_phi = S A d
    log_confidence: float  # ln(1/delta)
    scale: float


class LSVIState(NamedTuple):
    """The last N episodes, in a ring: episode k is row k mod N."""

    contexts: Floats  # [N, d]
    states: NDArray[np.int64]  # [N, H+1]
    actions: NDArray[np.int64]  # [N, H]
    rewards: Floats  # [N, H]
    seen: NDArray[np.int64]  # [N, H], 1: the step was taken and its reward observed
    gram: Floats  # Lambda, [H, S, A, d, d]
    inverse: Floats

    def limits(self, problem: Problem) -> dict[str, tuple[float, float]]:
        return {"states": (0, problem.n_states - 1), "actions": (0, problem.n_actions - 1), "seen": (0, 1)}


class LSVIWork(NamedTuple):
    P: Floats  # [S, A, M], zero: there is no model
    r: Floats  # [S, A], zero
    Q: Floats  # [S, A]
    x: Floats  # [d], the individual's context
    beta: Floats  # [1]
    weights: Floats  # w, [H, S, A, d]
    moment: Floats  # [S, A, d]
    logdet: Floats  # [1]
    zx: Floats  # [d]
    factor: Floats  # [d, d]


@kernel
def plan(par, state, work, x, k, out):
    H = float(out.policy.shape[0])
    for b in range(x.shape[0]):
        work.x[b] = x[b]
    # The paper's T is the number of steps of the whole run; here those up to this episode
    work.beta[0] = (
        par.scale * BETA * par.dim * H * math.sqrt(math.log(2.0 * par.dim * (k + 1.0) * H) + par.log_confidence)
    )
    plan_hooked(par, state, work, work.P, work.r, k, out.policy, out.values)


@inlined
def value(state, work, h, s, a, x):
    """w_h'phi + beta ||phi||_{Lambda_h^-1} at phi = e_sa (x) x."""
    width = math.sqrt(max(form(state.inverse[h, s, a], x), 0.0))
    return dot(work.weights[h, s, a], x) + work.beta[0] * width


@kernel
def adjust(par, state, work, k, h, P, V_next, Q):
    """Fit w_h to rewards and next values, each at the context it was met with; Q += its values for this individual."""
    (S, A), H, d = Q.shape, state.actions.shape[1], work.x.shape[0]
    left = float(H - h - 1)
    work.moment[:] = 0.0
    for i in range(min(k, state.contexts.shape[0])):
        if state.seen[i, h] == 1:
            best, after = 0.0, state.states[i, h + 1]
            if h + 1 < H:
                for a in range(A):
                    if par.layout.available[after, a]:
                        best = max(best, value(state, work, h + 1, after, a, state.contexts[i]))
            target = state.rewards[i, h] + min(best, left)
            for b in range(d):
                work.moment[state.states[i, h], state.actions[i, h], b] += target * state.contexts[i, b]
    for s in range(S):
        for a in range(A):
            times(state.inverse[h, s, a], work.moment[s, a], work.weights[h, s, a])
            Q[s, a] += value(state, work, h, s, a, work.x)


@inlined
def count_in(par, state, work, i, sign):
    """Add the steps of row i to the Gram matrices (sign = 1), or take them out (-1)."""
    d = state.contexts.shape[1]
    for h in range(state.seen.shape[1]):
        if state.seen[i, h] == 1:
            s, a = state.states[i, h], state.actions[i, h]
            gram = state.gram[h, s, a]
            for b in range(d):
                for c in range(d):
                    gram[b, c] += sign * state.contexts[i, b] * state.contexts[i, c]
            apply_refresh(par.refresh, (gram, state.inverse[h, s, a], work.logdet, 0.0, work.factor, work.zx))


@kernel
def learn(par, state, work, x, k, n, path):
    i = k % state.contexts.shape[0]
    count_in(par, state, work, i, -1.0)  # the oldest episode makes room
    for b in range(x.shape[0]):
        state.contexts[i, b] = x[b]
    for h in range(state.seen.shape[1]):
        state.seen[i, h] = 0
        if h < n and not math.isnan(path.rewards[h]):
            state.states[i, h], state.states[i, h + 1] = path.states[h], path.states[h + 1]
            state.actions[i, h], state.rewards[i, h], state.seen[i, h] = path.actions[h], path.rewards[h], 1
    count_in(par, state, work, i, 1.0)


class LSVIUCB(Agent):
    """LSVI-UCB (Jin et al. 2019): least-squares value iteration with bonuses.

    Values, not transitions, are taken to be linear, with features phi(s, a, x) = e_sa (x) x and a regression per step:

        Q_h(s, a, x) = clip( w_h'phi + beta ||phi||_{Lambda_h^-1}, 0, H - h )                                (h from 0)
        Lambda_h = lambda I + sum phi_i phi_i',   w_h = Lambda_h^{-1} sum phi_i (r_i + max_a Q_{h+1}(s'_i, a, x_i))
        beta = c d_phi H sqrt(ln(2 d_phi T/delta)),   d_phi = S A d

    The matrices are block diagonal: one d x d block per pair and step. beta is from memory of the paper, with c = 1
    where the paper has an unspecified constant and T the steps up to this episode. A step whose reward was not observed
    has no target and is left out.

    memory        number of past episodes that are kept; when it is full the oldest is forgotten
    bonus_scale   multiplies beta, which is far too large for any run of ordinary length

    Caveat: misspecified by construction. The mean of V_{h+1}(s', x) is not linear in x, neither for the logit nor for
    LinearCombination, because V_{h+1} itself depends on x; nothing is claimed.

    Cost per episode O(SAHd^2 + n H A d^2), n = min(episodes so far, memory): past next states are valued anew at their
    own contexts. Memory O(SAHd^2 + memory (d + H)), reserved at once.

    >>> import noregret as nr
    >>> world = nr.worlds.clinic(horizon=3)
    >>> full, tuned = (nr.simulate(nr.agents.LSVIUCB(world.problem, bonus_scale=b), world, 300) for b in (1.0, 0.005))
    >>> bool(tuned.final[0] < 0.7 * full.final[0])
    True
    """

    name, group = "lsvi-ucb", "contextual"
    plan_kernel = staticmethod(plan)
    learn_kernel = staticmethod(learn)

    delta: float = DELTA
    bonus_scale: float = BONUS_SCALE
    memory: int = option(2000, check.integer)
    regularization: float = option(1.0, check.positive)

    def _kept(self) -> float:
        p, d = self.problem, self.problem.context_dim
        return float(2 * p.horizon * p.n_states * p.n_actions * d * d + self.options["memory"] * (d + 4 * p.horizon))

    def build(self) -> tuple[LSVIPar, LSVIState, LSVIWork]:
        p, o, f = self.problem, self.options, np.zeros
        (S, A, M), H, d = p.layout.outcomes.shape, p.horizon, p.context_dim
        N, lam, least, i = o["memory"], o["regularization"], LEAST_REGULARIZATION * p.context_bound**2, np.int64
        if lam < least:
            raise ValueError(f"regularization must be at least {least:.3g} for stable arithmetic, got {lam:g}")

        numbers = float(S * A * d), math.log(1.0 / o["delta"]), o["bonus_scale"]
        par = LSVIPar(self.seed, p.layout, EMPTY, EMPTY, EMPTY, refresh_address(d), *numbers)
        grams = first_grams(lam, (H, S, A), d)
        state = LSVIState(f((N, d)), f((N, H + 1), i), f((N, H), i), f((N, H)), f((N, H), i), *grams)
        tables = f((S, A, M)), f((S, A)), f((S, A)), f(d), f(1), f((H, S, A, d)), f((S, A, d))
        work = LSVIWork(*tables, f(1), f(d), f((d, d)))
        with announced(f"the regressions of {self.name}"):
            return with_hooks(adjust, None, par, state, work), state, work
