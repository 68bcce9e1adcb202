"""`SetAgent`: agents that know one individual up to local sets, and can certify any plan."""

import math
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from ... import checks as check
from ...beliefs.local import Lift, derive, derive_shared, lift_of, local_sets, local_work
from ...checks import Floats
from ...compiler.announcements import announced
from ...compiler.jit import direct
from ...compiler.slots import EMPTY
from ...estimators.audit import ALONG, audit_parts
from ...estimators.chance import chance_state
from ...estimators.likelihood.kron import learn_kron_outcomes
from ...estimators.likelihood.sets import PREDICTORS, likelihood_parts
from ...estimators.likelihood.shared import natural_regularization, shared_parts
from ...estimators.likelihood.shared_visit import learn_shared_outcomes
from ...estimators.likelihood.visit import learn_outcomes
from ...estimators.linear.sign_union import sign_union_parts
from ...estimators.mixture.sets import mixture_parts
from ...estimators.mixture.shared import block_mixture_parts
from ...estimators.rewards.forms import estimated, reward_parts, with_kernels, with_refresh
from ...estimators.store import Store, empty_store, with_room
from ...numerics.linear_algebra import LEAST_REGULARIZATION
from ...planning.bellman import planner_address
from ...planning.optimism import SHARP, TAYLOR, search_parts
from ...planning.plans import Plan
from ...problem.design import Blocks, largest_feature
from ...problem.links import LinearCombination, MultinomialLogit
from ...problem.problem import Problem
from ..base import Agent, Trajectory
from ..buffers import buffers
from ..diagnostics import EVERYBODY, WIDTHS, watch_values
from ..locks import locked
from .betting import Betting
from .certify import certified
from .diagnostics import watch_local
from .draws import apply_draw, draw_linear, draw_logit
from .explore import apply_propose, explore, steepness, with_belief
from .lottery import apply_proposals, doubt_lottery, draw_several, explore_several, lottery_work, unsure_lottery
from .models import drawn_weights, local_model, local_weights
from .questions import Asked, Comparison, compared
from .sets import (
    SetPar,
    SetState,
    SetWork,
    apply_derive,
    apply_describe,
    apply_outcomes,
    describe_linear,
    describe_online,
    describe_stored,
    gap_conceded,
    learn_linear,
    learn_online,
    learn_stored,
    renew_online,
    renew_stored,
)
from .shared import (
    call_lifted,
    describe_mixed,
    describe_shared,
    draw_lifted,
    draw_shared,
    draw_work,
    learn_mixed,
    normals_needed,
    renew_mixed,
)
from .standing import standing_of
from .zero import apply_zero, counts, from_zero, zero_work

REWARD_SHARE = 0.8  # of what the sets have of delta, for the reward intervals
REGRET_SHARE = 0.02  # of delta, for a bound on the regret
SETS_TIMES = 4.0  # lambda of online sets, in units of d/B_p^2
FIRST_ROOM = 64  # episodes
RUNGS = 6  # optimistic policies with a part of the bonus that a gate tries before full optimism


