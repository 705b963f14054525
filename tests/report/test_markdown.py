import re
from pathlib import Path

from msgspec.structs import replace

from bench_client.records import RunHeader
from bench_client.report import markdown
from bench_client.report.arms import make_report

from . import samples

GOLDEN = Path(__file__).parent.parent / "fixtures" / "report"


def compared() -> str:
    return markdown.report(
        make_report([samples.sglang(), samples.eagle3()], [samples.comparison()])
    )


def with_argv(header: RunHeader, *argv: str) -> RunHeader:
    return replace(header, argv=argv)


def test_golden() -> None:
    assert compared() == (GOLDEN / "comparison.md").read_text(encoding="utf-8")


def test_title_of_one_of_many_and_of_a_comparison() -> None:
    one, other, third = samples.sglang(), samples.eagle3(), samples.imported()
    assert make_report([one]).title() == "sglang"
    assert make_report([one, other]).title() == "sglang, sglang-eagle3"
    compared = make_report([one, other, third], [samples.comparison()] * 2)
    assert compared.title() == "sglang-eagle3, vllm against sglang"


def test_every_table_row_has_as_many_cells_as_its_head() -> None:
    tables = re.findall(r"(?:^\|.*\|\n)+", compared(), re.MULTILINE)
    assert len(tables) == 7
    for table in tables:
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}) == 1


def test_failures_come_before_everything_else() -> None:
    lines = markdown.report(make_report([samples.failing()])).splitlines()
    assert lines[2] == "**sglang-eagle3: 3 of 11 requests failed: stall 2, reset 1**"


def test_what_others_wrote_stays_text() -> None:
    run, found = samples.failing()
    row = replace(found.rows[0], prompt_id="a|b\n<img src=x> *c* [d](http://e) `f`")
    text = markdown.report(make_report([(run, replace(found, rows=(row,)))]))
    assert r"| a\|b &lt;img src=x> \*c\* [d\](http://e) \`f\` |" in text


def test_a_fence_is_longer_than_any_in_the_command() -> None:
    run, found = samples.sglang()
    header = with_argv(run.header, "bench-client", "run", "````")
    text = markdown.report(make_report([(replace(run, header=header), found)]))
    assert "`````sh\nbench-client run '````'\n`````" in text


def test_telemetry_and_environment_are_listed() -> None:
    run, found = samples.sglang()
    telemetry = {"gpu": [{"util": {"mean": 91.25, "min": 80.0, "max": 99.0}}], "throttled": False}
    text = markdown.report(make_report([(run, replace(found, telemetry=telemetry))]))
    assert "- gpu.0.util: mean 91.25, min 80, max 99\n- throttled: no" in text
    assert "- gpu.name: NVIDIA L40" in text


def test_why_accept_length_along_the_answer_is_not_known() -> None:
    run, found = samples.eagle3()
    why = "nothing counts the verify steps"
    unknown = replace(samples.speculation(), by_answer_position=(), by_answer_position_note=why)
    text = markdown.report(make_report([(run, replace(found, speculation=unknown))]))
    assert f"Accept length along the answer is not known: {why}." in text
    assert "answer tokens" not in text


def test_prompts_without_a_hash_have_no_column_of_it() -> None:
    run, found = samples.sglang()
    rows = tuple(replace(row, prompt_sha256=None) for row in found.rows)
    text = markdown.report(make_report([(run, replace(found, rows=rows))]))
    assert "sha256" not in text


def test_a_file_of_thousands_of_rows_is_cut() -> None:
    run, found = samples.sglang()
    rows = tuple(replace(found.rows[0], id=f"q{i}", prompt_index=i) for i in range(1500))
    text = markdown.report(make_report([(run, replace(found, rows=rows))]))
    assert "500 more requests are in requests.jsonl." in text
