"""From a server's log to its first real error and what to do about it. Pure.

The root cause is seldom the last line: an engine's parent process ends with an error of its own
("See root cause above"), and shutdown adds more. So the errors are read bottom-up, those that only
pass on another's end are skipped, and the first one that the table knows wins; failing that, the
lowest one is shown as it is.
"""

import re

from msgspec import Struct

from .causes import DOOMED, RULES, SECOND_HAND
from .rules import Rule

MAX_LINE = 220
NEAR_LINES = 80  # of traceback above an error that may tell where it arose
MAX_ERRORS = 12

# What each process puts before its lines: vLLM "(EngineCore pid=7) ERROR 11-30 15:04:53 [a.py:1]",
# SGLang's "[2026-11-30 15:32:00 TP0]", uvicorn's "ERROR:".
PREFIX = re.compile(
    r"^(?:\(\w+(?: \w+=\w+)* pid=\d+\) ?)?"
    r"(?:ERROR \d\d-\d\d \d\d:\d\d:\d\d \[[^\]]*\] ?)?"
    r"(?:\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[^\]]*\] ?)?"
    r"(?:ERROR: +)?"
)
ERROR = re.compile(
    r"^(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Exit)(?:: |:?$)"  # the end of a traceback
    r"|^[\w. -]+: error: "  # argparse
    r"|^\[Errno \d+\]"  # uvicorn
    r"|^Error: |^Fatal Python error|watchdog timeout"
)
NEW_STATEMENT = re.compile(
    r"^(?:Traceback|During handling|The above exception|  File |Process |INFO|WARNING|\[|\(|$)"
)
# Module paths, and pydantic's words around the message of a failed check.
NOISE = re.compile(
    r"^(?:\w+\.)+(?=[A-Z])|\d+ validation errors? for \w+\s+Value error, | ?\[type=.*$"
)


class Cause(Struct, frozen=True, kw_only=True):
    """Why a server failed. `kind` names the rule, "unknown" where none fits."""

    kind: str
    line: str
    advice: str = ""

    def __str__(self) -> str:
        """Cause and advice in one line."""
        return f"{self.line} → {self.advice}" if self.advice else self.line


def diagnose(
    log: str, engine: str, *, speculative: bool, returncode: int | None = None
) -> Cause | None:
    """The first real error of `log`, or None if it shows none and the server was not killed.

    `speculative`: whether a draft model was loaded, and may be what does not fit.
    """
    lines = [_split(line) for line in log.replace("\r", "\n").splitlines()]
    errors = [at for at in range(len(lines) - 1, -1, -1) if ERROR.search(lines[at][1])]
    first_hand = [at for at in errors if not SECOND_HAND.search(lines[at][1])]
    rules = [
        rule
        for rule in RULES
        if engine in (rule.engines or (engine,)) and (speculative or not rule.speculative)
    ]
    for candidates in (first_hand[:MAX_ERRORS], errors[:MAX_ERRORS]):
        for at in candidates:
            rule = _match(rules, lines, at, lowest=at == candidates[0])
            if rule:
                return Cause(kind=rule.kind, line=_shown(lines, at), advice=rule.advice)
        if candidates:
            return Cause(kind="unknown", line=_shown(lines, candidates[0]))
    return _killed(returncode)


def doomed(log: str) -> bool:
    """Whether a part of the server has failed for good, though its process may live on."""
    return DOOMED.search(log) is not None


def _split(line: str) -> tuple[str, str]:
    """What the process put before a line, and the line."""
    prefix = PREFIX.match(line)
    end = prefix.end() if prefix else 0
    return line[:end], line[end:]


def _match(
    rules: list[Rule], lines: list[tuple[str, str]], at: int, *, lowest: bool
) -> Rule | None:
    statement = _statement(lines, at)
    near = "\n".join(text for _, text in lines[max(0, at - NEAR_LINES) : at + 1])
    for rule in rules:
        if rule.lowest_only and not lowest:
            continue
        if re.search(rule.pattern, statement) and re.search(rule.near, near):
            return rule
    return None


def _statement(lines: list[tuple[str, str]], at: int) -> str:
    """The error at line `at` with the lines that continue it, as one line."""
    prefix, text = lines[at]
    parts = [text.strip()]
    for other_prefix, more in lines[at + 1 : at + 5]:
        if NEW_STATEMENT.match(more) or other_prefix not in ("", prefix):
            break
        parts.append(more.strip())
    return " ".join(parts)


def _shown(lines: list[tuple[str, str]], at: int) -> str:
    text = NOISE.sub("", _statement(lines, at))
    return text if len(text) <= MAX_LINE else text[: MAX_LINE - 1].rstrip() + "…"


def _killed(returncode: int | None) -> Cause | None:
    """SGLang kills itself with SIGKILL after logging an error; without one it was the kernel."""
    if returncode not in (-9, 137):
        return None
    return Cause(
        kind="host_oom",
        line="killed without an error in its log",
        advice="most likely the machine ran out of memory (dmesg -T | grep -i oom): close other"
        " programs or use a smaller model",
    )
