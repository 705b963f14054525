"""When each request of an open loop is due."""

import numpy as np


def arrivals_ns(count: int, rate: float, burstiness: float, seed: int) -> list[int]:
    """Instants of `count` requests at `rate` per second, ns from the start, the first at 0.

    Gaps are gamma distributed with shape `burstiness` and mean 1/rate: 1 is a Poisson process,
    below 1 burstier, above 1 more even. They are not rescaled to end at count/rate: that would
    take the randomness out of the total, which queueing depends on.
    """
    generator = np.random.default_rng(seed)
    gaps = generator.gamma(burstiness, 1 / (rate * burstiness), size=max(count - 1, 0))
    instants = np.concatenate(([0.0], np.cumsum(gaps)))[:count]
    return [int(instant) for instant in np.rint(instants * 1e9)]
