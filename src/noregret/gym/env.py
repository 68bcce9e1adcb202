"""A world as a Gymnasium environment."""

from typing import Any, Literal

import numpy as np

try:
    import gymnasium
except ImportError:
    raise ImportError("noregret.gym.Env needs the extra: pip install 'noregret[gym]'") from None

from gymnasium import spaces

from .. import checks as check
from ..checks import Floats
from ..problem.links import LinearCombination
from ..worlds import Episodes, World, make_world

Observation = dict[str, Any]


class Env(gymnasium.Env[Observation, np.int64]):
    """A `World` as a `gymnasium.Env`: every reset brings the next individual, every step is one decision.

    observation   {"obs": state, "context": x [d]}, Dict of Discrete(S) and Box; with show_step=True also "step", the
                  steps taken so far, Discrete(H + 1): with a finite horizon the best action depends on it
    action        Discrete(A)
    reward        0 or 1 with the pair's mean
    terminated    after H steps; nothing is ever truncated
    unavailable   what becomes of an action that may not be taken in this state. Gymnasium's environments take every
                  action of their space, and its checker draws from all of them, so "first", the default, takes the
                  first available action in its place; "raise" is a ValueError

    info has "action_mask" [A] (1: available, for `action_space.sample(mask)`), "episode_index", "step", and
    "optimal_value", V*_h of the state: what can still be had. After a step also "action", the one that was taken, and
    "regret", V*_h(s) - Q*_h(s, a): its sum over an episode has the regret V* - V^policy for its mean. Both come from
    the truth: measure with them, do not learn from them.

    reset(seed=s) begins with individual 0 of seed s, further resets go on with 1, 2, ...: the same individuals with the
    same luck as `world.individual(k, seed=s)` and `simulate(..., seeds=[s])`. options={"context": x} puts an individual
    with context x in its place, {"episode": k} goes to individual k.

    >>> import noregret as nr
    >>> env = nr.gym.Env(nr.worlds.clinic())
    >>> seen, info = env.reset(seed=5)
    >>> int(seen["obs"]), seen["context"].round(2).tolist()
    (2, [0.58, 0.58, -0.58])
    >>> round(info["optimal_value"], 2), info["action_mask"].tolist()
    (4.32, [1, 1, 1])
    >>> seen, reward, terminated, truncated, info = env.step(0)
    >>> round(info["regret"], 2)  # what waiting cost this patient
    0.76
    """

    metadata = {"render_modes": ["ansi"], "render_fps": 1}  # noqa: RUF012

    def __init__(
        self,
        world: World,
        unavailable: Literal["first", "raise"] = "first",
        show_step: bool = False,
        render_mode: str | None = None,
    ) -> None:
        check.instance("world", world, World, "a noregret.World")
        check.one_of("unavailable", unavailable, ("first", "raise"))
        if render_mode is not None:
            check.one_of("render_mode", render_mode, ("ansi",))
        self.world, self.render_mode = world, render_mode
        self._replaces, self._show_step = unavailable == "first", check.flag("show_step", show_step)
        p = world.problem
        low, high = (0.0, 1.0) if isinstance(p.link, LinearCombination) else (-p.context_bound, p.context_bound)
        parts: dict[str, spaces.Space[Any]] = {
            "obs": spaces.Discrete(p.n_states),
            "context": spaces.Box(low, high, (p.context_dim,), np.float64),
        }
        if self._show_step:
            parts["step"] = spaces.Discrete(p.horizon + 1)
        self.observation_space: spaces.Space[Observation] = spaces.Dict(parts)
        self.action_space: spaces.Space[np.int64] = spaces.Discrete(p.n_actions)
        self._bounds = low, high
        self._episodes: Episodes | None = None
        self._generator: np.random.Generator | None = None
        self._seed, self._next, self._said = 0, 0, ""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        asked, p = check.mapping("options", options), self.world.problem
        for key in asked:
            check.one_of("options", key, ("context", "episode"))
        if seed is not None:
            seed = check.integer("seed", seed, 0)
        x = p.context(asked["context"], 'options["context"]') if "context" in asked else None
        if "episode" in asked:
            check.integer('options["episode"]', asked["episode"], 0)
        super().reset(seed=seed)
        if self.np_random is not self._generator:  # seeded, or asked for the first time
            self._generator, self._next = self.np_random, 0
            given = self.np_random_seed
            self._seed = (int(self.np_random.integers(2**63)) if given < 0 else given) % 2**63
        if self._episodes is None:
            self._episodes = Episodes(self.world)
        k = int(asked.get("episode", self._next))
        drawn = self.world.context(self._seed, k) if x is None else x
        self._episodes.begin(k, self._seed, np.clip(drawn, *self._bounds))  # rounding may be a digit outside
        self._next = k + 1
        self._said = ""
        return self._observation(), self._info()

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        e, p = self._episodes, self.world.problem
        if e is None:
            raise RuntimeError("step: no episode has begun, call reset first")
        one = isinstance(action, np.ndarray) and action.size == 1
        a = int(check.integer("action", action.item() if one else action, 0))
        if a >= p.n_actions:
            raise ValueError(f"action must be from 0 to {p.n_actions - 1}, got {a}")
        if self._replaces and not e.mask[e.state, a]:
            a = int(e.mask[e.state].argmax())
        before, cost = e.state, e.cost(a)
        reward, _ = e.step(a)
        self._said = (
            f"{_name(p.state_names, 'state', before)}, {_name(p.action_names, 'action', a)} -> reward {reward:g}, "
        )
        return self._observation(), reward, e.steps == p.horizon, False, self._info() | {"action": a, "regret": cost}

    def render(self) -> Any:
        """One line: where the individual is and, after a step, what was done."""
        e, p = self._episodes, self.world.problem
        if self.render_mode is None or e is None:
            return None
        names = p.feature_names or [f"x{j}" for j in range(p.context_dim)]
        who = ", ".join(f"{n} {v:.3g}" for n, v in zip(names, e.context, strict=True))
        return f"[{e.steps}/{p.horizon}] {self._said}{_name(p.state_names, 'state', e.state)}   ({who})"

    def _observation(self) -> Observation:
        e: Any = self._episodes
        x: Floats = e.context.copy()
        made: Observation = {"obs": np.int64(e.state), "context": x}
        return made | {"step": np.int64(e.steps)} if self._show_step else made

    def _info(self) -> dict[str, Any]:
        e: Any = self._episodes
        mask = e.mask[e.state].astype(np.int8)
        about = {"episode_index": e.episode, "step": e.steps, "optimal_value": e.optimal_value}
        return {"action_mask": mask, **about}


def _name(names: tuple[str, ...] | None, kind: str, i: int) -> str:
    return f"{kind} {i}" if names is None else names[i]


def make(name: str, **options: Any) -> Env:
    """The environment of a world by name, as `gymnasium.make` calls it: those not `Env`'s are the world's."""
    own = {k: options.pop(k) for k in ("unavailable", "show_step", "render_mode") if k in options}
    return Env(make_world(name, **options), **own)
