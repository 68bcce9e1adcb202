"""PSRL-GLM: plans that explore by a random part of what is not known (`explore`), or for a model drawn from the
approximate posterior (exploration="posterior"). Nothing is proved about them."""

import numpy as np
from numpy.typing import ArrayLike

from ... import checks as check
from ...checks import Floats
from ...compiler.announcements import announced
from ...compiler.jit import direct, kernel
from ...compiler.memory import apart, copied
from ...compiler.slots import EMPTY, filled
from ...numerics.random import tie_key
from ...planning.bellman import Solution, hook_addresses
from ..declared import REGULARIZATION, REWARD_REGULARIZATION, option
from ..locks import locked
from ..lottery import FLOOR, PLANS
from ..probabilities import other_seed, reseeded
from .belief import unsure
from .draws import apply_several, best_draw, best_of_draws, doubt, draw_model, plan_draw
from .explore import apply_propose
from .family import SetAgent
from .lottery import plan_lottery
from .options import EXPLORATION, FORM, POSTERIOR_SCALE
from .sets import SetPar, SetState, SetWork


@kernel
def plan(par, state, work, x, k, out):
    if filled(par.propose):
        apply_propose(par.propose, (par, state, work, x, k, out.policy, out.values))
        return
    draw_model(par, state, work, x, k)
    if work.P.shape[0] == 1:
        plan_draw(par, work, k, out.policy, out.values)
    else:
        found, key = Solution(work.Q, out.policy, out.values), tie_key(par.seed, k)
        apply_several(par.several, (par.layout, par.best_draw, work.P, work.r, key, k, found))


class PSRLGLM(SetAgent):
    """Plan with what is known of the population, and a random part of what is not; play that, learn. Nothing to tune.

    exploration       "adaptive": estimates plus a random part of their uncertainty, one number per episode for all
                      pairs, added up along a way as errors do that are independent from pair to pair
                      (`planning.ways`), and unseen rewards half way to the largest (`agents.local.explore`). The
                      noise of rewards is that of the data (`estimators.rewards.calibrated`). No posterior sampling,
                      in spite of the name: it loses less, cold, after a log, for H = 1 and for long horizons
                      (docs/exploration.md)
                      "posterior": plan for one model drawn per episode,
                          logits ~ N(W x, scale^2 (I (x) x') Lambda^{-1} (I (x) x)),
                          mean reward ~ N(theta'x, (scale ||x||_{V^{-1}}/2)^2)
                      theta and V from ridge regression, the same draw for all steps
    draws             with "posterior": J > 1 draws J models and plans with the best of them in every backup
    posterior_scale   multiplies every standard deviation; 1 is untuned
    plans, floor      more than 1, or above 0: what is played is drawn from so many plans, each made with random numbers
                      of its own, and at every step, with chance `floor`, an available action is taken at random
                      instead. Then the probability of every action given the past is exact (`action_probabilities`),
                      and values and regret are those of the draw (`agents.lottery`)

    W and Lambda are the online Laplace approximation of the posterior (`estimators.likelihood.sets` with c = 1/2).
    Under the linear link the distribution itself has its ridge estimate (`agents.local.draws.draw_linear`).

    The default where regret alone counts; it carries no guarantee. For a proved bound use `CertifiedPSRL`, for
    certificates around this agent `Certified`. Cost and memory as LR-ORL with online sets.

    >>> import numpy as np
    >>> import noregret as nr
    >>> world = nr.worlds.clinic()
    >>> run = nr.simulate(nr.PSRLGLM(world.problem), world, 300, seeds=2)
    >>> floor = nr.simulate(nr.UniformRandom(world.problem), world, 300, seeds=2)
    >>> bool(run.final.mean() < 0.2 * floor.final.mean())
    True
    >>> print(run.guarantee)
    None
    >>> agent, x = nr.PSRLGLM(world.problem, exploration="posterior"), world.context(seed=0, episode=0)
    >>> P, r = agent.draw(x)  # what it will plan with
    >>> plan = nr.planning.plan(world.problem, P, r)
    >>> bool(np.allclose(plan.values, agent.begin_episode(x).values))
    True
    """

    name = "psrl-glm"
    plan_kernel = own_plan = staticmethod(plan)
    lottery_kernel = staticmethod(plan_lottery)
    doubt_kernel, belief_kernel = staticmethod(doubt), staticmethod(unsure)
    draws_models, uses_sets = True, False
    certificate_kernel = None

    exploration: str = EXPLORATION
    draws: int = option(1, check.integer)
    posterior_scale: float = POSTERIOR_SCALE
    form: str = FORM
    regularization: float | None = REGULARIZATION
    reward_regularization: float | None = REWARD_REGULARIZATION
    plans: int = PLANS
    floor: float = FLOOR

    @locked
    def draw(self, x: ArrayLike, number: int = 0) -> tuple[Floats, Floats]:
        """A model of an individual with context x [d], drawn from the posterior: probabilities [S, A, S'], and mean
        rewards [S, A]. number: 0 is what the next plan is made with where exploration="posterior", others are other
        draws. Nothing changes."""
        n, given = check.integer("number", number, 0), apart(self.problem.context(self.encoded(x)))
        seed = other_seed(self.seed, self.episode, n) if n > 0 else self.seed
        state, work = copied(self.state, {}), copied(self.work, {})
        self.prepare_doubt()
        args = reseeded(self.par, seed), state, work, given, self.episode
        with announced(f"posterior draws of {self.name}"):
            direct(draw_model, *args)(*args)
        scale = self.problem.scale
        return self.problem.from_slots(work.P[0]), np.asarray(scale.low + scale.unit * work.r[0])

    def _settle(self) -> None:
        super()._settle()
        if self.explores and self.options["draws"] > 1:
            raise ValueError('draws must be 1 unless exploration="posterior": nothing is drawn otherwise')

    def build(self) -> tuple[SetPar, SetState, SetWork]:
        par, state, work = super().build()
        if self.options["draws"] > 1:
            layout, key = par.layout, np.uint64(0)
            hook, _ = hook_addresses(best_draw, None, layout, (work.P, work.r), 0)
            found = Solution(work.Q, work.policy, work.values)
            several = apply_several.fill(best_of_draws, layout, EMPTY, work.P, work.r, key, 0, found)
            par = par._replace(several=several, best_draw=hook)
        return par, state, work
