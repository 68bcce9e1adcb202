"""A population: true weights, contexts, initial states, exact values. Knows nothing of agents."""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import checks as check
from ..beliefs.point import NONE
from ..checks import Floats
from ..compiler.memory import apart
from ..planning.bellman import UNCLIPPED, Model, Operator, Solution, backward_induction, evaluate, planner_address
from ..planning.plans import Plan
from ..planning.randomised import evaluate_chances
from ..problem.links import LinearCombination
from ..problem.log import Log
from ..problem.masks import Mask, allowed_actions
from ..problem.policies import action_chances, is_randomised
from ..problem.problem import Problem
from .contexts import Adversary, Contexts, Simplex, Sphere, Table
from .individual import Individual
from .logs import mixed, recorded
from .starts import InTurn, StartsByContext, allowed, distribution
from .truth import Truth, draw_starts

_SLACK = 1e-9
_MET = 10_000  # people whose masks are kept


class World:
    """A population: `problem`, true weights, a source of contexts, and where episodes start.

    weights          [S, A, S', d], rows outside the support are ignored; or [S, A, M, d], M < S the largest number of
                     supported next states: row j of a pair for the j-th of them (`Problem.layout`). Logit: the
                     last supported row of each pair is subtracted from the others (the distributions do not change),
                     then every row obeys weight_bound.
                     Linear: each column weights[s, a, :, j] is a distribution over the support.
    reward_weights   theta [S, A, d]: mean rewards theta'x, in the problem's reward_range for every context that occurs,
                     or sigma(theta'x) where its rewards are logistic. None: the problem's known rewards. A reward is
                     drawn low or high, the ends of the range, with the pair's mean
    contexts         a source from `noregret.contexts`, rows [m, d] to draw from, or a function (seed, episode, agent)
                     -> [d]. Default: the simplex for the linear link, the sphere of radius context_bound otherwise
    initial_state    a state, a distribution [S], a function (seed, episode) -> state, such as `worlds.InTurn`, or
                     `worlds.StartsByContext`, for one that depends on who comes
    misspecified     True: the weights need not keep to the problem's designs (their bounds on rows still count): for
                     studies of wrong assumptions
    clip             True: mean rewards outside the range are moved to its nearest end, as agents do with estimates, not
                     refused: for worlds made from a fitted model (`agent.world`)
    unavailable      function from a context to the actions that somebody with it cannot get, as
                     `Agent.begin_episode` takes them; None: everybody can get everything. `simulate` tells the agent,
                     and the optimum is that of what is left
    rule             what is done today, actions [H, S] by number or name, the same for everybody: who logs (`log`)

    Episodes are numbered from 0. Everything random is a function of (seed, episode, step).

    >>> import numpy as np
    >>> import noregret as nr
    >>> problem = nr.Problem(n_states=2, n_actions=2, horizon=3, context_dim=2, weight_bound=2.0, reward_bound=1.5)
    >>> weights = np.zeros((2, 2, 2, 2))
    >>> weights[:, 1, 1] = [0.0, 2.0]  # action 1 leads to state 1 for those with a positive second feature
    >>> reward_weights = np.zeros((2, 2, 2))
    >>> reward_weights[1] = [1.2, 0.0]  # where rewards are
    >>> world = nr.World(problem, weights, reward_weights, contexts=[[0.8, 0.6], [0.8, -0.6]])
    >>> world.transitions([0.8, 0.6])[0].round(2)  # [A, S'] of state 0
    array([[0.5 , 0.5 ],
           [0.23, 0.77]])
    >>> [world.optimal(x).policy[0, 0].item() for x in world.contexts.support]
    [1, 0]
    """

    def __init__(
        self,
        problem: Problem,
        weights: ArrayLike,
        reward_weights: ArrayLike | None = None,
        contexts: Contexts | ArrayLike | Callable[[int, int, Any], ArrayLike] | None = None,
        initial_state: int | str | ArrayLike | Callable[[int, int], int] | StartsByContext = 0,
        name: str = "world",
        misspecified: bool = False,
        *,
        rule: ArrayLike | None = None,
        clip: bool = False,
        unavailable: Callable[[Floats], Any] | None = None,
    ) -> None:
        check.instance("problem", problem, Problem, "a noregret.Problem")
        self.problem, self.name, self.clip = problem, name, check.flag("clip", clip)
        self.slots = _canonical(problem, problem.slots_of("weights", weights))
        self.slots.setflags(write=False)
        self.reward_weights = self._rewards(reward_weights)
        self.misspecified = check.flag("misspecified", misspecified)
        if not self.misspecified:
            _within(problem.design, "weights", self.slots, problem)
            _within(problem.reward_design, "reward_weights", self.reward_weights[:, :, None], problem)
        self.contexts = self._source(contexts)
        self.initial_state, self._fill_starts = initial_state, self._starter(initial_state)
        if unavailable is not None and not callable(unavailable):
            raise ValueError(f"unavailable must be a function of a context, or None, got {check.shown(unavailable)}")
        self.unavailable = unavailable
        self._met: dict[bytes, Mask] = {}  # what is left to whom
        self.rule = None if rule is None else problem.policy(rule, "rule")
        if self.rule is not None:
            self.rule.setflags(write=False)

    def __repr__(self) -> str:
        p = self.problem
        return f"<World {self.name}: S={p.n_states} A={p.n_actions} H={p.horizon} d={p.context_dim}, {p.link!r}>"

    @cached_property
    def weights(self) -> Floats:
        """The weights [S, A, S', d], 0 outside the support: made when first asked for, since they may be large.
        `slots`, [S, A, M, d], are the same without what is not supported."""
        if self.problem.layout.dense:
            return self.slots
        made: Floats = self.problem.from_slots(self.slots)
        made.setflags(write=False)
        return made

    @property
    def stored(self) -> Floats:
        """The weights as a `World` and the oracle take them, in the smaller of the two forms."""
        return self.slots if self.slots.shape[2] < self.problem.n_states else self.weights

    def _rewards(self, given: Any) -> Floats:
        p = self.problem
        known: Any = p.known_rewards
        if given is None and known is None:
            raise ValueError("reward_weights must be given: the problem has no known rewards")
        made = p.reward_weights("reward_weights", known if given is None else given)
        if known is not None and not np.array_equal(made[p.layout.available], known[p.layout.available]):
            raise ValueError("reward_weights must be None or the problem's known_rewards, they differ")
        return made

    def _source(self, contexts: Any) -> Contexts:
        p = self.problem
        source: Contexts
        if contexts is None:
            linear = isinstance(p.link, LinearCombination)
            source = Simplex(p.context_dim) if linear else Sphere(p.context_dim, p.context_bound)
        elif isinstance(contexts, Contexts):
            source = contexts
        elif callable(contexts):
            source = Adversary(p.context_dim, contexts)
        elif isinstance(contexts, np.ndarray | list | tuple):
            source = Table(check.rows("contexts", contexts))
        else:
            raise ValueError(f"contexts must be a source, rows [m, d] or a function, got {check.shown(contexts)}")
        if source.dim != p.context_dim:
            raise ValueError(f"contexts must have dimension context_dim = {p.context_dim}, got {source.dim}")
        if source.support is not None:
            for i, x in enumerate(p.contexts(source.support)):
                self._means(x, f"contexts[{i}]")
        elif not isinstance(source, Adversary):  # a first look; every context is checked when it is met
            X = np.empty((8, p.context_dim))
            source.fill(0, 0, X)
            for i, x in enumerate(p.contexts(X)):
                self._means(x, f"context {i}")
        return source

    def _means(self, x: Floats, name: str = "context") -> Floats:
        """Mean rewards [S, A], clipped against rounding."""
        r = self.reward_weights @ x
        if self.problem.rewards == "logistic":
            return np.asarray(1.0 / (1.0 + np.exp(-r)), dtype=np.float64)
        scale = self.problem.scale
        inside = scale.inside(r)
        bad = np.argwhere(self.problem.layout.available & ((inside < -_SLACK) | (inside > 1 + _SLACK)))
        if bad.size and not self.clip:
            (s, a), (low, high) = bad[0], scale
            raise ValueError(
                f"reward_weights[{s}, {a}] give mean reward {r[s, a]:.6g} at {name}, outside [{low:g}, {high:g}]"
            )
        return np.asarray(np.clip(r, scale.low, scale.high), dtype=np.float64)

    def _starter(self, value: Any) -> Callable[[int, int, NDArray[np.int64], Floats | None], None]:
        """A function (seed, first, out [n], X) that fills in the initial states of consecutive episodes; X [n, d] are
        their contexts, None: the world's own."""
        p = self.problem
        if isinstance(value, StartsByContext):

            def met(seed: int, first: int, out: NDArray[np.int64], X: Floats | None) -> None:
                if X is None:
                    X = np.stack([self.context(seed, first + i) for i in range(out.size)])
                value.fill(p, seed, first, X, out)

            return met
        if isinstance(value, InTurn):
            for s in np.unique(value.states):
                allowed(p, p.state(int(s), "initial_state"))
            return lambda seed, first, out, X: value.fill(seed, first, out)
        if callable(value):

            def ask(seed: int, first: int, out: NDArray[np.int64], X: Floats | None) -> None:
                for i in range(out.size):
                    out[i] = allowed(p, p.state(value(seed, first + i), "initial_state"))

            return ask
        if check.alone(value):
            s = allowed(p, p.state(value, "initial_state"))
            return lambda seed, first, out, X: out.fill(s)
        weights = distribution("initial_state", value, p.n_states)
        for s in np.flatnonzero(weights):
            allowed(p, int(s))
        edges = np.cumsum(weights)
        return lambda seed, first, out, X: draw_starts(seed, first, edges, out)

    def fill_starts(self, seed: int, first: int, out: NDArray[np.int64], X: Floats | None = None) -> None:
        """out [n] <- initial states of episodes first, first + 1, ... with contexts X [n, d]; None: the world's own."""
        self._fill_starts(seed, first, out, X)

    # The individual -----------------------------------------------------------------------------------------------
    def start(self, seed: int, episode: int, context: ArrayLike | None = None) -> int:
        """The initial state of an episode; context [d]: of whoever comes, None: as the world has it."""
        out = np.zeros(1, np.int64)
        seed, episode = check.integer("seed", seed, 0), check.integer("episode", episode, 0)
        self.fill_starts(seed, episode, out, None if context is None else self.problem.context(context)[None])
        return int(out[0])

    def context(self, seed: int, episode: int) -> Floats:
        """The context of an episode, [d] (an adversary is told of no agent)."""
        x = np.empty((1, self.problem.context_dim))
        seed, episode = check.integer("seed", seed, 0), check.integer("episode", episode, 0)
        self.contexts.fill(seed, episode, x)
        return self.problem.context(x[0])

    def transitions(self, x: ArrayLike) -> Floats:
        """P(s'|s, a) for context x, [S, A, S']."""
        made: Floats = self.problem.from_slots(self._transitions(x))
        return made

    def _transitions(self, x: ArrayLike) -> Floats:
        """The same slot by slot, [S, A, M]."""
        p, x = self.problem, self.problem.context(x)
        rows = (self.slots @ x).reshape(-1, self.slots.shape[2])
        p.link.gradient(rows, p.layout.count.ravel())
        return rows.reshape(self.slots.shape[:3])

    def rewards(self, x: ArrayLike) -> Floats:
        """Mean rewards for context x, [S, A]."""
        return self._means(self.problem.context(x))

    def group_norm(self) -> float:
        """Largest sum of the columns' 2-norms of any available pair's weights, as learners keep them: centred rows for
        shift-invariant links, differences from 1/m for the linear one."""
        count, _, available = self.problem.layout[:3]
        link, live = self.problem.link, (np.arange(self.slots.shape[2]) < count[..., None])[..., None]
        rows = self.slots
        if link.coordinates_for("corrected") == "centred" or isinstance(link, LinearCombination):
            middle = rows.sum(2, where=live, keepdims=True) / count[..., None, None]
            if isinstance(link, LinearCombination):
                middle = 1.0 / count[..., None, None]
            rows = np.where(live, rows - middle, 0.0)
        return float(np.linalg.norm(rows, axis=2).sum(-1)[available].max())

    def allowed(self, x: ArrayLike) -> Mask:
        """What somebody with context x can get, bool [S, A]."""
        if self.unavailable is None:
            return self.problem.layout.available.copy()
        given = self.problem.context(x)
        key = given.tobytes()
        if key not in self._met:
            made = allowed_actions(self.problem, self.unavailable(given.copy()))
            if len(self._met) >= _MET:
                self._met = {}
            self._met[key] = made
        return self._met[key].copy()

    def optimal(self, x: ArrayLike) -> Plan:
        """Optimal policy and values for context x, of what somebody with it can get."""
        p = self.problem
        H, S, A = p.horizon, p.n_states, p.n_actions
        policy, values, none = np.zeros((H, S), np.int64), np.zeros((H + 1, S)), np.zeros((0, 0, 0))
        P, r, key = self._transitions(x), p.scale.inside(self.rewards(x)), np.uint64(0)
        backward_induction(
            p.layout._replace(available=self.allowed(x)),
            Model(P, r, r, none),
            Operator(NONE, UNCLIPPED, key),
            Solution(np.zeros((S, A)), policy, values),
        )
        values = p.scale.values(values)
        return Plan(policy, values, values, values, problem=p)

    def checked(self, policy: Any, name: str = "policy") -> NDArray[np.int64]:
        """`policy` as int64 actions [H, S] of its own, all of them available."""
        return self.problem.policy(policy, name)

    def values(self, policy: ArrayLike, x: ArrayLike) -> Floats:
        """Exact values of a policy for context x, [H+1, S]: actions [H, S], or probabilities of actions [H, S, A]."""
        p = self.problem
        values, model = np.zeros((p.horizon + 1, p.n_states)), (self._transitions(x), p.layout, self.rewards(x))
        if is_randomised(policy):
            evaluate_chances(*model, action_chances(p, policy), values)
        else:
            evaluate(*model, self.checked(policy), values)
        return values

    def value(self, policy: ArrayLike, x: ArrayLike, state: int | None = None) -> float:
        """Exact value of a policy at the initial state (given, or the world's fixed one or distribution)."""
        values = self.values(policy, x)[0]
        if state is None and isinstance(self.initial_state, StartsByContext):
            return float(values @ self.initial_state.distribution(self.problem, self.problem.context(x)))
        if state is None and callable(self.initial_state):
            raise ValueError("state must be given: the initial state of this world is a function of the episode")
        if state is None and np.ndim(self.initial_state) == 1:  # type: ignore[arg-type]
            return float(values @ np.asarray(self.initial_state, float))
        return float(values[self.problem.state(self.start(0, 0) if state is None else state)])

    def individual(self, episode: int = 0, seed: int = 0) -> Individual:
        """One individual, to be met step by step: for trying a live agent by hand."""
        return Individual(self, check.integer("episode", episode, 0), check.integer("seed", seed, 0))

    def log(self, people: int, seed: int, explore: float = 0.25, rule: ArrayLike | None = None) -> Log:
        """The first so many individuals of that seed, treated by a rule: actions [H, S], None for the world's own. At
        every step, with chance `explore`, an available action is taken at random instead, all of them equally likely;
        `log_chances` has the probabilities. Where somebody cannot get what the rule says (`unavailable`), it is the
        first action that they can. For `agent.learn_from`.

        Take another seed than that of the runs that follow: the same seed means the same people, and the same luck.

        >>> import noregret as nr
        >>> world = nr.worlds.programme()
        >>> log = world.log(people=200, seed=1)
        >>> len(log), log.steps
        (200, 1600)
        >>> nr.PSRLGLM(world.problem).learn_from(log)
        200
        """
        count, seed = check.integer("people", people), check.integer("seed", seed, 0)
        return recorded(self, count, seed, check.fraction("explore", explore), self._rule(rule))

    def log_chances(self, explore: float = 0.25, rule: ArrayLike | None = None) -> Floats:
        """The probability [H, S, A] of every action in `log`."""
        if self.unavailable is not None:
            raise ValueError("log_chances are not those of everybody here: see the probabilities of the log")
        return mixed(self.problem.layout.available, self._rule(rule), check.fraction("explore", explore))

    def _rule(self, given: Any) -> NDArray[np.int64]:
        if given is not None:
            return self.checked(given, "rule")
        if self.rule is None:
            raise ValueError("rule must be given: the world has none of its own")
        return self.rule

    def truth(self, seed: int) -> Truth:
        """What the compiled loop needs, with scratch of its own."""
        p, f = self.problem, np.zeros
        S, A, M = p.layout.outcomes.shape
        shape = (p.horizon + 1, S)
        addresses = p.link.gradient_address(), planner_address(p.layout)
        weights: Any = (
            self.slots.copy(),
            self.reward_weights / p.scale.unit,
            int(p.rewards == "logistic"),
            p.scale.offset,
            int(self.clip),
        )
        policy = np.zeros((p.horizon, S), np.int64)
        scratch: Any = f((S, A, M)), f((S, A)), f((S, A)), f((0, 0, 0)), policy, *(f(shape) for _ in range(3))
        more: Any = (f((p.horizon, S, A)),)
        made: Truth = apart(Truth(*addresses, seed, p.layout, *weights, *scratch, *more))
        return made


