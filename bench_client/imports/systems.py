"""Headings of a note: which lines are headings, and which system one names."""

import re

_ENGINES = ("sglang", "vllm", "transformers")
_EAGLE = re.compile(r"eagle[-_ ]?(\d)?", re.IGNORECASE)
_OTHER_METHOD = re.compile(
    r"\b(mtp|medusa|ngram|n-gram|lookahead|dflash|speculative)\b|投机", re.IGNORECASE
)
_NEGATED = re.compile(
    r"(?:\b(?:without|no|not|w/o|non)\b|不使用|不用|没有|无|未使用|关闭)[\W_]*"
    r"(?:eagle|mtp|medusa|n-?gram|lookahead|dflash|speculative|投机)",
    re.IGNORECASE,
)
_SYSTEM_WORDS = re.compile(
    r"sglang|vllm|transformers|eagle|medusa|\bmtp\b|\bngram\b|baseline|vanilla|\bplain\b"
    r"|speculative|普通|基线|投机|原始",
    re.IGNORECASE,
)
_MARKS = " \t#*+->=_`~|•·:："
_PROSE = re.compile(r"[。，；！？,;!?]|\. ")
_CODE = re.compile(r"[=(){}\[\]/\\<>|\"'$]|^\s*-{1,2}\w|\w_\w|\bimport\b")
_CLOCK = re.compile(r"\d\d:\d\d:\d\d")
_LONGEST = 60


def _title(line: str) -> str | None:
    """The line without its marks, if it can be a heading at all."""
    title = line.strip().strip(_MARKS)
    if not 2 <= len(title) <= _LONGEST or not re.search(r"[^\W\d_]", title):
        return None
    marked = line.lstrip().startswith("#")
    if _CLOCK.search(line) or (not marked and (_PROSE.search(title) or _CODE.search(line))):
        return None
    return title


def system_heading(text: str) -> str | None:
    """The last line of `text` that is a heading and names an engine or a kind of decoding."""
    titles = (_title(line) for line in reversed(text.splitlines()))
    return next((title for title in titles if title and _SYSTEM_WORDS.search(title)), None)


def any_heading(text: str) -> str | None:
    """The last such line, or else the last that is marked as one, by # or a colon at its end."""
    if heading := system_heading(text):
        return heading
    for line in reversed(text.splitlines()):
        if line.lstrip().startswith("#") or line.rstrip().endswith((":", "：")):
            return _title(line)
    return None


def method_of(label: str, text: str) -> str | None:
    """The speculation that a heading names; a bare "eagle" gets the number that the file has."""
    if _NEGATED.search(label):
        return None
    if eagle := _EAGLE.search(label):
        numbers = {match.group(1) for match in _EAGLE.finditer(text)} - {None}
        number = eagle.group(1) or (numbers.pop() if len(numbers) == 1 else "")
        return f"EAGLE{number}"
    other = _OTHER_METHOD.search(label)
    if other is None:
        return None
    return (
        "speculative" if other.group().lower() in ("speculative", "投机") else other.group().upper()
    )


def server_name(label: str, engine: str, method: str | None) -> str:
    """Like the presets: `sglang-eagle3`. The heading's engine wins over that of the lines."""
    named = next((name for name in _ENGINES if name in label.lower()), engine)
    return f"{named}-{method.lower()}" if method else named
