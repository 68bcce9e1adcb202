"""The one list of agents: by name for people and files."""

from typing import Any

from .. import checks as check
from ..problem.problem import Problem
from .base import Agent

VERBS = ("begin_episode", "act", "observe", "end_episode", "fresh")

_AGENTS: dict[str, type[Agent]] = {}  # made by name and options
_COMPOSED: dict[str, type[Agent]] = {}  # made of objects or tables, so not by name alone; files know them


def register(*classes: type[Agent], composed: bool = False) -> None:
    """Make agents known by their names, in this order."""
    (_COMPOSED if composed else _AGENTS).update((cls.name, cls) for cls in classes)


def names() -> list[str]:
    """Every agent's name, for `make_agent` and the command line.

    >>> import noregret as nr
    >>> [name for name in nr.agents.names() if "psrl" in name]
    ['certified-psrl', 'psrl-glm', 'psrl']
    """
    return list(_AGENTS)


def agent_class(name: str) -> Any:
    """The class of that name; or, of `module:Class`, the user's own class or factory, whose module is imported."""
    if not check.is_own(name):
        return check.known("agent", name, _AGENTS)
    made = check.imported("agent", name)
    lacking = [verb for verb in VERBS if not hasattr(made, verb)]
    if isinstance(made, type) and lacking:
        raise ValueError(f"agent {name!r} is not an agent: it has no {', '.join(lacking)}")
    return made


def stored_class(name: str) -> type[Agent]:
    """The class of an agent in a file. Nothing is imported because a file says so."""
    return check.known("agent", name, _AGENTS | _COMPOSED)


def own_class(agent: Any) -> type[Agent]:
    """A class that was handed in, or named as `module:Class`, to load an agent of the user's own."""
    cls = check.imported("agent", agent) if check.is_own(agent) else agent
    if not isinstance(cls, type) or not issubclass(cls, Agent):
        raise ValueError(f'agent must be a class made from noregret.Agent, or "module:Class", got {check.shown(agent)}')
    return cls


def why_not(name: str, problem: Problem) -> str | None:
    """Why the agent of that name is not for that problem, in one sentence; None if it is, or does not say."""
    ask: Any = getattr(agent_class(name), "refusal", None)
    return ask(problem) if callable(ask) else None


def with_kernel(kernel: str) -> list[str]:
    """Names of the agents that have this optional kernel."""
    return [name for name, cls in _AGENTS.items() if getattr(cls, kernel) is not None]


def make_agent(name: str, problem: Problem, /, **options: Any) -> Any:
    """An agent by its name: `make_agent("glm-orl", problem, delta=0.1)` is `GLMORL(problem, delta=0.1)`.

    A name of the form "module:Class" is an agent of your own: the module is imported, and its class or function is
    called in the same way.

    >>> import noregret as nr
    >>> problem = nr.worlds.clinic().problem
    >>> nr.make_agent("glm-orl", problem, delta=0.1, bonus_scale=0.5).label
    'glm-orl (delta=0.1, bonus_scale=0.5, no guarantee)'
    """
    make = agent_class(name)
    check.fits(f"agent {name}", make, problem, **options)
    made = make(problem, **options)
    lacking = [verb for verb in VERBS if not callable(getattr(made, verb, None))]
    if lacking:
        raise ValueError(f"agent {name!r} made {check.shown(made)}, which is no agent: it has no {', '.join(lacking)}")
    return made