def _within(design: Any, name: str, weights: Floats, p: Problem) -> None:
    """A sentence where weights [S, A, ., d] are not those of a design, or of none within its bounds."""
    if design is None:
        return
    norms, residual = design.fitted(weights, p.layout)
    if residual > _SLACK * (1.0 + float(np.abs(weights).max())):
        raise ValueError(
            f"{name} must be those of the problem's design, a row differs by {residual:.3g} (or misspecified=True)"
        )
    b = int(np.argmax(norms / design.bound))
    if norms[b] > design.bound[b] * (1.0 + _SLACK):
        raise ValueError(
            f"{name} need a theta of norm {norms[b]:.6g} in {design.block_names[b]}, above the bound "
            f"{design.bound[b]:g}"
        )


def _canonical(p: Problem, W: Floats) -> Floats:
    """Slots [S, A, M, d] in the representation the bounds are about; checked."""
    count, outcomes, available = p.layout[:3]
    used = np.arange(outcomes.shape[2]) < count[..., None]
    if p.link.coordinates != "free":
        W = W - np.take_along_axis(W, (count - 1)[..., None, None], axis=2)
        W[~used] = 0.0
    live = used & available[..., None]
    if isinstance(p.link, LinearCombination):
        totals = W.sum(2)
        low = np.where(live, W.min(-1), 0.0)
        bad = np.argwhere(available & ((np.abs(totals - 1) > _SLACK).any(-1) | (low < -_SLACK).any(-1)))
        if bad.size:
            s, a = (int(i) for i in bad[0])
            raise ValueError(
                f"weights[{s}, {a}, :, j] must be a distribution over the support for every base MDP j under "
                f"LinearCombination, got sums {totals[s, a].round(6).tolist()} and smallest entry {W[s, a].min():.6g}"
            )
    norms = np.where(live, np.linalg.norm(W, axis=-1), 0.0)
    if norms.max() > p.weight_bound * (1 + _SLACK):
        s, a, j = (int(i) for i in np.unravel_index(norms.argmax(), norms.shape))
        raise ValueError(
            f"weights[{s}, {a}, {outcomes[s, a, j]}] has norm {norms[s, a, j]:.6g}, above weight_bound = "
            f"{p.weight_bound:g}"
            + (" (after subtracting the last supported outcome's row)" if p.link.coordinates != "free" else "")
        )
    return np.ascontiguousarray(W)
