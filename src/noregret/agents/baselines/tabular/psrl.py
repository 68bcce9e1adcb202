"""PSRL: plan for a model drawn from the posterior (Strens 2000; Osband, Russo and Van Roy 2013)."""

from typing import Any

from numpy.typing import ArrayLike

from .... import checks as check
from ....compiler.jit import inlined, kernel
from ....numerics.random import POSTERIOR, gammas, gammas_from
from ....planning.bellman import UNCLIPPED
from ...commit import put
from ...declared import CENTRES, choice, option
from ...endings import plan_model
from .family import TabularAgent, due, enter, keep, recall, told_rewards


@kernel
def plan(par, state, work, x, k, out):
    b = enter(par, state, work, x)
    if par.lazy == 1 and not due(state, b, k):
        recall(state, b, out)
        return
    if par.layout.dense == 1:
        draw_all(par, state, work, b, k)
    else:
        draw_supported(par, state, work, b, k)
    if par.known == 1:
        told_rewards(par, x, work.r)
    plan_model(par, work, work.P, work.r, UNCLIPPED, k, out)
    if par.lazy == 1:
        put(out.policy, state.policy[b])
        put(out.values, state.values[b])
        keep(state, b, k)


@kernel
def draw_all(par, state, work, b, k):
    """work.P, work.r <- a model from the posterior of group b. Pair i = s A + a takes draws i (M + 2) and on, the last
    two for its reward."""
    shapes, made, layout = work.draws[0], work.draws[4], par.layout
    S, A, M = work.P.shape
    for s in range(S):
        for a in range(A):
            first = (s * A + a) * (M + 2)
            for j in range(M):
                shapes[first + j] = par.prior + state.counts[b, s, a, j]
            shapes[first + M] = 1.0 + state.reward_sums[b, s, a]
            shapes[first + M + 1] = 1.0 + state.reward_visits[b, s, a] - state.reward_sums[b, s, a]
    gammas(shapes, par.seed, k, POSTERIOR, work.draws[1], work.draws[2], work.draws[3], made)
    for s in range(S):
        for a in range(A):
            first = (s * A + a) * (M + 2)
            normalise(made[first : first + layout.count[s, a]], work.P[s, a])
            work.r[s, a] = made[first + M] / (made[first + M] + made[first + M + 1])


@kernel
def draw_supported(par, state, work, b, k):
    """The same numbers as `draw_all`, but only those that are used: pair by pair."""
    layout = par.layout
    S, A, M = work.P.shape
    for s in range(S):
        for a in range(A):
            if not layout.available[s, a]:
                continue
            n, first = layout.count[s, a], (s * A + a) * (M + 2)
            shapes, u, v, z, made = work.draws[0], work.draws[1], work.draws[2], work.draws[3], work.draws[4]
            for j in range(n):
                shapes[j] = par.prior + state.counts[b, s, a, j]
            gammas_from(first, shapes[:n], (par.seed, k, POSTERIOR), u[:n], v[:n], z[:n], made[:n])
            normalise(made[:n], work.P[s, a])
            shapes[0] = 1.0 + state.reward_sums[b, s, a]
            shapes[1] = 1.0 + state.reward_visits[b, s, a] - state.reward_sums[b, s, a]
            gammas_from(first + M, shapes[:2], (par.seed, k, POSTERIOR), u[:2], v[:2], z[:2], made[:2])
            work.r[s, a] = made[0] / (made[0] + made[1])


@inlined
def normalise(drawn, row):
    """row <- drawn over their sum: Dirichlet from gamma variates."""
    total = 0.0
    for j in range(drawn.shape[0]):
        total += drawn[j]
    if total > 0.0:
        share = 1.0 / total
        for j in range(drawn.shape[0]):
            row[j] = share * drawn[j]
    else:  # tiny shapes may all underflow
        for j in range(drawn.shape[0]):
            row[j] = 1.0 / drawn.shape[0]


class PSRL(TabularAgent):
    """PSRL (Strens 2000), tabular: draw a model from the posterior, plan for it, play that, learn.

        P(. | s, a) ~ Dirichlet(prior + counts) over the supported next states,   r(s, a) ~ Beta(1 + wins, 1 + losses)

    prior    pseudo-count of every supported next state: 1 is uniform over distributions, less expects few outcomes.
             rlberry's PSRL (rlberry-research, whose code was read) has 1/S
    replan   "episode", or "doubling": keep a group's model and plan until some pair's visits have doubled since they
             were made (lazy posterior sampling, Abbasi-Yadkori and Szepesvari 2015), about S A log2(K H) draws and
             plans in all: for large problems and many episodes
    centres  [B, d]: one model for each group, those nearest to a centre (`kmeans`); None: one for everybody

    Rewards between 0 and 1 count as that much of a win; the posterior is then an approximation. Values are random, not
    bounds. Cost per episode O(S^2 A H) and S A (M + 2) gamma draws, memory O(B S^2 A), constant in the number of
    episodes.

    >>> import noregret as nr
    >>> world = nr.worlds.clinic()
    >>> groups = world.contexts.support  # six kinds of patients: one model for everybody, or one for each kind
    >>> blind, kinds = (nr.simulate(nr.agents.PSRL(world.problem, centres=c), world, 1000) for c in (None, groups))
    >>> bool(kinds.final[0] < 0.2 * blind.final[0])
    True
    """

    name = "psrl"
    plan_kernel = staticmethod(plan)
    samples = True

    prior: float = option(1.0, check.positive)
    centres: ArrayLike | None = CENTRES
    replan: str = choice("episode", "doubling")

    def _settle(self) -> None:
        super()._settle()
        self.lazy = self.replan == "doubling"

    def _numbers(self) -> dict[str, Any]:
        return {"prior": self.options["prior"]}

    def _promise(self) -> str | None:
        if self.lazy:
            return None
        return (
            "on average over worlds drawn from its prior with rewards of 0 or 1, the model planned for has the "
            f"distribution of the true one given the past, {self.where}"
        )
