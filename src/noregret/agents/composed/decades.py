"""How often somebody else stepped in, as the population went by: what the reports of pairs of agents share."""

import numpy as np
from numpy.typing import NDArray


def decades(first: int, last: int) -> list[tuple[int, int]]:
    """1 to 10, 11 to 100, ..., cut to the individuals first to last, numbered from 1."""
    edges = [10**i for i in range(1, len(str(last)) + 1)]
    pairs = zip([1, *(e + 1 for e in edges)], edges, strict=False)
    return [(max(a, first), min(b, last)) for a, b in pairs if b >= first and a <= last]


class ByDecade:
    """A report on individuals in order, of whom some are counted: `counted` [individuals]. first: how many the agent
    had met before."""

    first: int

    @property
    def counted(self) -> NDArray[np.bool_]:
        raise NotImplementedError

    @property
    def episodes(self) -> int:
        return self.counted.size

    @property
    def rate(self) -> float:
        """Share of those counted; nan before anybody was met."""
        return float(self.counted.mean()) if self.episodes else float("nan")

    @property
    def by_decade(self) -> list[tuple[int, int, float]]:
        """(from, to, share of those counted) for individuals 1 to 10, 11 to 100, ..."""
        if not self.episodes:
            return []
        shift = self.first
        spans = decades(shift + 1, shift + self.episodes)
        return [(a, b, float(self.counted[a - 1 - shift : b - shift].mean())) for a, b in spans]

    def span_lines(self) -> list[str]:
        """`by_decade` for people, a line each."""
        spans = [(f"{a:,} to {b:,}", f"{share:.1%}") for a, b, share in self.by_decade]
        wide = max(len(span) for span, _ in spans)
        return [f"  {span:<{wide}}  {share:>6}" for span, share in spans]
