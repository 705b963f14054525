"""What a report is about: the arms, and what each further arm is against the first."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import NamedTuple

from msgspec import Struct

from bench_client.measure.figures import Comparison, Summary
from bench_client.records import Run, RunHeader


class Arm(Struct, frozen=True, kw_only=True):
    """One run under the name it has in this report, unique there."""

    name: str
    run: Run
    summary: Summary


class Report(Struct, frozen=True, kw_only=True):
    """`comparisons[i]` is `arms[i + 1]` against `arms[0]`, the baseline; empty for a lone arm."""

    arms: tuple[Arm, ...]
    comparisons: tuple[Comparison, ...] = ()

    def title(self) -> str:
        """`vllm-eagle3, sglang-eagle3 against vllm`."""
        names = [arm.name for arm in self.arms]
        if not self.comparisons:
            return ", ".join(names)
        return f"{', '.join(names[1:])} against {names[0]}"

    def pairs(self) -> Iterator[tuple[Arm, Comparison]]:
        """Each arm but the baseline with its comparison."""
        return zip(self.arms[1:], self.comparisons, strict=True)


class Point(NamedTuple):
    """What is known of one request that ended well, or of one value that another tool kept.

    Points with the same `prompt` are repeats of one prompt; rates are in tok/s.
    """

    prompt: int
    name: str
    tps_decode: float | None
    tps_e2e: float | None
    accept_length: float | None


def points(arm: Arm) -> list[Point]:
    """By request; of another tool's run that kept no requests, value by value."""
    ok = [row for row in arm.summary.rows if row.outcome == "ok"]
    if ok or arm.run.header.imported is None:
        return [
            Point(
                row.prompt_index,
                row.prompt_id or row.id,
                row.tps_decode,
                row.tps_e2e,
                row.accept_length,
            )
            for row in ok
        ]
    kept = arm.run.header.imported.samples
    values = zip_longest(*(kept.get(key, ()) for key in ("tps_decode", "tps_e2e", "accept_length")))
    return [Point(i, f"value {i + 1}", *value) for i, value in enumerate(values)]


def make_report(
    runs: Sequence[tuple[Run, Summary]], comparisons: Sequence[Comparison] = ()
) -> Report:
    """A report on `runs` in their order; the second run of one name becomes `name #2`."""
    if comparisons and len(comparisons) != len(runs) - 1:
        raise ValueError(
            f"{len(runs)} runs need {len(runs) - 1} comparisons, not {len(comparisons)}"
        )
    seen: Counter[str] = Counter()
    arms = []
    for run, summary in runs:
        name = _name(run.header)
        seen[name] += 1
        unique = name if seen[name] == 1 else f"{name} #{seen[name]}"
        arms.append(Arm(name=unique, run=run, summary=summary))
    return Report(arms=tuple(arms), comparisons=tuple(comparisons))


def _name(header: RunHeader) -> str:
    imported = header.imported
    return (imported.label if imported else None) or header.server.name
