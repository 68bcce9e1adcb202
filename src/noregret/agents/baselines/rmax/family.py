"""What the agents share that explore until they know: a bound on their mistakes, and values with a slack."""

from ....compiler.jit import inlined
from ....theory import pac
from ...base import Agent
from ...promise import OPTIMISM


@inlined
def add_slack(slack, values):
    """values [H+1, S] += what the known models may be off, and at most H - h."""
    H = values.shape[0] - 1
    for h in range(H):
        for s in range(values.shape[1]):
            values[h, s] = min(values[h, s] + slack[h], float(H - h))


class RmaxAgent(Agent):
    """Where `bounds_values`, all but `mistake_bound` plans are within epsilon of optimal."""

    group = "PAC"

    def _escapes(self) -> float:
        """How often pairs that are not known can be visited in all."""
        raise NotImplementedError

    @property
    def mistake_bound(self) -> float | None:
        """How many plans may be worse than optimal by more than epsilon; None without a guarantee."""
        if not self.bounds_values:
            return None
        o = self.options
        return pac.mistakes(self.problem.horizon, o["epsilon"], self._escapes(), 0.5 * o["delta"])

    def _mistakes(self) -> str:
        return (
            f"{OPTIMISM} and, if every reward is seen, at most {self.mistake_bound:.3g} plans are worse than optimal "
            f"by more than {self.options['epsilon']:g}"
        )
