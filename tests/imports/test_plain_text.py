"""Bytes and text as terminals, mails and logs hand them on."""

import pytest

from bench_client.imports.files import import_file
from bench_client.imports.plain_text import decoded, line_of, plain
from tests.imports.fixtures import imported, text

BLOCK = text("golden/sglang_0.5.6_spec.txt")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_encodings(encoding: str) -> None:
    assert plain(decoded(f"## 实验 plain\n{BLOCK}".encode(encoding))) == f"## 实验 plain\n{BLOCK}"


def test_bytes_of_no_encoding_are_still_text() -> None:
    assert decoded(b"a\xff\n") == "a\ufffd\n"
    assert decoded(b"") == ""


@pytest.mark.parametrize(
    "prefix",
    [
        "> ",
        ">> ",
        "  > > ",
        "[rank0]: ",
        "[2026-11-30 15:34:13 TP0] ",
        "2026-11-30T15:34:13.123Z ",
        "INFO 11-30 15:34:13 [serve.py:12] ",
        "(APIServer pid=123) ",
        "bench-client-1  | ",
        "0: ",
        "Nov 30 15:34:13 node7 bench[123]: ",
        "2026-11-30 15:34:13.123 | INFO     | __main__:bench:12 - ",
        "\x1b[32m",
        "\x1b[1;31m[rank0]:\x1b[0m ",
    ],
)
def test_blocks_with_something_before_each_line(prefix: str) -> None:
    [run] = import_file("n", "".join(f"{prefix}{line}\n" for line in BLOCK.splitlines()))
    [original] = import_file("n", BLOCK)
    assert imported(run).figures == imported(original).figures
    assert imported(run).findings == imported(original).findings


def test_quoted_headings_and_pythons_prompt() -> None:
    quoted = "> ## vLLM + EAGLE3\n> " + BLOCK.replace("\n", "\n> ")
    [run] = import_file("n", quoted)
    assert imported(run).label == "vLLM + EAGLE3"
    assert plain(">>> x\n> y\n\x1b]0;title\x07z") == ">>> x\ny\nz"


def test_lines_are_counted_from_one() -> None:
    assert [line_of("a\nb\nc", at) for at in (0, 2, 4)] == [1, 2, 3]
