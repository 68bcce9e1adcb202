"""What a `Referral` did, for people to read."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...checks import Floats


def decades(first: int, last: int) -> list[tuple[int, int]]:
    """1 to 10, 11 to 100, ..., cut to the individuals first to last, numbered from 1."""
    edges = [10**i for i in range(1, len(str(last)) + 1)]
    pairs = zip([1, *(e + 1 for e in edges)], edges, strict=False)
    return [(max(a, first), min(b, last)) for a, b in pairs if b >= first and a <= last]


@dataclass(frozen=True, repr=False)
class ReferralReport:
    """referred, gaps [individuals]: who was handed over, and what was compared with the threshold; first: how many
    individuals the agent had met before; proved: whether certificates hold with the agent's probability."""

    threshold: float
    criterion: str
    proved: bool
    referred: NDArray[np.bool_]
    gaps: Floats
    first: int = 0

    @property
    def episodes(self) -> int:
        return self.referred.size

    @property
    def rate(self) -> float:
        """Share handed over; nan before anybody was met."""
        return float(self.referred.mean()) if self.episodes else float("nan")

    @property
    def by_decade(self) -> list[tuple[int, int, float]]:
        """(from, to, share handed over) for individuals 1 to 10, 11 to 100, ..."""
        if not self.episodes:
            return []
        shift = self.first
        spans = decades(shift + 1, shift + self.episodes)
        return [(a, b, float(self.referred[a - 1 - shift : b - shift].mean())) for a, b in spans]

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
        spans = [(f"{a:,} to {b:,}", f"{share:.1%}") for a, b, share in self.by_decade]
        wide = max(len(span) for span, _ in spans)
        lines += [f"  {span:<{wide}}  {share:>6}" for span, share in spans]
        means = [(self.mean_referred, "referred"), (self.mean_kept, "kept")]
        said = ", ".join(f"{mean:.3g} ({who})" for mean, who in means if mean == mean)
        lines.append(f"mean {self.criterion}: {said}")
        if self.kept_bound is not None:
            lines.append(
                f"regret of the {n - m:,} kept: at most {self.kept_bound:,.1f}, the sum of their certificates, "
                "with the agent's probability"
            )
        return "\n".join(lines)
