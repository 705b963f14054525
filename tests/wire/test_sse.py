import re
import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench_client.wire.sse import Progress, SseError, SseParser, whole_events

from .captured import GENERATE, NAMES, SGLANG_TREE, VLLM_METRICS, body, timed_events


def parse(*feeds: bytes) -> list[bytes]:
    parser = SseParser()
    return [payload for data in feeds for payload in parser.feed(data)]


def by_the_letter(stream: bytes) -> list[bytes]:
    """The standard's algorithm, read out line by line over the whole stream."""
    events, data = [], b""
    lines = re.split(rb"\r\n|\n|\r", stream.removeprefix(b"\xef\xbb\xbf"))
    for line in lines[:-1]:  # what follows the last line end is no line yet
        if not line:
            if data:
                events.append(data[:-1])
            data = b""
        elif line == b"data":
            data += b"\n"
        elif line.startswith(b"data:"):
            value = line[5:]
            data += (value[1:] if value[:1] == b" " else value) + b"\n"
    return events


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        pytest.param(b"data: a\n\n", [b"a"], id="lf"),
        pytest.param(b"data: a\r\n\r\n", [b"a"], id="crlf"),
        pytest.param(b"data: a\r\r", [b"a"], id="cr"),
        pytest.param(b"data: a\r\n\ndata: b\n\r\ndata: c\r\n\r", [b"a", b"b", b"c"], id="mixed"),
        pytest.param(b"data: a\r\ndata: b\r\n\r\n", [b"a\nb"], id="crlf-within"),
        pytest.param(b"data: a\rdata: b\n\n", [b"a\nb"], id="cr-within"),
        pytest.param(b"data: a\nd", [], id="cut-in-the-second-line"),
        pytest.param(b"data:a\n\ndata:  b\n\n", [b"a", b" b"], id="one-space-is-dropped"),
        pytest.param(b"data:  a\ndata:  b\n\n", [b" a\n b"], id="one-space-of-each-line"),
        pytest.param(b": ping\n\n:\ndata: a\n: x\n\n", [b"a"], id="comments"),
        pytest.param(b"event: e\nid: 1\nretry: 9\ndata: a\n\n", [b"a"], id="other-fields"),
        pytest.param(b"event: e\n\n", [], id="no-data"),
        pytest.param(b"data:\n\ndata: \n\n", [b"", b""], id="empty-data"),
        pytest.param(b"data\n\ndata\ndata\n\ndata:", [b"", b"\n"], id="the-standard's-own-example"),
        pytest.param(b"data: a\ndata: b\ndata:\n\n", [b"a\nb\n"], id="lines-joined"),
        pytest.param(b"datum: a\ndata2: b\n data: c\n\n", [], id="other-names"),
        pytest.param(b"\n\n\ndata: a\n\n\n\n\ndata: b\n\n\n", [b"a", b"b"], id="blank-lines"),
        pytest.param(b"\xef\xbb\xbfdata: a\n\n", [b"a"], id="bom"),
        pytest.param(b"\xef\xbb\xbf\n\ndata: a\n\n", [b"a"], id="bom-on-a-blank-line"),
        pytest.param(b"data: a\n\n\xef\xbb\xbfdata: b\n\n", [b"a"], id="no-bom-later"),
        pytest.param(
            "data: 一\u2028二\u2029\x85\x0b\x0c\n\n".encode(),
            ["一\u2028二\u2029\x85\x0b\x0c".encode()],
            id="only-cr-and-lf-end-lines",
        ),
        pytest.param(b'data: {"a": "b:c"}\n\n', [b'{"a": "b:c"}'], id="colon-in-value"),
        pytest.param(b"data: \xff\xfe\x00\n\n", [b"\xff\xfe\x00"], id="not-utf8"),
        pytest.param(b"data: a", [], id="unterminated"),
        pytest.param(b"data: a\n", [], id="no-blank-line"),
        pytest.param(b"", [], id="nothing"),
    ],
)
def test_known_streams(stream: bytes, events: list[bytes]) -> None:
    assert by_the_letter(stream) == events
    assert parse(stream) == events
    assert parse(*(stream[i : i + 1] for i in range(len(stream)))) == events
    for cut in range(len(stream) + 1):
        assert parse(stream[:cut], b"", stream[cut:]) == events
    later = b"data: 0\n\n" + stream  # the stream is now one feed after an event
    assert parse(later[:9], stream) == by_the_letter(later)


