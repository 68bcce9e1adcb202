"""What the learner is told: sizes, the link, the bounds of the assumptions, and what is possible at all.

`Problem` is shared by the truth (a `World`) and by the learner (an agent); it holds no weights.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import checks as check
from .design import Blocks, Design, RewardDesign
from .layout import Layout, full_layout, listed_support, masked_layout, used_slots
from .links import EXP_LIMIT, LinearCombination, Link, MultinomialLogit
from .scale import RewardScale, reward_scale

_TOLERANCE = 1e-9  # slack for entries of the simplex, which users may have rounded
_ROUNDING = 1e-12  # slack for norms
_LEAST_BOUND, _LARGEST_BOUND = 1e-12, 1e12  # their squares and fourth powers are numbers that can be compared

_WHAT = {
    "weight_bound": "every row of transition weights, how strongly a context can move the odds of a next state",
    "reward_bound": "every vector of reward weights, how strongly a context can move a mean reward",
}


def _numbered(must: str, value: Any, names: tuple[str, ...] | None, n: int) -> int:
    """`value` as a number below n, given as one or by its name; `must` begins the sentence that refuses it."""
    if isinstance(value, str) and names and value in names:
        return names.index(value)
    if isinstance(value, int | np.integer) and not isinstance(value, bool) and 0 <= value < n:
        return int(value)
    named = f" or one of {', '.join(names)}" if names else ""
    raise ValueError(f"{must} number from 0 to {n - 1}{named}, got {check.shown(value)}")


@dataclass(frozen=True, eq=False)
class Problem:
    """S states, A actions, horizon H, contexts in R^d, next states through `link`, mean rewards from theta_sa'x.

    context_bound   R:   ||x||_2 <= R for every context
    weight_bound    B_p: every row of every W_sa has 2-norm at most B_p; for the logit link after the last supported
                    outcome's row has been subtracted. Must be given, unless LinearCombination implies it (sqrt(d))
    reward_bound    B_r: ||theta_sa||_2 <= B_r. Must be given, unless known_rewards imply it (their largest norm)
    support         bool [S, A, S'] or None: next states that can occur at all; or the states themselves, integers
                    [S, A, m] with -1 in unused places (large sparse problems). Actions that are not available need none
    available       bool [S, A] or None: actions that may be taken
    initial_states  states (numbers or names) an episode may begin in, or None for any: what is promised about a whole
                    episode is promised for these
    rewards         "linear": rewards in reward_range with mean theta_sa'x; "logistic": rewards 0 or 1 with mean
                    1/(1 + exp(-theta_sa'x))
    reward_range    (low, high): no reward lies outside. Costs are (-c, 0). Values, certificates and regret are in the
                    units of rewards, reward_bound and known_rewards, too
    known_rewards   theta [S, A, d] if the mean rewards are known beforehand and need not be learned; None if not
    design          a `Design`: which weights of next states pairs have in common (logit link); None: each has its own.
                    It implies weight_bound; where both are given, both are assumed
    reward_design   a `RewardDesign`, likewise for mean rewards; it implies reward_bound
    long_contexts   "raise", or "rescale" to shrink a context above the bound onto it (LinearCombination: to divide a
                    nonnegative one by its sum). Convenient, and an assumption: the individual is then taken for the
                    one with the rescaled context

    The guarantees hold when these bounds do: they are assumptions, not estimates, and too small a bound makes promises
    false. docs/bounds.md says how to choose them, `suggest_bounds` reads them off an earlier log.

    >>> import noregret as nr
    >>> problem = nr.Problem(
    ...     n_states=3, n_actions=2, horizon=4, context_dim=2, weight_bound=2.0, reward_bound=1.0,
    ...     available=[[True, True], [True, True], [True, False]],
    ...     state_names=("new", "active", "lost"), action_names=("wait", "email"), initial_states=("new",),
    ... )
    >>> problem.n_pairs  # that are available
    5
    >>> problem.action("email", state=problem.state("lost"))
    Traceback (most recent call last):
        ...
    ValueError: action 'email' (1) is not available in state 'lost' (2)
    >>> problem.context([0.9, 0.9])
    Traceback (most recent call last):
        ...
    ValueError: context has norm 1.27279, above context_bound = 1 (rescale it, or set long_contexts="rescale")
    >>> print(problem.describe())
    next states: 20 parameters, every pair has its own
    rewards: 10 parameters, every pair has its own
    """

    n_states: int
    n_actions: int
    horizon: int
    context_dim: int
    link: Link = field(default_factory=MultinomialLogit)
    context_bound: float = 1.0
    weight_bound: float = None  # type: ignore[assignment]  # None: what the link implies, if it does
    reward_bound: float = None  # type: ignore[assignment]  # None: what known_rewards imply, if they are given
    support: ArrayLike | None = field(default=None, repr=False)
    available: ArrayLike | None = field(default=None, repr=False)
    long_contexts: Literal["raise", "rescale"] = "raise"
    rewards: Literal["linear", "logistic"] = "linear"
    known_rewards: ArrayLike | None = field(default=None, repr=False)
    state_names: tuple[str, ...] | None = None
    action_names: tuple[str, ...] | None = None
    feature_names: tuple[str, ...] | None = None
    initial_states: tuple[int | str, ...] | None = None
    design: Design | None = field(default=None, repr=False)
    reward_design: RewardDesign | None = field(default=None, repr=False)
    reward_range: tuple[float, float] = (0.0, 1.0)
    layout: Layout = field(init=False, repr=False)
    blocks: Blocks | None = field(init=False, repr=False, default=None)  # the designs, as estimators take them
    reward_blocks: Blocks | None = field(init=False, repr=False, default=None)

    def __post_init__(self) -> None:
        def put(name: str, value: Any) -> None:
            object.__setattr__(self, name, value)

        for name in ("n_states", "n_actions", "horizon", "context_dim"):
            put(name, check.integer(name, getattr(self, name)))
        if not isinstance(self.link, Link):
            raise ValueError(f"link must be a noregret.Link such as MultinomialLogit(), got {check.shown(self.link)}")
        S, A, d = self.n_states, self.n_actions, self.context_dim
        self._check_size(S if self.support is None else 1)
        put("layout", self._made_layout(put))  # writable arrays: kernels are compiled for one type
        if self.weight_bound is None:
            put("weight_bound", self.link.implied_weight_bound(d))
        if self.reward_bound is None and self.known_rewards is not None:
            put("reward_bound", self._norm_of_known())
        self._take_designs(put)
        self._check_bounds(put)
        check.one_of("long_contexts", self.long_contexts, ("raise", "rescale"))
        check.one_of("rewards", self.rewards, ("linear", "logistic"))
        put("reward_range", tuple(reward_scale(self.reward_range, self.rewards == "logistic")))
        if self.rewards == "logistic" and self.reward_bound * self.context_bound > EXP_LIMIT / 2.0:
            raise ValueError(f"reward_bound * context_bound must be at most {EXP_LIMIT / 2:g} with logistic rewards")
        for name, length in (("state_names", S), ("action_names", A), ("feature_names", d)):
            put(name, check.names(name, getattr(self, name), length))
        if self.initial_states is not None:
            put("initial_states", self._initial_states())
        if self.known_rewards is not None:
            put("known_rewards", self.reward_weights("known_rewards", self.known_rewards))

    def _made_layout(self, put: Callable[[str, Any], None]) -> Layout:
        """The layout; `support` and `available` <- read-only arrays of their own, where they were given."""
        S, A = self.n_states, self.n_actions
        available = np.ones((S, A), bool) if self.available is None else check.mask("available", self.available, (S, A))
        stuck = np.flatnonzero(~available.any(1))
        if stuck.size:
            raise ValueError(f"available must leave at least one action in every state, state {stuck[0]} has none")
        if self.support is None:
            layout = full_layout(available.copy())
        else:
            support, listed = listed_support(check.anything("support", self.support), S, A)
            self._check_size(listed.shape[2])
            nowhere = np.argwhere(available & (listed < 0).all(2))
            if nowhere.size:
                s, a = (int(i) for i in nowhere[0])
                raise ValueError(
                    f"support must leave at least one next state to every available pair, ({s}, {a}) has none"
                )
            support.setflags(write=False)
            put("support", support)
            layout = masked_layout(listed, available.copy())
        if self.available is not None:
            available.setflags(write=False)
            put("available", available)
        return layout

    def _take_designs(self, put: Callable[[str, Any], None]) -> None:
        """Check the designs; `blocks`, `reward_blocks` and the bounds that follow from them."""
        pairs = self.n_states, self.n_actions
        put("context_bound", check.positive("context_bound", self.context_bound))
        for name, kind, blocks, bound in (
            ("design", Design, "blocks", "weight_bound"),
            ("reward_design", RewardDesign, "reward_blocks", "reward_bound"),
        ):
            made = getattr(self, name)
            if made is None:
                continue
            if not isinstance(made, kind):
                raise ValueError(f"{name} must be a noregret.{kind.__name__} or None, got {check.shown(made)}")
            if made.block.shape != pairs:
                raise ValueError(f"{name} must be for {pairs} states and actions, got {made.block.shape}")
            given, implied = getattr(self, bound), made.row_bound(self.layout)
            if given is not None:
                implied = min(implied, check.positive(bound, given))
            put(bound, implied)
            made.fits(self.context_dim)
            unit = self.scale.unit if kind is RewardDesign else 1.0  # what matters goes by the range of rewards
            put(blocks, made.identified(self.layout, self.context_dim, self.context_bound / unit))
        if self.design is not None and not isinstance(self.link, MultinomialLogit):
            raise ValueError(f"design needs the link MultinomialLogit, got {self.link!r}")
        if self.reward_design is not None and self.known_rewards is not None:
            raise ValueError("reward_design must be None where known_rewards are given: there is nothing to learn")

    def _check_bounds(self, put: Callable[[str, Any], None]) -> None:
        for name, what in _WHAT.items():
            if getattr(self, name) is None:
                raise ValueError(
                    f"{name} must be given: it bounds the 2-norm of {what}, and every promise rests on it "
                    "(noregret.suggest_bounds fits one to an earlier log)"
                )
        for name in ("context_bound", "weight_bound", "reward_bound"):
            put(name, check.positive(name, getattr(self, name)))
            if not _LEAST_BOUND <= getattr(self, name) <= _LARGEST_BOUND:
                raise ValueError(
                    f"{name} must be from {_LEAST_BOUND:g} to {_LARGEST_BOUND:g}, got {getattr(self, name):g}"
                )
        if 2.0 * self.reach > EXP_LIMIT:
            raise ValueError(
                f"weight_bound * context_bound must be at most {EXP_LIMIT / 2:g}, got {self.reach:g}: "
                "the probabilities could not be told from 0"
            )

    def _norm_of_known(self) -> float:
        """The largest norm of the known rewards of an available pair."""
        theta = check.array("known_rewards", self.known_rewards, (self.n_states, self.n_actions, self.context_dim))
        norms = np.linalg.norm(theta, axis=-1)
        if self.available is not None:
            norms = norms[check.mask("available", self.available, norms.shape)]
        return max(float(norms.max(initial=0.0)), _LEAST_BOUND)

    def _check_size(self, slots: int) -> None:
        """A sentence where not even the weights [S, A, M, d], the next states [S, A, M] and a plan would fit in memory;
        agents ask again for what else they keep (`Agent`)."""
        S, A, H, d = self.n_states, self.n_actions, self.horizon, self.context_dim
        what = f"a problem with n_states = {S}, n_actions = {A}, horizon = {H}, context_dim = {d}"
        check.memory(what, 8.0 * (S * A * slots * (1 + d) + 2 * H * S), now=8.0 * S * A * slots)

    @property
    def reach(self) -> float:
        """B_p R: no linear predictor is larger."""
        return self.weight_bound * self.context_bound

    @property
    def scale(self) -> RewardScale:
        """The units of rewards: from these to [0, 1], in which agents learn and plan, and back."""
        return RewardScale(*self.reward_range)

    @property
    def unit_reward_bound(self) -> float:
        """B_r in those units."""
        return self.reward_bound / self.scale.unit

    @property
    def n_pairs(self) -> int:
        """Number of available state-action pairs."""
        return int(self.layout.available.sum())

    def describe(self) -> str:
        """How many parameters next states and mean rewards have, and which pairs share what, a few lines each:
        `Design.describe` with the support, the available pairs and the contexts of this problem."""
        pairs, d = self.layout.available, self.context_dim
        alone = int((self.layout.count - 1)[pairs].sum()) * d, self.n_pairs * d
        said = [f"{count} parameters, every pair has its own" for count in alone]
        if self.known_rewards is not None:
            said[1] = "known"
        designs: Any = self.design, self.reward_design
        said = [s if made is None else made.describe(d, self.layout) for s, made in zip(said, designs, strict=True)]
        return f"next states: {said[0]}\nrewards: {said[1]}"

    def _initial_states(self) -> tuple[int, ...]:
        given: Any = self.initial_states
        if isinstance(given, str) or not np.iterable(given) or not hasattr(given, "__len__"):
            raise ValueError(f"initial_states must be a sequence of states, got {check.shown(given)}")
        made = tuple(sorted({self.state(s, "initial_states") for s in given}))
        if not made:
            raise ValueError("initial_states must name at least one state")
        return made

    @property
    def starts(self) -> NDArray[np.int64]:
        """States an episode may begin in, in order."""
        given: Any = self.initial_states
        return np.array(range(self.n_states) if given is None else given, np.int64)

    def context(self, x: Any, name: str = "context") -> NDArray[np.float64]:
        """`x` as a checked float64 array [d] of its own, rescaled if the problem says so."""
        made = check.numbers(name, x, f"{self.context_dim} numbers")
        if made.shape != (self.context_dim,):
            raise ValueError(f"{name} must have shape ({self.context_dim},), got {made.shape}")
        norm = math.hypot(*made.tolist())
        if not math.isfinite(norm):
            raise ValueError(f"{name} must be finite, got {check.shown(made.tolist())}")
        rescale, limit = self.long_contexts == "rescale", self.context_bound
        if isinstance(self.link, LinearCombination):
            low, total = float(made.min()), float(made.sum())
            if rescale and low >= 0.0 and total > 0.0 and abs(total - 1.0) > _TOLERANCE:
                made /= total
                norm, total = norm / total, 1.0
            if low < -_TOLERANCE or abs(total - 1.0) > _TOLERANCE:
                raise ValueError(
                    f"{name} must be nonnegative and sum to 1 under LinearCombination, got sum {total:.6g} "
                    f"and smallest entry {low:.6g}"
                )
            rescale = False  # a point of the simplex cannot be shrunk and stay there
        if norm > limit * (1.0 + _ROUNDING):
            if not rescale:
                raise ValueError(
                    f"{name} has norm {norm:.6g}, above context_bound = {limit:g} "
                    '(rescale it, or set long_contexts="rescale")'
                )
            made *= limit / norm
        return made

    def contexts(self, X: Any, name: str = "contexts") -> NDArray[np.float64]:
        """Rows `X` [n, d], each checked as `context` does; only the ones that need it are looked at one by one."""
        made = check.numbers(name, X, f"rows of {self.context_dim} numbers")
        if made.ndim != 2 or made.shape[1] != self.context_dim:
            raise ValueError(f"{name} must have shape (n, {self.context_dim}), got {made.shape}")
        with np.errstate(over="ignore", invalid="ignore"):
            fine = np.einsum("kd,kd->k", made, made) <= (self.context_bound * (1.0 + 0.5 * _ROUNDING)) ** 2
            if isinstance(self.link, LinearCombination):
                fine &= (made.min(1) >= 0.0) & (np.abs(made.sum(1) - 1.0) <= 0.5 * _TOLERANCE)
        for i in np.flatnonzero(~fine):
            made[i] = self.context(made[i], f"{name}[{i}]")
        return made

    def reward_weights(self, name: str, value: Any) -> NDArray[np.float64]:
        """`value` as reward weights [S, A, d] within reward_bound, read-only, of their own."""
        made = check.array(name, value, (self.n_states, self.n_actions, self.context_dim))
        norms = np.where(self.layout.available, np.linalg.norm(made, axis=-1), 0.0)
        s, a = np.unravel_index(norms.argmax(), norms.shape)
        if norms[s, a] > self.reward_bound * (1 + _TOLERANCE):
            raise ValueError(f"{name}[{s}, {a}] has norm {norms[s, a]:.6g}, above reward_bound = {self.reward_bound:g}")
        made.setflags(write=False)
        return made

    def state(self, value: Any, name: str = "state") -> int:
        """`value` as a state index, by number (or by name, where states have names)."""
        return _numbered(f"{name} must be a state", value, self.state_names, self.n_states)

    def action(self, value: Any, state: int | None = None, name: str = "action") -> int:
        """`value` as an action index, by number (or by name, where actions have names); available in `state`, if one is
        given."""
        made = _numbered(f"{name} must be an action", value, self.action_names, self.n_actions)
        if state is not None and not self.layout.available[state, made]:
            raise ValueError(f"{name} {self.action_text(made)} is not available in state {self.state_text(state)}")
        return made

    def next_state(self, value: Any, state: int, action: int) -> int:
        """`value` as a state that can follow that pair."""
        made = self.state(value, "next_state")
        if not self.can_follow(made, state, action):
            raise ValueError(
                f"next_state {self.state_text(made)} is outside the support of state {self.state_text(state)}, action "
                f"{self.action_text(action)}"
            )
        return made

    def can_follow(self, after: int, state: int, action: int) -> bool:
        """Whether the support of that pair has the state `after`."""
        layout, pair = self.layout, (state, action)
        return bool(layout.dense) or after in layout.outcomes[pair][: layout.count[pair]]

    def started(self, value: Any) -> int:
        """`value` as a state that an episode may begin in."""
        made, starts = self.state(value), self.initial_states
        if starts is not None and made not in starts:
            among = ", ".join(map(self.state_text, starts))
            raise ValueError(
                f"state must be one of the problem's initial_states ({among}) at step 0, got {self.state_text(made)}"
            )
        return made

    def state_text(self, s: Any) -> str:
        """A state as sentences have it: 'mild' (1), or 1 where states have no names."""
        return f"{self.state_names[s]!r} ({s})" if self.state_names else str(s)

    def action_text(self, a: Any) -> str:
        """An action, likewise."""
        return f"{self.action_names[a]!r} ({a})" if self.action_names else str(a)

    def reward(self, value: Any) -> float:
        """`value` as a reward, nan where it was not seen."""
        return self.scale.reward(value, self.rewards == "logistic")

    def policy(self, value: Any, name: str = "policy") -> NDArray[np.int64]:
        """`value` as int64 actions [H, S] of its own, all of them available; by number, or by name where actions have
        names.

        >>> import noregret as nr
        >>> problem = nr.Problem(
        ...     2, 2, 3, 1, weight_bound=2.0, reward_bound=1.0, action_names=("wait", "drug")
        ... )
        >>> problem.policy([["drug", "wait"]] * 3).tolist()
        [[1, 0], [1, 0], [1, 0]]
        """
        made, shape = check.anything(name, value), (self.horizon, self.n_states)
        if self.action_names and made.shape == shape and made.dtype.kind in "UTO":
            made = self._named_policy(value, name)
        if made.shape != shape or made.dtype.kind not in "iu" or made.min() < 0 or made.max() >= self.n_actions:
            names = f", or their names {', '.join(self.action_names)}" if self.action_names else ""
            raise ValueError(f"{name} must be actions 0 to {self.n_actions - 1} of shape {shape}{names}")
        barred = np.argwhere(~self.layout.available[np.arange(self.n_states)[None], made])
        if barred.size:
            h, s = (int(i) for i in barred[0])
            raise ValueError(
                f"{name} takes an action that is not available: {self.action_text(made[h, s])} in state "
                f"{self.state_text(s)} at step {h}"
            )
        return made.astype(np.int64)

    def _named_policy(self, value: Any, name: str) -> NDArray[np.int64]:
        """Actions [H, S] from names, or from names and numbers; every entry is looked at."""
        given = np.array(value, dtype=object)  # NumPy would turn numbers beside names into text
        made = np.zeros((self.horizon, self.n_states), np.int64)
        for h, s in np.ndindex(*made.shape):
            made[h, s] = self.action(given[h, s], name=f"{name}[{h}, {s}]")
        return made

    def same_shape(self, other: "Problem") -> bool:
        """Whether sizes, supports, available actions and the range of rewards agree; bounds and link may differ."""
        sizes = ("n_states", "n_actions", "horizon", "context_dim", "reward_range")
        same = all(getattr(self, n) == getattr(other, n) for n in sizes)
        layouts: Any = zip(self.layout, other.layout, strict=True)
        return same and all(np.array_equal(u, v) for u, v in layouts)

    def weights_of(self, name: str, weights: Any) -> NDArray[np.float64]:
        """Weights in one of the two forms of `slots_of` (by slot: an array), checked, of their own."""
        (S, A, M), d = self.layout.outcomes.shape, self.context_dim
        few = isinstance(weights, np.ndarray) and weights.shape == (S, A, M, d)
        return check.array(name, weights, (S, A, M if few else S, d))

    def slots_of(self, name: str, weights: Any) -> NDArray[np.float64]:
        """Weights [S, A, S', d], or [S, A, M, d] slot by slot if M < S, as slots of their own, 0 in the padding."""
        made = self.weights_of(name, weights)
        if made.shape[2] == self.n_states:
            return self.to_slots(made)
        made[~used_slots(self.layout)] = 0.0
        return made

    def to_slots(self, dense: NDArray[Any]) -> NDArray[Any]:
        """[S, A, S', ...] -> [S, A, M, ...]: keep the supported next states, pad with 0."""
        if self.layout.dense:
            return np.ascontiguousarray(dense)
        s, a = np.ogrid[: self.n_states, : self.n_actions]
        made = dense[s[..., None], a[..., None], self.layout.outcomes]
        made[~used_slots(self.layout)] = 0
        return np.ascontiguousarray(made)

    def from_slots(self, slots: NDArray[Any]) -> NDArray[Any]:
        """[S, A, M, ...] -> [S, A, S', ...], 0 outside the support."""
        if self.layout.dense:
            return slots.copy()
        made = np.zeros((self.n_states, self.n_actions, self.n_states, *slots.shape[3:]), slots.dtype)
        s, a, j = np.nonzero(used_slots(self.layout))
        made[s, a, self.layout.outcomes[s, a, j]] = slots[s, a, j]
        return made
