from bench_client.report.progress import Progress, progress_line


def test_line_from_counts() -> None:
    running = Progress(
        name="sim-eagle3",
        total=11,
        started=7,
        ok=6,
        failed=0,
        output_tokens=3302,
        elapsed_s=42.0,
        last_end_s=38.0,
    )
    assert progress_line(running) == (
        "sim-eagle3  7/11  ok 6 failed 0  86.89 tok/s  elapsed 0:42  ETA 0:28"
    )


def test_nothing_is_guessed_before_the_first_end() -> None:
    begun = Progress(name="sim", total=2, started=1, ok=0, failed=0, output_tokens=0, elapsed_s=3.2)
    assert progress_line(begun) == "sim  1/2  ok 0 failed 0  - tok/s  elapsed 0:03  ETA -"


def test_failures_count_towards_the_end_and_the_eta_is_never_negative() -> None:
    late = Progress(
        name="sim",
        total=4,
        started=4,
        ok=1,
        failed=2,
        output_tokens=900,
        elapsed_s=90.0,
        last_end_s=6.0,
    )
    assert progress_line(late) == ("sim  4/4  ok 1 failed 2  150.0 tok/s  elapsed 1:30  ETA 0:00")