def test_an_event_belongs_to_the_feed_that_ends_it() -> None:
    parser = SseParser()
    assert parser.feed(b"data: a\n\ndata: b\n\nda") == [b"a", b"b"]
    assert parser.feed(b"ta: c\n") == []
    assert parser.feed(b"\ndata: d\r\n\r") == [b"c", b"d"]
    assert parser.feed(b"\n") == []


@pytest.mark.parametrize(
    ("stream", "pending"),
    [
        (b"", False),
        (b"data: a\n\n", False),
        (b"data: a\r\n\r", False),
        (b"data: a\n\n: ping", False),
        (b"data: a\n\n\n", False),
        (b"data: a\n\n: ping\nda", True),
        (b"data: a\n", True),
        (b"\xef\xbb\xbf", False),
    ],
)
def test_pending_tells_of_a_lost_event(stream: bytes, pending: bool) -> None:
    parser = SseParser()
    parser.feed(stream)
    assert parser.pending is pending


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_an_event_above_the_bound_is_an_error(size: int) -> None:
    def feed(stream: bytes) -> list[bytes]:
        parser = SseParser(max_event_bytes=100)
        parser.feed(b"data: x\n\n")
        chunks = (stream[i : i + size] for i in range(0, len(stream), size))
        return [payload for chunk in chunks for payload in parser.feed(chunk)]

    fits = b"data: " + b"x" * 92 + b"\n\n"
    assert feed(fits * 2) == [b"x" * 92] * 2
    for too_long in (b"data: " + b"x" * 93 + b"\n\n", b": " + b"x" * 99, b":\n" * 51):
        with pytest.raises(SseError, match="100 bytes"):
            feed(too_long)


@pytest.mark.parametrize("name", NAMES)
def test_captured_streams_under_every_line_end(name: str) -> None:
    expected = [data[6:-2] for _, data in timed_events(name)]
    stream = body(name)
    assert expected[-1] == b"[DONE]"
    assert parse(stream) == expected
    assert parse(*(data for _, data in timed_events(name))) == expected
    assert parse(b"\xef\xbb\xbf" + stream.replace(b"\n", b"\r\n")) == expected
    assert parse(stream.replace(b"\n", b"\r").replace(b"data: ", b": hi\rdata:")) == expected


def test_every_cut_of_a_whole_stream() -> None:
    stream = body(GENERATE).replace(b"\n", b"\r\n")
    expected = [data[6:-2] for _, data in timed_events(GENERATE)]
    for cut in range(len(stream)):
        assert parse(stream[:cut], stream[cut:]) == expected


@pytest.mark.parametrize("name", [SGLANG_TREE, VLLM_METRICS])
def test_every_cut_of_every_event_between_its_neighbours(name: str) -> None:
    events = [b": ping\n\n", *(data for _, data in timed_events(name))]
    for before, event, after in zip(events, events[1:], events[2:], strict=False):
        expected = parse(before + event + after)
        for cut in range(len(event)):
            assert parse(before + event[:cut], event[cut:] + after) == expected


@given(st.lists(st.integers(0, len(body(VLLM_METRICS))), max_size=40))
def test_any_cuts_of_a_captured_stream(cuts: list[int]) -> None:
    stream = body(VLLM_METRICS)
    edges = [0, *sorted(cuts), len(stream)]
    feeds = (stream[a:b] for a, b in pairwise(edges))
    assert parse(*feeds) == [data[6:-2] for _, data in timed_events(VLLM_METRICS)]


pieces = st.sampled_from(
    [b"data", b":", b" ", b"\n", b"\r", b"\r\n", b"\n\n", b"data: x\n\n", b"data: y\r\n",
     b"data: z\r", b"\xef\xbb\xbf", b"x", "语\u2028".encode(), b"id: 1\n", b"\xe8", b": c\n"]
)  # fmt: skip


