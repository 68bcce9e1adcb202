"""What a class of agents declares: its options, each once, its kernels, and what it claims.

    class Careful(Agent):
        name = "careful"
        delta: float = DELTA                                    # shared by many agents, below
        patience: int = option(3, check.integer)

makes `Careful(problem, delta=0.05, patience=3, seed=0)`. Every value given is checked by the option's own check; the
agent has them as attributes, and all of them, in this order, in `options`, which is what files keep. Type checkers see
the same constructor, but for `seed`, which they take by name only. A class may write its own `__init__` instead.
"""

import inspect
from collections.abc import Callable
from typing import Any, ClassVar, dataclass_transform

from .. import checks as check
from ..problem.problem import Problem
from .diagnostics import EVERYBODY, watch_values


class Option:
    """One option: its default, and check(name, value, **limits), which returns the value to keep or raises a
    ValueError. `help` shows its own docstring."""

    def __init__(
        self, default: Any, check: Callable[..., Any] | None, limits: dict[str, Any], or_none: bool, doc: str
    ) -> None:
        self.default, self.check, self.limits, self.or_none, self.name = default, check, limits, or_none, ""
        allowed = f" One of {', '.join(map(repr, limits['allowed']))}." if "allowed" in limits else ""
        self.__doc__ = f"{doc or 'See above.'}{allowed} Unless given: {default!r}."

    def __set_name__(self, owner: Any, name: str) -> None:
        self.name = name

    def __get__(self, agent: Any, owner: Any = None) -> Any:
        return self if agent is None else agent.options[self.name]

    def __set__(self, agent: Any, value: Any) -> None:
        raise AttributeError(f"{self.name} is decided when an agent is made")

    def checked(self, value: Any) -> Any:
        if self.check is None or (value is None and self.or_none):
            return value
        return self.check(self.name, value, **self.limits)


def option(
    default: Any, check: Callable[..., Any] | None = None, or_none: bool = False, doc: str = "", **limits: Any
) -> Any:
    """An option of an agent, checked by check(name, value, **limits). None is let through where it is the default, or
    where `or_none`; check=None: the agent checks the value itself (`_settle`), because that takes the problem, or other
    options. doc: a sentence for `help`, where the class says nothing itself."""
    return Option(default, check, limits, or_none or default is None, doc)


def choice(*allowed: str, default: str | None = "", doc: str = "") -> Any:
    """One of these words; the first is the default, unless another one, or None, is said to be."""
    return option(allowed[0] if default == "" else default, check.one_of, allowed=allowed, doc=doc)


def last(*, default: Any, kw_only: bool) -> Any:
    """An argument of every agent, behind its options."""
    return default


# Options of many agents
DELTA = option(0.05, check.positive, below=1.0, doc="What is claimed holds with probability 1 - delta.")
CONSTANTS = choice("corrected", "paper", doc="As proved in docs/theory.md, or as the paper prints them.")
BONUS_SCALE = option(1.0, check.nonnegative, doc="Multiplies every bonus; anything but 1 carries no guarantee.")
EPSILON = option(0.5, check.positive, doc="How far from optimal a plan may be.")
REGULARIZATION = option(None, check.positive, doc="lambda of the transition estimates; None: recommended.")
REWARD_REGULARIZATION = option(None, check.positive, doc="lambda of the reward estimates; None: recommended.")
CENTRES = option(None, doc="[B, d]: a model for each group, those nearest to a centre; None: one for everybody.")


@dataclass_transform(eq_default=False, field_specifiers=(last,))
class Declared:
    """The declarations of an agent's class; `Agent` says what each is for."""

    name: ClassVar[str]
    group: str = "GLM"  # under which heading tables and figures put it
    plan_kernel: Any
    learn_kernel: Any
    replan_kernel: Any = None
    # gap [S] <- the certificate of the plan just made, from every state at step 0: (par, state, work, out, gap)
    certificate_kernel: Any = None
    # gap [S] <- share of posterior draws in which out.policy[0, s] is not optimal: (par, state, work, out, x, k, gap)
    doubt_kernel: Any = None
    # gap [S] <- the 95% quantile of the shortfall of out.policy over posterior draws, likewise
    belief_kernel: Any = None
    # counts what only the truth can tell (`agents.diagnostics`): (par, state, work, truth, path, out, meter)
    watch_kernel: Any = staticmethod(watch_values)
    fused = True  # whether the compiled loop may run it; False: part of it is Python
    masks = False  # whether it plans without the actions that are not available to one person
    pause = 0  # after so many steps of every episode the rest is planned anew; 0: never
    bounds_values = False  # whether plan values bound the optimal values from above, with the agent's probability
    promised: str | None = None  # what holds with probability 1 - delta where they do, the rest of a sentence
    any_range = False  # whether the problem may have a reward_range of its own (`problem.scale`)
    sound = True  # whether the options leave a guarantee, `bonus_scale` aside
    # whether, wherever its sets hold, plan values are at least r + P V of every available action (`refutation`)
    consistent_values = False
    shares_weights = False  # whether it learns by the problem's designs; False: every pair has weights of its own
    regret_delta: float | None = None  # share of delta left for bounds on the regret, None if nothing is claimed

    options: dict[str, Any]
    declared: ClassVar[dict[str, Option]] = {}

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        found = [(name, made) for base in cls.__mro__[::-1] for name, made in vars(base).items()]
        cls.declared = {name: made for name, made in found if isinstance(made, Option)}
        maker = next((base for base in cls.__mro__ if "__init__" in vars(base)), cls)
        # Where a class has its own constructor, that one says what it takes
        cls.__signature__ = _signature(cls) if Declared in maker.__bases__ else None  # type: ignore[attr-defined]

    @classmethod
    def refused_range(cls, problem: Problem) -> str | None:
        """Why the agent is not for that problem's range of rewards; None if it is."""
        if cls.any_range or problem.scale.plain:
            return None
        return f"reward_range must be (0, 1) for {cls.name}, got {problem.reward_range}"

    def prepare_doubt(self) -> None:
        """Before `doubt_kernel` is used: whatever it needs is compiled."""

    @property
    def watch_columns(self) -> set[str]:
        """The columns of `agents.diagnostics` that mean something for it."""
        return EVERYBODY

    @classmethod
    def _given(cls, args: tuple[Any, ...], options: dict[str, Any]) -> tuple[dict[str, Any], Any]:
        """(options, seed) as they were given, by place or by name, defaults filled in. A class with a constructor of
        its own may have options that it does not declare."""
        own, takes = inspect.signature(cls), _signature(cls)
        more = {k: v for k, v in options.items() if own != takes and k not in takes.parameters}
        try:
            said = takes.bind(None, *args, **{k: v for k, v in options.items() if k not in more})
        except TypeError as error:
            raise TypeError(f"{cls.__name__}() {error}") from None
        said.apply_defaults()
        made = {name: said.arguments[name] for name in cls.declared}
        return made | more, said.arguments["seed"]


def _signature(cls: type[Declared]) -> inspect.Signature:
    either, types = inspect.Parameter.POSITIONAL_OR_KEYWORD, {"problem": Problem, "seed": int}
    for base in cls.__mro__[::-1]:
        types |= {name: kind for name, kind in inspect.get_annotations(base).items() if name in cls.declared}
    defaults = {"problem": inspect.Parameter.empty, **{k: o.default for k, o in cls.declared.items()}, "seed": 0}
    made = [inspect.Parameter(k, either, default=v, annotation=types[k]) for k, v in defaults.items()]
    return inspect.Signature(made, return_annotation=None)
