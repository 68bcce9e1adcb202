"""What a `Referral` did, for people to read."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...checks import Floats
from .decades import ByDecade


@dataclass(frozen=True, repr=False)
class ReferralReport(ByDecade):
    """referred, gaps [individuals]: who was handed over, and is counted in rate and by_decade; what was compared with
    the threshold; first: how many individuals the agent had met before; proved: whether certificates hold with the
    agent's probability."""

    threshold: float
    criterion: str
    proved: bool
    referred: NDArray[np.bool_]
    gaps: Floats
    first: int = 0

    @property
    def counted(self) -> NDArray[np.bool_]:
        return self.referred

    @property
    def mean_referred(self) -> float:
        """Mean certificate (or doubt) of those handed over; nan if there are none."""
        return float(self.gaps[self.referred].mean()) if self.referred.any() else float("nan")

    @property
    def mean_kept(self) -> float:
        return float(self.gaps[~self.referred].mean()) if (~self.referred).any() else float("nan")

    @property
    def kept_bound(self) -> float | None:
        """The sum of the certificates of those kept: their regret is at most this, with the agent's probability.
        None where nothing is proved."""
        return float(self.gaps[~self.referred].sum()) if self.proved else None

    def __str__(self) -> str:
        n, m = self.episodes, int(self.referred.sum())
        if not n:
            return "nobody was met yet"
        lines = [f"{n:,} individuals, {m:,} referred ({self.rate:.1%}): {self.criterion} above {self.threshold:g}"]
        lines += self.span_lines()
        means = [(self.mean_referred, "referred"), (self.mean_kept, "kept")]
        said = ", ".join(f"{mean:.3g} ({who})" for mean, who in means if mean == mean)
        lines.append(f"mean {self.criterion}: {said}")
        if self.kept_bound is not None:
            lines.append(
                f"regret of the {n - m:,} kept: at most {self.kept_bound:,.1f}, the sum of their certificates, "
                "with the agent's probability"
            )
        return "\n".join(lines)
