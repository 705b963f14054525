"""What varies from repeat to repeat, told from what varies between prompts.

Formulas: docs/method.md, "Repeats".
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from bench_client.measure.figures import Ratio
from bench_client.measure.intervals import FEWEST_UNITS, FloatArray, t_quantile
from bench_client.measure.stats import detectable, two_sided

# A prompt's own gain is believed on evidence. Repeats are suspected of drifting sooner: an interval
# that leaves drift out is too sure of itself.
UNLIKE_AT, DRIFT_AT = 0.05, 0.2
MOST_REPEATS = 1000
TINY = 1e-18  # of a mean square of logarithms: rounding


@dataclass(frozen=True)
class Table:
    """Two-way analysis of variance of ln(other / baseline), a row a prompt and a column a repeat.

    Mean squares `prompts`, `repeats` and `rest`, of `n` prompts and `k` >= 2 repeats.
    """

    n: int
    k: int
    prompts: float
    repeats: float
    rest: float

    @classmethod
    def of(cls, values: FloatArray) -> "Table | None":
        """Null under 3 prompts or 2 repeats."""
        n, k = values.shape if values.ndim == 2 else (0, 0)
        if n < FEWEST_UNITS or k < 2:
            return None
        rows, columns, mean = values.mean(1), values.mean(0), values.mean()
        rest = values - rows[:, None] - columns + mean
        return cls(
            n=n,
            k=k,
            prompts=k * float(rows.var(ddof=1)),
            repeats=n * float(columns.var(ddof=1)),
            rest=float((rest**2).sum()) / ((n - 1) * (k - 1)),
        )

    @property
    def drifts(self) -> bool:
        """Whether repeats differ by more than chance."""
        return self._beyond(self.repeats, self.k - 1, DRIFT_AT)

    @property
    def gains_unlike(self) -> bool:
        """Whether prompts do."""
        return self._beyond(self.prompts, self.n - 1, UNLIKE_AT)

    def _beyond(self, square: float, freedom: int, level: float) -> bool:
        from scipy.special import fdtrc  # noqa: PLC0415 (slow to import)

        if square <= TINY or not self.rest:
            return square > TINY
        share = float(fdtrc(freedom, (self.n - 1) * (self.k - 1), square / self.rest))
        return share < level

    def spread(self) -> tuple[float, float]:
        """Standard error of the mean, drift in it, and its degrees of freedom (Satterthwaite)."""
        squares = (self.prompts, self.repeats, -self.rest)
        freedoms = (self.n - 1, self.k - 1, (self.n - 1) * (self.k - 1))
        cells = self.n * self.k
        variance = max(sum(squares), *squares) / cells
        fourth = sum((s / cells) ** 2 / f for s, f in zip(squares, freedoms, strict=True))
        return math.sqrt(variance), max(variance**2 / fourth, 1.0)

    def needed(self, target: float) -> int | None:
        """How many repeats tell a difference of `target`; null where more prompts are needed."""
        drift = max(self.repeats - self.rest, 0.0) / self.n if self.drifts else 0.0
        own, rest = 0.0, self._pooled()
        if self.gains_unlike:
            own, rest = max(self.prompts - self.rest, 0.0) / self.k, self.rest
        for k in range(2, MOST_REPEATS):
            prompts, repeats = rest + k * own, rest + self.n * drift
            error, freedom = math.sqrt(prompts / (self.n * k)), float(self.n - 1)
            if drift:
                error, freedom = Table(self.n, k, prompts, repeats, rest).spread()
            if two_sided(freedom) * error <= math.log1p(target):
                return k
        return None

    def _pooled(self) -> float:
        """Of prompts and rest, where prompts do not differ."""
        freedoms = self.n - 1, (self.n - 1) * (self.k - 1)
        return (self.prompts * freedoms[0] + self.rest * freedoms[1]) / sum(freedoms)


def with_drift(ratio: Ratio, table: Table) -> Ratio:
    """`ratio` with an interval, and a detectable difference, that hold what repeats vary by."""
    if ratio.ratio is None or ratio.ci95 is None or not table.drifts:
        return ratio
    error, freedom = table.spread()
    half = t_quantile(freedom, 0.975) * error
    low, high = (math.log(end / ratio.ratio) for end in ratio.ci95)
    own = (high - low) / 2
    factor = max(half / own, 1.0) if own > 0 else 0.0
    ends = (low * factor, high * factor) if factor else (-half, half)
    return msgspec.structs.replace(
        ratio,
        ci95=(ratio.ratio * math.exp(ends[0]), ratio.ratio * math.exp(ends[1])),
        mdd=max(ratio.mdd or 0.0, detectable(error, freedom)),
    )


def with_needed(ratio: Ratio, table: Table, target: float) -> Ratio:
    """`ratio` with the repeats that would tell `target`: more than were made, if these do not."""
    needed = table.needed(target)
    if needed is not None and ratio.mdd is not None and ratio.mdd > target:
        needed = max(needed, table.k + 1)
    return msgspec.structs.replace(ratio, recommended_repeats=needed)


def table_of(rows: Sequence[Mapping[int, float]]) -> Table | None:
    """Of ln(other / baseline) by prompt and then by repeat.

    Of the repeats that half of the prompts have at least, and of the prompts that have all of them:
    an interrupted repeat is none.
    """
    seen = Counter(repeat for row in rows for repeat in row)
    whole = [repeat for repeat, count in sorted(seen.items()) if 2 * count >= len(rows)]
    kept = [[row[repeat] for repeat in whole] for row in rows if row.keys() >= set(whole)]
    return Table.of(np.array(kept))
