"""Keys and passwords: what they are in what was given, and text without them. Pure."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from bench_client.records import Failure

HIDDEN = "***"
# Shorter values stand in any message by chance: secrets, and values of which nothing says that they
# are secret.
_SHORTEST, _SHORTEST_OTHER = 4, 8
_CUT = "…"

_SECRET_NAME = re.compile(
    r"((api|access|auth|private|secret)[-_]?key|token|auth|authorization|passw(or)?d|passphrase"
    r"|secret|credentials?|cookie)$",
    re.IGNORECASE,
)


def is_secret_name(name: str) -> bool:
    """Whether a header or a JSON key of that name holds a secret, as far as names tell."""
    return _SECRET_NAME.search(name) is not None


def redacted_json(value: Any) -> Any:
    """Decoded JSON with the value of each key that names a secret replaced by `***`."""
    if isinstance(value, dict):
        return {
            key: HIDDEN if _holds(key, inner) else redacted_json(inner)
            for key, inner in value.items()
        }
    return [redacted_json(inner) for inner in value] if isinstance(value, list) else value


def secrets_of(headers: Mapping[str, str], body: Mapping[str, Any]) -> tuple[str, ...]:
    """The values that no message may quote: the headers', and secrets in the extra body."""
    found = [
        value
        for name, value in headers.items()
        if is_secret_name(name) or len(value) >= _SHORTEST_OTHER
    ]
    for name, value in headers.items():
        if is_secret_name(name):  # "Bearer KEY" may be quoted as KEY
            found.append(value.partition(" ")[2])
    return tuple(dict.fromkeys((*found, *_within(body))))


def scrubbed(text: str, secrets: Iterable[str]) -> str:
    """Text without the secrets, also without one that was cut short (as "abc…")."""
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= _SHORTEST:
            text = _without_beginnings(text.replace(secret, HIDDEN), secret)
    return text


def scrubbed_failure(failure: Failure, secrets: Iterable[str]) -> Failure:
    """A failure whose message quotes none of them."""
    return Failure(failure.kind, scrubbed(failure.message, secrets))


def _without_beginnings(text: str, secret: str) -> str:
    if _CUT in text:
        for length in range(len(secret) - 1, _SHORTEST - 1, -1):
            text = text.replace(secret[:length] + _CUT, HIDDEN + _CUT)
    return text


def _holds(key: str, value: Any) -> bool:
    return is_secret_name(key) and value is not None and not isinstance(value, bool)


def _within(value: Any) -> list[str]:
    """Every text below a key that names a secret."""
    if isinstance(value, list):
        return [text for inner in value for text in _within(inner)]
    if not isinstance(value, Mapping):
        return []
    return [
        text
        for key, inner in value.items()
        for text in (_texts(inner) if _holds(key, inner) else _within(inner))
    ]


def _texts(value: Any) -> list[str]:
    if isinstance(value, Mapping):
        return [text for inner in value.values() for text in _texts(inner)]
    if isinstance(value, list):
        return [text for inner in value for text in _texts(inner)]
    return [str(value)]
