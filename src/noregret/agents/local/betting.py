"""Which agents bet against their model, and how closely."""

from typing import Any

import numpy as np

from ...compiler.memory import apart
from ...estimators.audit import CLOSE, audit_parts
from ...problem.links import MultinomialLogit
from ...problem.problem import Problem
from ..base import Trajectory
from .audit import audit_blocks, audit_pairs, call_audit
from .sets import SetPar, SetState, SetWork


class Betting:
    """For agents with local sets (`agents.local.family`)."""

    problem: Problem
    par: Any
    work: Any
    sets: str
    uses_sets: bool
    _own_state: Any

    @property
    def bets(self) -> bool:
        """Whether the model is bet against along the way (`estimators.audit`): online sets know what that costs."""
        return self.uses_sets and self.sets == "online" and isinstance(self.problem.link, MultinomialLogit)

    def bet_closely(self) -> None:
        """Bet with all components, whatever that costs, from the first individual on: for who goes through a log."""
        par, state, work = apart(audit_parts(self.problem, CLOSE, close=True))
        self.par, self.work = self.par._replace(audit=par), self.work._replace(audit=work)
        self._own_state = self._own_state._replace(audit=state)

    def _bets(self, par: SetPar, state: SetState, work: SetWork) -> Any:
        """Slot of what bets."""
        path = Trajectory(work.policy[0], work.policy[0], np.zeros(self.problem.horizon))
        bets = audit_pairs if self.problem.design is None else audit_blocks
        return call_audit.fill(bets, par, state, work, np.zeros(self.problem.context_dim), 0, path)
