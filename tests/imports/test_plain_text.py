"""Bytes and text as terminals, mails and logs hand them on."""

import pytest

from bench_client.imports.files import import_bytes, import_file
from bench_client.imports.plain_text import decoded, line_of, plain
from tests.imports.fixtures import imported, text

BLOCK = text("golden/sglang_0.5.6_spec.txt")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_encodings(encoding: str) -> None:
    assert plain(decoded(f"## 实验 plain\n{BLOCK}".encode(encoding))) == f"## 实验 plain\n{BLOCK}"


@pytest.mark.parametrize("encoding", ["gbk", "gb18030"])
def test_a_note_of_a_chinese_windows(encoding: str) -> None:
    note = text("notes/llama-8b-sharegpt.txt")
    found, expected = import_bytes("n", note.encode(encoding)), import_bytes("n", note.encode())
    assert [imported(run) for run in found] == [imported(run) for run in expected]
    assert [run.header.server for run in found] == [run.header.server for run in expected]


def test_utf_16_of_mostly_chinese_is_told_by_what_follows() -> None:
    note = "实验结果如下，" * 200 + "\n" + BLOCK * 2
    assert decoded(note.encode("utf-16-le")) == note


@pytest.mark.parametrize(
    "data", [b"a\xff\n", b"\x1f\x8b\x08\x00\xd0\xaf\xff\xff", b"\xff\xfe\x00\xd8a\x00"]
)
def test_bytes_of_no_encoding_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"^x\.bin: no text in UTF-8, .*: save it as UTF-8$"):
        import_bytes("x.bin", data)


def test_a_byte_that_is_broken_costs_no_more_than_itself() -> None:
    """As where two processes wrote to one log."""
    note = text("notes/llama-8b-sharegpt.txt").encode()
    at = note.index("实".encode() if "实".encode() in note else b"\n")
    assert decoded(note[:at] + b"\xff" + note[at:]).replace("\ufffd", "") == note.decode()
    assert decoded(b"decode batch\n" * 99 + b"\xff\n").endswith("batch\n\ufffd\n")


def test_a_character_may_be_cut_at_either_end() -> None:
    assert decoded("你好".encode()[1:-1]) == ""
    assert decoded("你a好".encode()[2:-1]) == "a"
    assert decoded("ab".encode("utf-16")[:-1]) == "\ufeffa"
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
