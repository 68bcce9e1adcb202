"""What a `Conservative` did, for people to read."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...checks import Floats
from .decades import ByDecade


@dataclass(frozen=True, repr=False)
class ConservativeReport(ByDecade):
    """held [individuals]: who got the baseline, and is counted in rate and by_decade; margins: at least what the
    agent's plan for them is worth above 1 - alpha of the baseline; budgets: the account after each of them; first: how
    many individuals the agent had met before; proved: whether all of it holds with the agent's probability."""

    alpha: float
    proved: bool
    held: NDArray[np.bool_]
    margins: Floats
    budgets: Floats
    first: int = 0

    @property
    def counted(self) -> NDArray[np.bool_]:
        return self.held

    @property
    def budget(self) -> float:
        """The account now: at least how much more all plans so far are worth than 1 - alpha of the baseline."""
        return float(self.budgets[-1]) if self.episodes else 0.0

    def __str__(self) -> str:
        n, m = self.episodes, int(self.held.sum())
        if not n:
            return "nobody was met yet"
        lines = [f"{n:,} individuals, {m:,} got the baseline ({self.rate:.1%}): alpha {self.alpha:g}"]
        lines += self.span_lines()
        if self.proved:
            lines.append(
                f"all plans together: at least {self.budget:,.1f} more than {1.0 - self.alpha:g} of the baseline, "
                "with the agent's probability"
            )
        return "\n".join(lines)
