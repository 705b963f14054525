import re
from html.parser import HTMLParser

from msgspec.structs import replace

from bench_client.records import Events
from bench_client.report import html
from bench_client.report.arms import Report, make_report
from bench_client.report.panels import MAX_POINTS, cumulative_tokens

from . import building, samples

VOID = {"meta", "br"}


class Reader(HTMLParser):
    """Fails on tags that do not match; keeps the text, tags and what attributes point to."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.links: list[str] = []
        self.text = ""
        self.feed(page)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href", "xmlns")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += f"{data}\n"


def compared() -> Report:
    return make_report([samples.sglang(), samples.eagle3()], [samples.comparison()])


def test_it_parses_and_needs_nothing_from_outside() -> None:
    page = html.report(compared())
    reader = Reader(page)
    assert reader.tags.count("svg") == 3
    assert not reader.links
    assert not {"script", "link", "img", "iframe"} & set(reader.tags)
    assert not re.findall(r"https?:|url\(|@import|//[a-z]", page)
    for figure in ("2.04x", "[1.88, 2.19]", "89.71", "3.87", "1.90"):
        assert figure in reader.text


def test_what_each_request_was_and_did() -> None:
    run, found = samples.eagle3()
    text = Reader(html.report(make_report([(run, found)]))).text
    said = text[text.index("sha256") :].split("\n")
    first = said[said.index("chain-01") :][:13]
    assert first[1] == "00000001"
    assert (first[7], first[11], first[12]) == ("14,516", "327", "43.0")
    for part in ("1024+", "1,237", "3.31", "is of 10 of 11 answers"):
        assert part in text


def test_failures_come_first() -> None:
    text = Reader(html.report(make_report([samples.failing()]))).text
    body = text[text.rindex("}") :]
    said = body.index("3 of 11 requests failed: stall 2, reset 1")
    assert said < body.index("invalid") < body.index("TTFT")


def test_what_others_wrote_stays_text() -> None:
    run, found = samples.eagle3()
    evil = "<script>alert(1)</script>\x1b&\"'"
    row = replace(found.rows[0], prompt_id=evil, finish_reason=evil, language=evil)
    server = replace(run.header.server, name=evil, model=evil, engine=evil)
    header = replace(run.header, server=server, argv=(evil,), environment={evil: evil}, note=evil)
    arm = (replace(run, header=header), replace(found, rows=(row,)))
    against = replace(samples.comparison(), warnings=(evil,), unpaired_reason=evil)
    page = html.report(make_report([arm, arm], [against]))
    assert "script" not in Reader(page).tags
    assert "\x1b" not in page


def test_paired_prompts_make_the_speedup_chart() -> None:
    paired = replace(samples.comparison(), paired=True, rows=samples.pair_rows())
    page = html.report(make_report([samples.sglang(), samples.eagle3()], [paired]))
    assert "chain-09: accept length 4.65, 2.45x" in page
    assert "break-even 1.90" in page


def test_no_chart_without_data() -> None:
    run, found = samples.sglang()
    bare = (replace(run, records=()), replace(found, rows=()))
    assert "svg" not in Reader(html.report(make_report([bare]))).tags


def test_imported_values_are_drawn_where_no_requests_were_kept() -> None:
    run, found = samples.imported()
    assert run.header.imported
    kept = replace(run.header.imported, samples={"tps_e2e": (42.86, 42.70)})
    arm = (replace(run, header=replace(run.header, imported=kept)), found)
    page = html.report(make_report([arm]))
    assert "value 2: 42.70 tok/s" in page
    assert "TPS e2e (tok/s)" in page


def test_timeline_adds_up_every_token() -> None:
    run, found = samples.eagle3()
    points = cumulative_tokens(run)
    assert points[-1][1] == found.output_tokens == sum(building.OUT)
    assert points == sorted(points)
    assert points[0] == (0.478, 112)


def test_timeline_counts_a_request_of_unknown_events_at_its_end() -> None:
    run, _ = samples.sglang()
    record = replace(run.records[0], events=Events((1, 2), (1, None)))
    assert record.last_token_ns
    assert cumulative_tokens(replace(run, records=(record,))) == [
        (record.last_token_ns / 1e9, 1128)
    ]


def test_timeline_is_thinned_but_ends_at_the_end() -> None:
    run, _ = samples.sglang()
    many = Events(tuple(range(0, 10**9, 10**5)), (1,) * 10**4)
    points = cumulative_tokens(replace(run, records=(replace(run.records[0], events=many),)))
    assert len(points) <= MAX_POINTS
    assert points[-1] == (0.9999, 10**4)
