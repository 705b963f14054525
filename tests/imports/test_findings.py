"""What is and is not concluded from aggregates that contradict each other."""

from bench_client.imports.findings import bench_findings, decoding_concurrency
from bench_client.records import Load

FIGURES = {
    "requests.ok": 10.0,
    "duration_s": 2.0,
    "output_tokens": 500.0,
    "ttft_ms.mean": 50.0,
    "e2e_ms.mean": 90.0,
    "itl_ms.mean": 0.8,
}


def test_an_e2e_below_the_ttft_says_nothing_of_decoding() -> None:
    assert decoding_concurrency(FIGURES) == 0.2
    swapped = {**FIGURES, "ttft_ms.mean": 90.0, "e2e_ms.mean": 50.0}
    assert decoding_concurrency(swapped) is None
    found = " ".join(bench_findings(swapped, Load(kind="open"), None))
    assert "decoding:" not in found
    assert "does not agree" not in found
    assert "of them decoding" in " ".join(bench_findings(FIGURES, Load(kind="open"), None))
