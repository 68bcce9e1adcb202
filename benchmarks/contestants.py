"""Who is compared on the beds: our agents, and those of other libraries where they are installed.

Every contestant has one scale, its knob: as it comes (the default of the library), and over a small grid. A contestant
makes an object with the four verbs for a problem. Nothing is installed from here.
"""

import contextlib
import importlib
import logging
from collections.abc import Callable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import noregret as nr
from noregret.agents.registry import why_not

GRID = (0.03, 0.1, 0.3, 1.0)
POWERS = (0.25, 0.5, 0.75, 1.0)  # of epsilon-greedy, k^-power
MANY = 100  # states
TABULAR = ("ucbvi-ch", "ucbvi-bf", "rlsvi", "psrl", "ucrl2", "orlc")


class Contestant(NamedTuple):
    """name, library; knob and its values; make(problem, seed, value) with value None for the default."""

    name: str
    library: str
    knob: str
    values: tuple[float, ...]
    make: Callable[[nr.Problem, int, float | None], Any]


def _ours(name: str, knob: str, problem: nr.Problem, seed: int, value: float | None) -> Any:
    name, *options = name.split(":")
    given = dict(option.split("=") for option in options)
    return nr.make_agent(name, problem, seed=seed, **given, **({} if value is None else {knob: value}))


_KNOBS = {
    "psrl-glm": "posterior_scale", "certified-psrl": "posterior_scale", "glm-orl": "bonus_scale",
    "lr-orl": "bonus_scale", "epsilon-greedy": "exploration", "certainty-equivalence": "", "oful": "bonus_scale",
    "linucb": "alpha", "glm-ucb": "bonus_scale", "ofuglb": "bonus_scale", "glb-omd": "bonus_scale",
    "ucbvi-bf": "bonus_scale", "ucbvi-bf:bonus=practised": "bonus_scale", "rlsvi": "bonus_scale",
    "rlsvi:constants=practised": "bonus_scale", "psrl": "prior", "uniform-random": "",
}  # fmt: skip


def ours(problem: nr.Problem) -> list[Contestant]:
    """Our agents for such a problem that fit in memory: tabular ones where nobody differs (d = 1) or where there are
    many states, bandits where H = 1."""
    made = []
    blind = problem.horizon > 1 and (problem.context_dim == 1 or problem.n_states > MANY)
    for player, knob in _KNOBS.items():
        name = player.split(":")[0]
        if name not in nr.agents.names() or why_not(name, problem) is not None:
            continue
        if (name in TABULAR and not blind) or not _fits(name, problem):
            continue
        values = () if not knob else POWERS if knob == "exploration" else GRID
        made.append(Contestant(player, "noregret", knob, values, partial(_ours, player, knob)))
    return made


def _fits(name: str, problem: nr.Problem) -> bool:
    """Whether there is memory for it."""
    try:
        nr.make_agent(name, problem)
    except ValueError as error:
        if "of memory" not in str(error):
            raise
        return False
    return True


# Bandits of other libraries -------------------------------------------------------------------------------------------
class Chooser:
    """The four verbs for anything that chooses an arm for a context and is told the reward."""

    def __init__(self, choose: Callable[[Any], Any], learn: Callable[[Any, int, float], Any]) -> None:
        self.choose, self.learn = choose, learn

    def begin_episode(self, x: NDArray[np.float64]) -> Any:
        self.x, self.action = x, int(self.choose(x))
        return SimpleNamespace(policy=np.full((1, 1), self.action))

    def act(self, state: int) -> int:
        return self.action

    def observe(self, reward: float, state: int) -> None:
        self.reward = reward

    def end_episode(self) -> None:
        self.learn(self.x, self.action, self.reward)

    def fresh(self, seed: int) -> Any:
        raise NotImplementedError


def _mabwiser(kind: str, problem: nr.Problem, seed: int, value: float | None) -> Any:
    mab: Any = importlib.import_module("mabwiser.mab")
    knob = "epsilon" if kind == "LinGreedy" else "alpha"
    policy = getattr(mab.LearningPolicy, kind)(**({} if value is None else {knob: value}))
    made = mab.MAB(list(range(problem.n_actions)), policy, seed=seed)
    made.fit([0], [0.0], np.zeros((1, problem.context_dim)))  # it wants data before it chooses: this teaches nothing
    return Chooser(lambda x: made.predict([x]), lambda x, a, r: made.partial_fit([a], [r], [x]))


def _contextualbandits(kind: str, problem: nr.Problem, seed: int, value: float | None) -> Any:
    online: Any = importlib.import_module("contextualbandits.online")
    scale = {} if value is None else {"alpha": value} if kind == "LinUCB" else {"v_sq": value * value}
    made = getattr(online, kind)(
        nchoices=problem.n_actions, fit_intercept=False, random_state=1 + seed, njobs=1, use_float=False, **scale
    )
    return Chooser(
        lambda x: made.predict(x[None, :])[0],
        lambda x, a, r: made.partial_fit(x[None, :], np.array([a]), np.array([r])),
    )


