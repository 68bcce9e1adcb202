"""The agents, by name. An agent is estimator x confidence set x planner; its module reads like its pseudo-code."""

from typing import Any

from .. import _checks as check
from ..problem import Problem
from .abbasi_yadkori_neu import AbbasiYadkoriNeu
from .base import Agent
from .cece import CECE
from .cece_x import CECEx
from .cells import kmeans
from .certified import Certified
from .certified_psrl import CertifiedPSRL
from .controls import CertaintyEquivalence, EpsilonGreedy, FixedPolicy, Oracle, UniformRandom
from .cover_rmax import CoverRmax
from .glm_orl import GLMORL
from .glm_rlsvi import GLMRLSVI
from .glm_ucb import GLMUCB
from .gloc import GLOC
from .kwik_rmax import KWIKLRRmax
from .lr_orl import LRORL
from .lsvi_ucb import LSVIUCB
from .oful import OFUL
from .ol2m import OL2M
from .omg import OMGCMDP
from .orlc_si import ORLCSI
from .psrl_glm import PSRLGLM
from .referral import Referral
from .tabular_orlc import ORLC
from .tabular_psrl import PSRL
from .tabular_rlsvi import TabularRLSVI
from .tabular_ucbvi import UCBVI, UCBVIBF
from .tabular_ucrl2 import UCRL2

_AGENTS: dict[str, type[Agent]] = {
    cls.name: cls
    for cls in (
        GLMORL, GLMRLSVI,
        CertifiedPSRL, LRORL, PSRLGLM,
        ORLCSI, AbbasiYadkoriNeu, LSVIUCB, OMGCMDP,
        CoverRmax, KWIKLRRmax, CECE, CECEx,
        UCRL2, UCBVI, UCBVIBF, ORLC, PSRL, TabularRLSVI,
        OFUL, GLMUCB, OL2M, GLOC,
        EpsilonGreedy, CertaintyEquivalence, UniformRandom, Oracle,
    )
}  # fmt: skip
# Made of objects or tables, so not by name alone; files know them.
_COMPOSED: dict[str, type[Agent]] = {cls.name: cls for cls in (FixedPolicy, Referral, Certified)}

__all__ = [
    "CECE",
    "GLMORL",
    "GLMRLSVI",
    "GLMUCB",
    "GLOC",
    "LRORL",
    "LSVIUCB",
    "OFUL",
    "OL2M",
    "OMGCMDP",
    "ORLC",
    "ORLCSI",
    "PSRL",
    "PSRLGLM",
    "UCBVI",
    "UCBVIBF",
    "UCRL2",
    "AbbasiYadkoriNeu",
    "Agent",
    "CECEx",
    "CertaintyEquivalence",
    "Certified",
    "CertifiedPSRL",
    "CoverRmax",
    "EpsilonGreedy",
    "FixedPolicy",
    "KWIKLRRmax",
    "Oracle",
    "Referral",
    "TabularRLSVI",
    "UniformRandom",
    "kmeans",
    "make_agent",
    "names",
]  # fmt: skip


def names() -> list[str]:
    """Every agent's name, for `make_agent` and the command line.

    >>> import noregret as nr
    >>> [name for name in nr.agents.names() if "psrl" in name]
    ['certified-psrl', 'psrl-glm', 'psrl']
    """
    return list(_AGENTS)


def agent_class(name: str) -> type[Agent]:
    return check.known("agent", name, _AGENTS)


def stored_class(name: str) -> type[Agent]:
    """The class of an agent in a file."""
    return check.known("agent", name, _AGENTS | _COMPOSED)


def with_kernel(kernel: str) -> list[str]:
    """Names of the agents that have this optional kernel."""
    return [name for name, cls in _AGENTS.items() if getattr(cls, kernel) is not None]


def make_agent(name: str, problem: Problem, /, **options: Any) -> Agent:
    """An agent by its name: `make_agent("glm-orl", problem, delta=0.1)` is `GLMORL(problem, delta=0.1)`.

    >>> import noregret as nr
    >>> problem = nr.worlds.clinic().problem
    >>> nr.make_agent("glm-orl", problem, delta=0.1, bonus_scale=0.5).label
    'glm-orl (delta=0.1, bonus_scale=0.5, no guarantee)'
    """
    cls = agent_class(name)
    check.fits(f"agent {name}", cls, problem, **options)
    return cls(problem, **options)