class SetAgent(Betting, Agent):
    """Options that agents of the family take:

    sets                   of transitions. "online": likelihood-ratio sets, constant cost and memory; "stored": mixture
                           sets over all data, smaller, and memory grows with the episodes; "stored-plain": the plainer
                           stored set, without a design. The linear link has one kind, which "online" stands for
    bonus                  "taylor" (first and second order) or "sharp" (certified maximisation over the set, ten times
                           the work); None: the first with online sets, the second with stored ones
    reward_sets            "hoeffding" (constant memory), "bernstein" (goes over stored data), "ridge", or "logistic",
                           which logistic rewards take in any case; None: the first with online sets, the second with
                           stored ones
    certificates           of plans. "plain": upper less lower values; "close": the plan's shortfall is followed step by
                           step (`planning.optimism.shortfall`), and where rewards have a design counted from another
                           zero (`agents.local.zero`), as `certify` always does; never larger, and smaller the more
                           actions are ruled out. None: the first with online sets, the second with stored ones
    predictor, form        of "online" sets (`estimators.LikelihoodRatioSet`); form also of the posterior
    regularization         lambda of the transition estimates; None: d/B_p^2 for a posterior, the precision of an entry
                           of a row of length B_p, and four times that for online sets, near the best of their widths.
                           Those of sets and of blocks, and one that is given, are at least R^2/1000 (times the square
                           of the longest feature): with less, rounding would make variances too small after many
                           visits. None: a posterior that plans explore by begins with at least ||x||^2/4 (with a design
                           times the mean square of features less their pair's mean), x the first context that is
                           learned: a bound is no prior
    reward_regularization  lambda of the reward estimates, likewise"""

    any_range = masks = True
    group = "beyond"
    draws_models = False  # whether it keeps a posterior
    uses_sets = True  # whether it keeps confidence sets
    consistent_values = shares_weights = True
    certificate_kernel = cast(Any, staticmethod(gap_conceded))  # for `Referral`
    renew_kernel: Any = staticmethod(renew_online)
    own_plan: Any = None  # a plan_kernel that draws from the posterior only with exploration="posterior"
    # Where they are no options
    delta, sets, predictor, form, draws = 0.05, "online", "unscented", "full", 1
    bonus_scale, posterior_scale = 1.0, 1.0
    exploration = "posterior"
    plans, floor = 1, 0.0
    lottery_kernel: Any = None  # the plan_kernel with several plans, or a floor

    @classmethod
    def refusal(cls, problem: Problem) -> str | None:
        if not isinstance(problem.link, MultinomialLogit | LinearCombination):
            return f"{cls.name} needs the link MultinomialLogit or LinearCombination, got {problem.link!r}"
        return None

    @property
    def gate_kappa(self) -> float:
        """Of the gate, where there is one."""
        return 0.0

    @property
    def gate_growth(self) -> float:
        return 0.0

    def _lottery(self) -> int:
        return self.plans if self.plans > 1 or self.floor > 0.0 else 0

    @property
    def certifies(self) -> bool:
        """Whether plans come with bounds on their values."""
        return bool(self.par.certify)

    @property
    def watch_columns(self) -> set[str]:
        if not self.uses_sets:
            return EVERYBODY
        certified = {"certificate", "certificate_failures"} if self.certifies else set()
        return EVERYBODY | WIDTHS | {"justified_failures", "excess"} | certified

    def _reward_form(self) -> Any:
        """The form of the reward sets: the one asked for, or the best that needs no more storage than the others."""
        if self.problem.rewards == "logistic":
            return "logistic"
        asked = self.options.get("reward_sets")
        return asked or ("hoeffding" if self.sets == "online" else "bernstein")

    def _room_in(self, state: Any) -> int:
        return int(state.store.contexts.shape[0])

    def _roomier(self, state: Any, episodes: int) -> Any:
        if self._room_in(state) == 0:  # nothing is ever stored
            return state
        store = with_room(state.store, episodes)
        return state if store is state.store else state._replace(store=store)

    def _shares(self) -> tuple[float, float]:
        """ln(1/delta) of one transition set, of a pair or of a block, and of one set of mean rewards."""
        p = self.problem
        rewards = 0.0 if p.known_rewards is not None else REWARD_SHARE
        share = (1.0 - REGRET_SHARE) * self.delta
        sets = [p.n_pairs if blocks is None else blocks.size.size for blocks in (p.blocks, p.reward_blocks)]
        return math.log(sets[0] / (share * (1.0 - rewards))), math.log(sets[1] / (share * REWARD_SHARE))

    def _bonus(self) -> int:
        stored = self.sets != "online"
        return SHARP if (self.options.get("bonus") or ("sharp" if stored else "taylor")) == "sharp" else TAYLOR

    def _closely(self) -> bool:
        """Whether plans are certified by their shortfall, step by step."""
        return bool((self.options.get("certificates") or ("plain" if self.sets == "online" else "close")) == "close")

    def _settle(self) -> None:
        o = self.options
        self.watch_kernel = watch_local if self.uses_sets else watch_values
        self._judges: dict[Any, Any] = {}  # of `certify`, compiled at their first use
        self._renews: Any = None  # likewise the kernel of `refresh`
        if self._lottery() > 0:
            if self.plan_kernel is not self.own_plan:
                raise ValueError("plans must be 1 and floor 0 in a class with a plan_kernel of its own")
            self.plan_kernel = self.lottery_kernel
            self.doubt_kernel, self.belief_kernel = doubt_lottery, unsure_lottery
        if isinstance(self.problem.link, LinearCombination) and self.sets != "online":
            raise ValueError(f'sets must be "online" under LinearCombination, got {check.shown(self.sets)}')
        if self.problem.design is not None and (self.sets == "stored-plain" or self.form != "full"):
            raise ValueError('sets must be "online" or "stored" and form "full" where the problem has a design')
        for name in ("regularization", "reward_regularization"):
            if o.get(name) is not None:
                o[name] = check.positive(name, o[name], least=LEAST_REGULARIZATION * self.problem.context_bound**2)

    def _kept(self) -> float:
        (S, A, M), d = self.problem.layout.outcomes.shape, self.problem.context_dim
        logit, stored = isinstance(self.problem.link, MultinomialLogit), self.sets != "online"
        one = 1.5 * ((M - 1) * d) ** 2 if logit and self.form == "full" else 2.0 * d * d
        sets = 6.0 * (M * d) ** 2 if stored else one
        drawn = 2.0 * self.draws * M * self.draws_models
        pair = sets * self.uses_sets + one * self.draws_models + M * M + 4 * d * d + drawn
        pair += 2.0 * self.problem.horizon * self.uses_sets  # Q of optimism, at every step
        pair += 400.0 * (self.uses_sets + self.draws_models)  # what takes up eight places whatever the sizes
        if self.problem.blocks is not None:
            return float(S * A * (M * M + 4 * d * d + drawn + 800.0) + self._kept_by_blocks(self.problem.blocks))
        return float(S * A * pair + 30.0 * (M * d) ** 2 * (stored and self.uses_sets))

    def _kept_by_blocks(self, blocks: Blocks) -> float:
        """What the sets of blocks take up."""
        n, E = blocks.column.shape
        stored = self.sets != "online" and self.uses_sets
        sets = (8.0 * n + 32.0) if stored else 2.0 * n * self.uses_sets
        return float(E * E * (sets + 2.0 * n * self.draws_models))

    def build(self) -> tuple[SetPar, SetState, SetWork]:
        p, f = self.problem, np.zeros
        (S, A, M), H, d = p.layout.outcomes.shape, p.horizon, p.context_dim
        keeps = self.sets != "online" or (self._reward_form() == "bernstein" and self.uses_sets)
        shared = p.design is not None and self.sets != "online"
        store = empty_store(S, A, H, d, FIRST_ROOM if keeps else 0, shared=shared)
        (mean_par, means), (reward_par, rewards, reward_work) = self._reward_parts(store)
        log_p, linear = self._shares()[0], isinstance(p.link, LinearCombination)
        (sampler_par, sampler, sampler_work), transitions, kernels = self._transition_parts(log_p, store)
        audit_par, audit, audit_work = audit_parts(p, ALONG, kept=self.bets)
        J = self.draws if self.draws_models else 0
        rank = 0 if p.blocks is None else p.blocks.features.shape[3]
        lift = None if p.blocks is None else Lift(sampler_par.columns, p.blocks.block, p.blocks.size.size)
        local, bonus = local_sets(p.layout, lift), self._bonus()
        with announced(f"the planner of {self.name}"):
            close = self.bounds_values and self._closely()
            search, search_work = search_parts(
                p.layout, local, self.seed, bonus, self._perturbations(), H if close else 0,
                bounds=self.uses_sets, close=close,
            )  # fmt: skip
            apart = p.design is None and p.reward_design is None  # so that errors of pairs are independent
            explores = search
            if self.explores:
                explores = search_parts(p.layout, local, self.seed, TAYLOR, bounds=False, ways=apart)[0]
        par = SetPar(
            seed=self.seed, layout=p.layout, starts=p.starts, describe=EMPTY, derive=EMPTY, outcomes=EMPTY, draw=EMPTY,
            believe=EMPTY, trust=EMPTY, begin=EMPTY, propose=EMPTY, lifted=EMPTY, planner=planner_address(p.layout),
            several=EMPTY, best_draw=EMPTY, proposals=EMPTY, zero=EMPTY, search=search, search_to_explore=explores,
            transitions=transitions[0], sampler=sampler_par, audit=audit_par, bets=EMPTY, rewards=reward_par,
            means=mean_par, log_transition=log_p,
            logits=int(not linear), scale=self.bonus_scale, kappa=self.gate_kappa,
            kappa_growth=self.gate_growth, posterior_scale=self.posterior_scale,
            steep=steepness(p, lift) if self._begins_by_contexts() else 0.0, floor=self.floor,
            certify=int(self.bounds_values), close=int(close), estimates=int(self._estimates()),
        )  # fmt: skip
        chance = chance_state(S if self.explores and apart else 0, A)
        gate = np.zeros(RUNGS + 2, np.int64)
        state = SetState(transitions[1], sampler, rewards, means, store, gate, audit, chance)
        table, value = (S, A), (H + 1, S)
        work = SetWork(
            transitions=transitions[2], sampler=sampler_work, rewards=reward_work, local=local,
            derive=local_work(M, rank), search=search_work, mean=f(table), hope=f(table), deviation=f(table),
            share=f(table), P=f((J, S, A, M)), r=f((J, S, A)), normal=f((2, (normals_needed(p, J) + 1) // 2)),
            policy=np.zeros((H, S), np.int64), values=f(value), upper=f(value), lower=f(value), short=f(value),
            Q=f(table), none=f((0, 0, 0)), squares=f((2, M, M)), shared=draw_work(p), tail=f((4, S)), audit=audit_work,
            lottery=lottery_work(p, self._lottery()), zero=zero_work(p, reward_par, close and counts(p, reward_par)),
        )  # fmt: skip
        return self._with_kernels(par, state, work, kernels), state, work

    def _with_kernels(self, par: SetPar, state: SetState, work: SetWork, kernels: tuple[Any, Any]) -> SetPar:
        """par with what fills its slots; kernels: what describes an individual, and what draws models."""
        p, f, linear = self.problem, np.zeros, isinstance(self.problem.link, LinearCombination)
        H, d = p.horizon, p.context_dim
        with announced(f"the sets of {self.name}"):
            if self.uses_sets and not linear:
                fill = derive if p.design is None else derive_shared
                par = par._replace(derive=apply_derive.fill(fill, work.local, p.layout, 0.0, work.derive, 0, 0))
            if not linear and (self.draws_models or self.sets == "online"):
                path = Trajectory(work.policy[0], work.policy[0], f(H))
                learn = learn_kron_outcomes if self.form == "kron" else learn_outcomes
                learn = learn if p.design is None else learn_shared_outcomes
                like = p.layout, par.sampler, state.sampler, work.sampler, f(d), 0, path
                par = par._replace(outcomes=apply_outcomes.fill(learn, *like))
            if self.bets:
                par = par._replace(bets=self._bets(par, state, work))
            self._draw_kernel = kernels[1]
            own = self.plan_kernel is self.own_plan or self._lottery() > 0
            if self.draws_models and not (self.explores and own):
                par = self._with_draws(par, state, work)
            if self.uses_sets:
                par = par._replace(describe=apply_describe.fill(kernels[0], par, state, work, f(d), 0))
            if par.close == 1 and counts(p, par.rewards):
                par = par._replace(zero=apply_zero.fill(from_zero, par, state, work, f(d), work.policy))
            if self.explores:
                par = with_belief(p, par, state, work)
                args = par, state, work, f(d), 0, work.policy, work.values
                if self._lottery() == 0:
                    par = par._replace(propose=apply_propose.fill(explore, *args))
            if self._lottery() > 0:
                several, out = explore_several if self.explores else draw_several, buffers(p, self._lottery())[0]
                par = par._replace(proposals=apply_proposals.fill(several, par, state, work, f(d), 0, out))
        return par

    def _with_draws(self, par: SetPar, state: SetState, work: SetWork) -> SetPar:
        """par with what draws from the posterior in its slots: for plans that explore otherwise it is compiled when a
        draw is asked for."""
        x = np.zeros(self.problem.context_dim)
        if self.problem.reward_design is not None:
            par = par._replace(lifted=call_lifted.fill(draw_lifted, par, state, work, x, 0))
        return par._replace(draw=apply_draw.fill(self._draw_kernel, par, state, work, x, 0, 0))

    _model_of, _fitted, _drawn_weights = local_model, local_weights, drawn_weights

    def believer(self) -> Any:
        return self if self.draws_models else None

    def certifier(self) -> Any:
        return self if self.certifies else None

    def prepare_doubt(self) -> None:
        if self.par.draw == EMPTY:
            with announced(f"posterior draws of {self.name}"):
                self.par = self._with_draws(self.par, self.state, self.work)

    @property
    def explores(self) -> bool:
        """Whether plans explore by a random part of the uncertainty, not by a draw."""
        return self.draws_models and self.exploration == "adaptive"

    def _estimates(self) -> bool:
        """Whether mean rewards are estimated, beside their ranges."""
        return self.draws_models or self.bonus_scale != 1.0

    def _reward_parts(self, store: Store) -> tuple[Any, Any]:
        """(par, state) of the estimates, and (par, state, work) of the ranges, with compiled kernels."""
        p, form, lam = self.problem, self._reward_form(), self.options.get("reward_regularization")
        estimate: Any = estimated(p)
        if self.explores:
            estimate = "laplace" if p.rewards == "logistic" else "calibrated"
        mean_par, means, _ = reward_parts(p, estimate, 0.0, lam, "reward_regularization", shared=True)
        lam = lam if form in ("ridge", "logistic") else None  # the others mix over many
        par, state, work = reward_parts(p, form, self._shares()[1], lam, shared=True)
        with announced(f"the rewards of {self.name}"):
            par = with_kernels(par, state, work, *(("learn", "ranges") if self.uses_sets else ("learn",)))
            par = with_refresh(par, state, work, store)
            if self._estimates():
                mean_par = with_kernels(mean_par, means, work, "learn", "posterior")
        return (mean_par, means), (par, state, work)

    def _transition_parts(self, log: float, store: Store) -> tuple[Any, Any, Any]:
        """Parts of the sampler, parts of the sets, and the kernels that describe and draw; log = ln(1/delta) of a
        set."""
        p, lam = self.problem, self.options.get("regularization")
        d, count = p.context_dim, p.layout.count
        linear, natural = isinstance(p.link, LinearCombination), d / p.weight_bound**2
        options: Any = {"predictor": PREDICTORS.index(self.predictor), "kron": self.form == "kron"}
        drawn = self.draws_models and not linear
        if p.blocks is not None:
            return self._shared_parts(p.blocks, log, store)
        waits = self._begins_by_contexts()
        sampler = likelihood_parts(
            count, d, p.weight_bound, log, lam or natural, posterior=True, kept=drawn, waits=waits, **options
        )
        sets: Any
        if linear:
            self.learn_kernel = learn_linear
            return sampler, sign_union_parts(count, d, lam, log), (describe_linear, draw_linear)
        if self.sets != "online":
            self.learn_kernel, self.renew_kernel = learn_stored, renew_stored
            kind = "mixture" if self.sets == "stored" else "plain"
            sets = mixture_parts(count, d, p.weight_bound, p.context_bound, kind, lam, store)
            return sampler, sets, (describe_stored, draw_logit)
        self.learn_kernel = learn_online
        least = max(SETS_TIMES * natural, LEAST_REGULARIZATION * p.context_bound**2)
        sets = likelihood_parts(count, d, p.weight_bound, log, lam or least, kept=self.uses_sets, **options)
        return sampler, sets, (describe_online, draw_logit)

    def _shared_parts(self, blocks: Blocks, log: float, store: Store) -> tuple[Any, Any, Any]:
        """`_transition_parts` where pairs share weights; log = ln(1/delta) of a block's set."""
        p, lam = self.problem, self.options.get("regularization")
        natural = natural_regularization(blocks)
        least = LEAST_REGULARIZATION * (p.context_bound * largest_feature(blocks, p.layout)) ** 2
        given = np.maximum(natural, least) if lam is None else np.full(blocks.size.size, max(float(lam), least))
        head, predictor = (blocks, p.layout, p.weight_bound, log), PREDICTORS.index(self.predictor)
        lift = lift_of(blocks, p.layout)
        sampler = shared_parts(*head, given, predictor=predictor, posterior=True, kept=self.draws_models, lift=lift)
        sets: Any
        if self.sets != "online":
            self.learn_kernel, self.renew_kernel = learn_mixed, renew_mixed
            sets = block_mixture_parts(blocks, p.layout, p.weight_bound, p.context_bound, store, lam)
            return sampler, sets, (describe_mixed, draw_shared)
        self.learn_kernel = learn_online
        if lam is None:
            given = np.maximum(SETS_TIMES * natural, least)
        sets = shared_parts(*head, given, predictor=predictor, kept=self.uses_sets, lift=lift)
        return sampler, sets, (describe_shared, draw_shared)

    def _begins_by_contexts(self) -> bool:
        """Whether the posterior's lambda is at least what the first context asks for."""
        told = self.options.get("regularization") is not None
        return self.explores and not told and not isinstance(self.problem.link, LinearCombination)

    def _perturbations(self) -> float:
        """J of perturbed bonuses; 0: bonuses as they are."""
        return 0.0

    def _lower(self) -> Floats | None:
        return self.work.lower.copy() if self.certifies else None

    def _renew(self) -> None:
        if self._room_in(self.state) > 0:
            if self._renews is None:
                with announced(f"the refreshes of {self.name}"):
                    self._renews = direct(self.renew_kernel, self.par, self.state, self.work)
            self._renews(self.par, self.state, self.work)

    def _gap(self, upper: Floats, lower: Floats) -> float:
        return float(self.work.short[0][self.problem.starts].max()) if self.par.close else super()._gap(upper, lower)

    def _must_certify(self, verb: str) -> None:
        if not self.certifies:
            raise ValueError(f"{verb}: {self.label} keeps no valid sets, it certifies nothing")
        if self.refuted is not None:
            raise RuntimeError(f"{verb}: nothing can be certified, {self.refuted}")

    @locked
    def certify(self, x: ArrayLike, policy: ArrayLike) -> Plan:
        """Bounds for an individual with context x [d] who is treated by any policy: actions [H, S], or probabilities of
        actions [H, S, A].

        The plan's upper [H+1, S] bounds the optimal values, `values` and lower [H+1, S] the policy's own from above and
        below, certificate its shortfall from optimal at any initial state the problem allows (never more than upper -
        lower there, and less where a shortfall can be followed step by step, `planning.optimism.shortfall`, or where
        rewards have a design and what is not known of them is common to all policies, `agents.local.zero`): with
        probability 1 - delta for all individuals, policies and times at once, as long as each policy was fixed before
        its individual's outcomes were seen. Nothing is learned or changed."""
        self._must_certify("certify")
        return certified(self, self.problem.context(x), policy)

    def ellipsoids(self) -> list[tuple[Floats, Floats, float]]:
        """(centre [p], matrix [p, p], squared radius) of the set of every block of the design."""
        state, blocks, made = self.state.transitions, self.problem.blocks, []
        for b, n in enumerate(blocks.start[:, -1]):  # type: ignore[union-attr]
            kept = hasattr(state, "gram")
            matrix = state.gram[b, :n, :n].copy() if kept else np.linalg.inv(state.inverse[b, :n, :n])
            made.append((state.weights[b, :n].copy(), 0.5 * (matrix + matrix.T), float(state.radius[b]) * (1.0 + 1e-6)))
        return made

    @locked
    def compare(
        self,
        policy: Any,
        other: Any = None,
        contexts: ArrayLike = (),
        *,
        weights: ArrayLike | None = None,
        start: Any = None,
        since: int | None = None,
        until: int | None = None,
        delta: float = 0.01,
    ) -> Comparison:
        """How much better one policy is than another, on average over people: an interval with its rung.

        policy     actions [H, S] for everybody, [N, H, S] for each of them, or a function from a context to one
        other      likewise; None: the value of `policy` itself
        contexts   [N, d], the people asked about: those over sixty, say
        weights    of these people, None: equal. start: a state or a distribution [S]; None: the one initial state
        since      for a question that stands, with sets="stored": its policies, people and start were fixed before
                   person number `since` came. What came after says more in its direction, on an event of probability
                   1 - `delta` besides, one event for each such question and `since`. Nothing can check that they were
                   fixed; if they were not, nothing is proved. For one question, 0.01 for the agent and 0.04 here are
                   better than 0.05 and 0.01 where there are many people. People must have been learned in the order
                   in which they came
        until      about how many people will have come when the answer matters most, fixed together with the question.
                   The answer is up to a tenth narrower then, wider far from then, and holds at all times

        With the agent's probability 1 - delta the truth is in it, for all questions without `since` at all times at
        once, whatever the policies and people were chosen by. Where the problem has a design, all of its weights are
        taken together (docs/joint.md): that is what makes a mean over people sharp. Without one, bounds for every
        person alone are added up.

        >>> import noregret as nr
        >>> world = nr.worlds.programme(context_dim=4)
        >>> agent = nr.LRORL(world.problem)
        >>> agent.learn_from(world.log(300, seed=1))
        300
        >>> people = [world.context(2, k) for k in range(20)]
        >>> found = agent.compare(lambda x: world.optimal(x).policy, world.rule, people, start=world.initial_state)
        >>> found.lower <= found.upper, found.rung
        (True, 'proved')
        """
        self._must_certify("compare")
        aimed = standing_of(self, since, until, delta)
        return compared(self, Asked(policy, other, contexts, weights, start, aimed))