def _river(problem: nr.Problem, seed: int, value: float | None) -> Any:
    bandit: Any = importlib.import_module("river.bandit")
    made, arms = bandit.LinUCBDisjoint(seed=seed), list(range(problem.n_actions))
    return Chooser(
        lambda x: made.pull(arms, context=dict(enumerate(x.tolist()))),
        lambda x, a, r: made.update(a, dict(enumerate(x.tolist())), r),
    )


# Tabular agents of rlberry --------------------------------------------------------------------------------------------
class _Table:
    """What rlberry's tabular agents ask of an environment; the steps themselves come from our side."""

    reward_range = (0.0, 1.0)
    metadata: dict[str, Any] = {}  # noqa: RUF012

    def __init__(self, problem: nr.Problem) -> None:
        spaces: Any = importlib.import_module("rlberry.spaces")
        self.observation_space, self.action_space = (spaces.Discrete(n) for n in (problem.n_states, problem.n_actions))
        self.unwrapped, self.spec = self, None

    def reseed(self, seeder: Any = None) -> None:
        pass

    def reset(self) -> tuple[int, dict[str, Any]]:
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        return 0, 0.0, True, False, {}


class TableAgent:
    """The four verbs for a tabular agent of rlberry's: its own planning and its own updates, fed step by step.

    Its `_run_episode` is cut in two: what it does before the first step or after the last, and `_update`."""

    def __init__(self, made: Any, before: bool) -> None:
        self.made, self.before = made, before

    def begin_episode(self, x: NDArray[np.float64]) -> Any:
        self.state, self.h = -1, 0
        if self.before:
            self._plan()
        return SimpleNamespace(policy=self.made.Q.argmax(-1))

    def _plan(self) -> None:
        """Its planning and nothing else: an episode that ends with its first step, which is not learned."""
        self.made._update = lambda *step: None
        self.made._run_episode()
        del self.made._update

    def act(self, state: int) -> int:
        self.state, self.action = state, int(self.made._get_action(state, self.h))
        return self.action

    def observe(self, reward: float, state: int) -> None:
        self.made._update(self.state, self.action, state, reward, self.h)
        self.h += 1

    def end_episode(self) -> None:
        if not self.before:
            self._plan()

    def fresh(self, seed: int) -> Any:
        raise NotImplementedError


def _rlberry(
    module: str, kind: str, knob: str, before: bool, problem: nr.Problem, seed: int, value: float | None
) -> Any:
    agent = getattr(importlib.import_module(module), kind)
    logging.disable(logging.WARNING)
    scale = {} if value is None else {knob: value}
    made = agent(_Table(problem), gamma=1.0, horizon=problem.horizon, seeder=seed, copy_env=False, **scale)
    return TableAgent(made, before)


_BANDITS = (
    ("mabwiser", "mabwiser.mab", "LinUCB", "alpha", _mabwiser),
    ("mabwiser", "mabwiser.mab", "LinTS", "alpha", _mabwiser),
    ("mabwiser", "mabwiser.mab", "LinGreedy", "epsilon", _mabwiser),
    ("contextualbandits", "contextualbandits.online", "LinUCB", "alpha", _contextualbandits),
    ("contextualbandits", "contextualbandits.online", "LinTS", "v", _contextualbandits),
)
_TABLES = (
    ("rlberry_scool.agents", "UCBVIAgent", "bonus_scale_factor", False),
    ("rlberry_research.agents", "RLSVIAgent", "scale_std_noise", True),
    ("rlberry_research.agents", "PSRLAgent", "scale_prior_reward", True),
)


def peers(problem: nr.Problem) -> Iterator[Contestant]:
    """Agents of other libraries for such a problem, of those that can be imported."""
    if problem.horizon == 1:
        for library, module, kind, knob, make in _BANDITS:
            if _imports(module):
                yield Contestant(f"{library} {kind}", library, knob, GRID, partial(make, kind))
        if _imports("river.bandit"):
            yield Contestant("river LinUCB", "river", "", (), _river)
    elif problem.context_dim == 1 and problem.layout.available.all():
        for module, kind, knob, before in _TABLES:
            if _imports(module):
                name = f"rlberry {kind.removesuffix('Agent')}"
                yield Contestant(name, "rlberry", knob, GRID, partial(_rlberry, module, kind, knob, before))


def _imports(module: str) -> bool:
    with contextlib.suppress(Exception):  # a library may be there and not work with what else is
        importlib.import_module(module)
        return True
    return False


def contestants(problem: nr.Problem, others: bool = True) -> list[Contestant]:
    """Everybody for such a problem, ours first."""
    return [*ours(problem), *(peers(problem) if others else ())]
