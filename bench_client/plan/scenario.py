"""A scenario: the question asked and the prompts that ask it, read from TOML or JSONL."""

import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from bench_client.records import Message

PREVIOUS_ANSWER = "{previous_answer}"


DEFAULT_MAX_TOKENS = 1024
MaxTokens = Annotated[int, Meta(ge=1, le=10_000_000)]
Temperature = Annotated[float, Meta(ge=0, le=100)]


class ScenarioError(ValueError):
    """The scenario cannot be used; the message is one line that says why."""


class Prompt(Struct, frozen=True, kw_only=True):
    """One prompt. `max_tokens` null takes the command line's, else the scenario's."""

    id: str
    messages: tuple[Message, ...]
    language: str | None = None
    max_tokens: int | None = None


class Scenario(Struct, frozen=True, kw_only=True):
    """Prompts in the order in which they run. Chained: each carries the answer before it."""

    name: str
    prompts: tuple[Prompt, ...]
    warmup: tuple[Prompt, ...] = ()
    question: str = ""
    max_tokens: int = DEFAULT_MAX_TOKENS
    temperature: float | None = None
    chained: bool = False


class _Warmup(Struct, forbid_unknown_fields=True):
    content: str
    language: str | None = None


class _File(Struct, forbid_unknown_fields=True):
    """A scenario's TOML as written; scenarios/README.md explains the keys."""

    name: str
    prompts: str
    question: str = ""
    prompts_from: str | None = None
    max_tokens: MaxTokens = DEFAULT_MAX_TOKENS
    temperature: Temperature | None = None
    chained: bool = False
    warmup: tuple[_Warmup, ...] = ()


class _Line(Struct, forbid_unknown_fields=True):
    """A line of a prompts file: `prompt` or `messages`, or `extends` another line."""

    id: str | None = None
    prompt: str | None = None
    messages: tuple[Message, ...] = ()
    extends: str | None = None
    prefix: str | None = None
    language: str | None = None
    max_tokens: MaxTokens | None = None


DEFAULT_WARMUP = (
    "Explain in one paragraph why a compass needle points north.",
    "用一段话说明为什么海水是咸的。",
)


def shipped_folder() -> Path:
    """The folder of the shipped scenarios: inside the wheel, or beside it in a checkout."""
    packaged = Path(__file__).parents[1] / "_scenarios"
    return packaged if packaged.is_dir() else Path(__file__).parents[2] / "scenarios"


def shipped_names() -> list[str]:
    """Names that `--scenario` takes without a path."""
    return sorted(path.stem for path in shipped_folder().glob("*.toml"))


def load_scenario(name: str) -> Scenario:
    """Read a shipped scenario by name, or a `.toml` or `.jsonl` file.

    Raises:
        ScenarioError: no such scenario, or a line of it that cannot be read.
    """
    path = Path(name)
    if path.suffix not in {".toml", ".jsonl"}:
        path = shipped_folder() / f"{name}.toml"
        if not path.is_file():
            known = ", ".join(shipped_names())
            raise ScenarioError(f"no scenario {name!r}: give one of {known}, or a .toml or .jsonl")
    if path.suffix == ".jsonl":
        prompts = _prompts(_lines(path), {})
        return Scenario(name=path.stem, prompts=prompts, warmup=_warmup(()))
    return _from_toml(path)


def _from_toml(path: Path) -> Scenario:
    try:
        file = msgspec.convert(tomllib.loads(_read(path)), _File)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise ScenarioError(f"{path}: {error}") from error
    base: dict[str, Prompt] = {}
    if file.prompts_from:
        lines = _lines(path.parent / file.prompts_from)
        base = {prompt.id: prompt for prompt in _prompts(lines, {})}
    prompts = _prompts(_lines(path.parent / file.prompts), base)
    if file.chained:
        _check_chain(path, prompts)
    return Scenario(
        name=file.name,
        question=file.question,
        prompts=prompts,
        warmup=_warmup(file.warmup),
        max_tokens=file.max_tokens,
        temperature=file.temperature,
        chained=file.chained,
    )


def _check_chain(path: Path, prompts: tuple[Prompt, ...]) -> None:
    for index, prompt in enumerate(prompts):
        due = 1 if index else 0
        if sum(message.content.count(PREVIOUS_ANSWER) for message in prompt.messages) != due:
            often = "once" if due else "nowhere, it is the first"
            raise ScenarioError(f"{path}: prompt {prompt.id!r} must hold {PREVIOUS_ANSWER} {often}")


def _warmup(given: Iterable[_Warmup]) -> tuple[Prompt, ...]:
    lines = tuple(given) or tuple(_Warmup(content=text) for text in DEFAULT_WARMUP)
    return tuple(
        Prompt(
            id=f"warmup-{index}",
            messages=(Message("user", line.content),),
            language=line.language,
        )
        for index, line in enumerate(lines)
    )


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")  # an editor on Windows begins with a mark
    except (OSError, ValueError) as error:  # ValueError: no UTF-8, or no file name
        reason = getattr(error, "strerror", None) or error
        raise ScenarioError(f"cannot read the scenario file {path}: {reason}") from error


def _lines(path: Path) -> list[_Line]:
    found: list[_Line] = []
    # Not splitlines(): U+2028 may stand inside a prompt.
    for number, text in enumerate(_read(path).split("\n"), 1):
        if not text.strip():
            continue
        try:
            found.append(msgspec.json.decode(text, type=_Line))
        except msgspec.DecodeError as error:
            raise ScenarioError(f"{path}:{number}: {error}") from error
    if not found:
        raise ScenarioError(f"{path}: no prompts in it; give one JSON object a line")
    return found


def _prompts(lines: list[_Line], base: dict[str, Prompt]) -> tuple[Prompt, ...]:
    prompts = tuple(_prompt(index, line, base) for index, line in enumerate(lines))
    seen: set[str] = set()
    for prompt in prompts:
        if prompt.id in seen:
            raise ScenarioError(f"two prompts have the id {prompt.id!r}; ids must differ")
        seen.add(prompt.id)
    return prompts


def _prompt(index: int, line: _Line, base: dict[str, Prompt]) -> Prompt:
    name = line.id or f"prompt-{index}"
    given: dict[str, Any] = {"language": line.language, "max_tokens": line.max_tokens}
    if line.extends is not None:
        if line.extends not in base:
            raise ScenarioError(f"prompt {name!r} extends {line.extends!r}, which is not there")
        return _extended(name, line, base[line.extends], given)
    if (line.prompt is None) == (not line.messages):
        raise ScenarioError(f"prompt {name!r} needs either 'prompt' or 'messages'")
    messages = line.messages or (Message("user", line.prompt or ""),)
    return Prompt(id=name, messages=messages, **given)


def _extended(name: str, line: _Line, base: Prompt, given: dict[str, Any]) -> Prompt:
    messages = base.messages
    if line.prefix is not None:
        last = messages[-1]
        joined = Message(last.role, f"{line.prefix}\n\n{last.content}")
        messages = (*messages[:-1], joined)
    inherited = {key: value for key, value in given.items() if value is not None}
    return msgspec.structs.replace(base, id=name, messages=messages, **inherited)
