"""noregret: sequential decisions for a population, without regret. Import as `nr`."""

from . import agents, estimators, theory, worlds
from ._jit import kernel
from .agents import Agent, make_agent
from .agents.abbasi_yadkori_neu import AbbasiYadkoriNeu
from .agents.cece import CECE
from .agents.cece_x import CECEx
from .agents.controls import CertaintyEquivalence, EpsilonGreedy, Oracle, UniformRandom
from .agents.cover_rmax import CoverRmax
from .agents.files import load
from .agents.glm_orl import GLMORL
from .agents.glm_rlsvi import GLMRLSVI
from .agents.glm_ucb import GLMUCB
from .agents.gloc import GLOC
from .agents.kwik_rmax import KWIKLRRmax
from .agents.lsvi_ucb import LSVIUCB
from .agents.oful import OFUL
from .agents.ol2m import OL2M
from .agents.omg import OMGCMDP
from .agents.orlc_si import ORLCSI
from .claims import claims
from .links import LinearCombination, Link, MultinomialLogit
from .planning import Plan
from .problem import Problem
from .simulation import Run, simulate
from .worlds import World, contexts

__version__ = "0.1.0"

__all__ = [
    "CECE",
    "GLMORL",
    "GLMRLSVI",
    "GLMUCB",
    "GLOC",
    "LSVIUCB",
    "OFUL",
    "OL2M",
    "OMGCMDP",
    "ORLCSI",
    "AbbasiYadkoriNeu",
    "Agent",
    "CECEx",
    "CertaintyEquivalence",
    "CoverRmax",
    "EpsilonGreedy",
    "KWIKLRRmax",
    "LinearCombination",
    "Link",
    "MultinomialLogit",
    "Oracle",
    "Plan",
    "Problem",
    "Run",
    "UniformRandom",
    "World",
    "agents",
    "claims",
    "contexts",
    "estimators",
    "kernel",
    "load",
    "make_agent",
    "simulate",
    "theory",
    "worlds",
]