@given(st.lists(st.lists(pieces, max_size=8).map(b"".join), max_size=12))
def test_any_feeds_give_what_the_standard_says_of_the_whole(feeds: list[bytes]) -> None:
    assert parse(*feeds) == by_the_letter(b"".join(feeds))


@given(st.lists(st.binary(max_size=60)), st.integers(0, 60))
def test_arbitrary_bytes_raise_nothing_else(feeds: list[bytes], bound: int) -> None:
    parser = SseParser(max_event_bytes=bound)
    try:
        for data in feeds:
            assert all(isinstance(payload, bytes) for payload in parser.feed(data))
    except SseError:
        pass
    assert parser.pending in {True, False}


@given(st.lists(st.lists(pieces, max_size=8).map(b"".join), max_size=12))
def test_whole_events_are_what_a_parser_makes_of_them(feeds: list[bytes]) -> None:
    parser = SseParser()
    parsed = [(number, data) for number, feed in enumerate(feeds) for data in parser.feed(feed)]
    assert whole_events(list(enumerate(feeds))) in (None, parsed)


@pytest.mark.parametrize("name", NAMES)
def test_a_captured_stream_needs_no_parser(name: str) -> None:
    events = timed_events(name)
    said = [(at_ns, data[6:-2]) for at_ns, data in events]
    assert whole_events(events) == said
    first_at, second_at = events[0][0], events[1][0]
    joined = whole_events([(second_at, events[0][1] + events[1][1]), *events[2:]])
    assert joined == [(second_at, said[0][1]), *said[1:]] != said or first_at == second_at
    assert whole_events([(0, events[0][1][:-1]), (1, b"\n" + events[1][1])]) is None


def cpu_seconds(feeds: list[bytes]) -> float:
    def once() -> float:
        began = time.thread_time()
        parse(*feeds)
        return time.thread_time() - began

    return min(once() for _ in range(3))


def test_many_events_in_one_feed_take_linear_time() -> None:
    event = b"data: " + b"x" * 100 + b"\n\n"
    assert cpu_seconds([event * 20_000]) < 10 * cpu_seconds([event * 5_000])


def test_one_event_in_many_feeds_takes_linear_time() -> None:
    def single_bytes(length: int) -> list[bytes]:
        return [b"data: ", *([b"x"] * length), b"\n\n"]

    # four times the bytes: 4 if linear; searching all of the buffer anew makes it 12 and more
    assert cpu_seconds(single_bytes(120_000)) < 9 * cpu_seconds(single_bytes(30_000))


def progress(*pieces: bytes) -> list[bool]:
    watched = Progress()
    return [watched.made_by(piece) for piece in pieces]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize(
    ("line", "made"),
    [
        (b"data: x", True),
        (b"data:x", True),
        (b"data: [DONE]", True),
        (b": ping", False),
        (b": data keepalive", False),
        (b":data: keepalive", False),
        (b"data: ", False),
        (b"data:", False),
        (b"data", False),
        (b"event: data: x", False),
        (b"datax: y", False),
    ],
)
def test_only_data_is_progress_however_it_is_cut(line: bytes, made: bool, end: bytes) -> None:
    event = line + end + end
    for cut in range(len(event) + 1):
        assert any(progress(event[:cut], event[cut:])) == made
    assert any(progress(*(event[i : i + 1] for i in range(len(event))))) == made
    assert progress(event, event, event)[1:] == [made, made]


def test_the_rest_of_an_event_is_no_further_progress() -> None:
    assert progress(b"data: x", b"data: y", b"\n", b"\ndata: z") == [True, False, False, True]


def test_events_are_counted_once_each() -> None:
    stream = b": ping\n\n" + b"data: data: x\n\n" * 5 + b"data: [DONE]\r\n\r\n"
    for size in (1, 3, 7, len(stream)):
        watched = Progress()
        for begin in range(0, len(stream), size):
            watched.made_by(stream[begin : begin + size])
        assert watched.events == 6


@given(st.lists(st.sampled_from([b"data", b":", b" ", b"x", b"\n", b"\r", b"\r\n"])), st.data())
def test_progress_agrees_with_the_parser(parts: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    # Every line is ended, so that the parser too sees what has begun.
    events = parse(*pieces, b"\n\n")
    assert any(progress(*pieces)) == any(event.strip(b"\n") for event in events)
