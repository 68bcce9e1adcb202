"""noregret: sequential decisions for a population, without regret. Import as `nr`."""

from typing import Any as _Any

from . import agents, estimators, studies, theory, worlds
from ._jit import kernel
from .agents import Agent, make_agent
from .agents.certified import Certified
from .agents.certified_psrl import CertifiedPSRL
from .agents.controls import CertaintyEquivalence, EpsilonGreedy, Oracle, UniformRandom
from .agents.files import load
from .agents.glm_orl import GLMORL
from .agents.glm_rlsvi import GLMRLSVI
from .agents.lr_orl import LRORL
from .agents.psrl_glm import PSRLGLM
from .agents.referral import Referral
from .claims import claims
from .links import LinearCombination, Link, MultinomialLogit
from .live.bounds import suggest_bounds
from .live.decision import Decision
from .live.decision_files import read_decisions, write_decisions
from .live.encoder import Encoder
from .live.log import Log, read_log
from .live.probabilities import ActionProbabilities
from .live.several import Live
from .planning import Plan
from .problem import Problem
from .simulation import Run, referral_study, simulate
from .worlds import World, contexts

__version__ = "0.1.0"

__all__ = [
    "GLMORL",
    "GLMRLSVI",
    "LRORL",
    "PSRLGLM",
    "ActionProbabilities",
    "Agent",
    "CertaintyEquivalence",
    "Certified",
    "CertifiedPSRL",
    "Decision",
    "Encoder",
    "EpsilonGreedy",
    "LinearCombination",
    "Link",
    "Live",
    "Log",
    "MultinomialLogit",
    "Oracle",
    "Plan",
    "Problem",
    "Referral",
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
    "read_decisions",
    "read_log",
    "referral_study",
    "simulate",
    "studies",
    "suggest_bounds",
    "theory",
    "worlds",
    "write_decisions",
]


def __getattr__(name: str) -> _Any:
    """`noregret.gym` and `noregret.report`, when first asked for: importing what they need takes as long as many a
    script."""
    if name in ("gym", "report"):
        import importlib

        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
