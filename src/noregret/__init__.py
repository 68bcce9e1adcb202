"""noregret: sequential decisions for a population, without regret. Import as `nr`."""

from typing import TYPE_CHECKING as _CHECKED
from typing import Any as _Any

from . import agents, estimators, planning, studies, theory, worlds
from .agents import Agent, make_agent
from .agents.composed.certified import Certified
from .agents.composed.conservative import Conservative
from .agents.composed.referral import Referral
from .agents.controls import CertaintyEquivalence, EpsilonGreedy, Oracle, UniformRandom
from .agents.data import worlds_made_with as _worlds_made_with
from .agents.files import load
from .agents.glm.orl import GLMORL
from .agents.glm.rlsvi import GLMRLSVI
from .agents.local.certified_psrl import CertifiedPSRL
from .agents.local.lr_orl import LRORL
from .agents.local.psrl_glm import PSRLGLM
from .agents.local.questions import Comparison
from .agents.probabilities import ActionProbabilities
from .beliefs.individual import IndividualModel
from .compiler.jit import kernel
from .evidence.evaluate import evaluate
from .evidence.evaluation import Evaluation
from .evidence.model_check import ModelCheck, check_model
from .live.audit import audit
from .live.bounds import suggest_bounds
from .live.decision import Decision
from .live.decision_files import read_decisions, write_decisions
from .live.log import read_log
from .live.replay import replay
from .live.several import Live
from .planning.explained import BelievedShortfall, Explanation
from .planning.plans import Plan
from .planning.plans import drawn_with as _drawn_with
from .problem.design import Design, RewardDesign
from .problem.encoder import Encoder
from .problem.links import LinearCombination, Link, MultinomialLogit
from .problem.log import Log
from .problem.problem import Problem
from .simulation import Run, logged, referral_study, simulate, world_of
from .simulation.expected import expected_certificates
from .storage.text import readable as _readable
from .storage.version import __version__ as __version__
from .studies.trial import TrialPlan, plan_trial
from .verification.claims import claims
from .worlds import World, contexts

if _CHECKED:
    from .journal.journal import Journal as Journal
    from .service.client import Client as Client

__all__ = [
    "GLMORL",
    "GLMRLSVI",
    "LRORL",
    "PSRLGLM",
    "ActionProbabilities",
    "Agent",
    "BelievedShortfall",
    "CertaintyEquivalence",
    "Certified",
    "CertifiedPSRL",
    "Client",
    "Comparison",
    "Conservative",
    "Decision",
    "Design",
    "Encoder",
    "EpsilonGreedy",
    "Evaluation",
    "Explanation",
    "IndividualModel",
    "Journal",
    "LinearCombination",
    "Link",
    "Live",
    "Log",
    "ModelCheck",
    "MultinomialLogit",
    "Oracle",
    "Plan",
    "Problem",
    "Referral",
    "RewardDesign",
    "Run",
    "TrialPlan",
    "UniformRandom",
    "World",
    "agents",
    "audit",
    "check_model",
    "claims",
    "contexts",
    "estimators",
    "evaluate",
    "expected_certificates",
    "kernel",
    "load",
    "logged",
    "make_agent",
    "plan_trial",
    "planning",
    "read_decisions",
    "read_log",
    "referral_study",
    "replay",
    "simulate",
    "studies",
    "suggest_bounds",
    "theory",
    "world_of",
    "worlds",
    "write_decisions",
]

# When first asked for: importing what they need takes as long as many a script.
_LATE = ("gym", "report")
_LATE_NAMES = {"Client": ".service.client", "Journal": ".journal.journal"}

for _name in __all__:
    if _name not in _LATE_NAMES:
        _readable(globals()[_name])  # for `help`


def __dir__() -> list[str]:
    return sorted([*__all__, *_LATE, "__version__"])


def __getattr__(name: str) -> _Any:
    if name in _LATE or name in _LATE_NAMES:
        import importlib

        made: _Any = importlib.import_module(_LATE_NAMES.get(name, f".{name}"), __name__)
        if name in _LATE_NAMES:
            made = getattr(made, name)
            _readable(made)
        globals()[name] = made
        return made
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _plan_figure(*told: _Any) -> None:
    __getattr__("report").plan_figure(*told)


_drawn_with(_plan_figure)
_worlds_made_with(world_of)
