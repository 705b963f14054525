"""Answers one request at a time, step by step, and counts."""

import time
import uuid
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from .answers import Answer, Names
from .asks import Ask, BadRequestError, parse
from .detokenize import Detokenizer
from .model import Engine
from .settings import SLACK
from .stepping import Acceptance, Step, answer_steps
from .totals import Totals
from .turnstile import ClientLeftError, Turnstile

OWNER = "bench-client-eagle"


@dataclass(frozen=True)
class Job:
    """A request that fits: its prompt as tokens, the most tokens to answer with."""

    ask: Ask
    prompt: list[int]
    max_tokens: int


class Service:
    """The model under the name it is served by. Any number of threads may ask."""

    def __init__(self, engine: Engine, name: str, versions: dict[str, str]) -> None:
        self.name = name
        self.versions = versions
        self.totals = Totals(engine.settings.longest)
        self._engine = engine
        self._turnstile = Turnstile()
        self._created = int(time.time())

    def job(self, body: bytes, chat: bool) -> Job:
        """Read a request. Raises BadRequestError where it cannot be answered in full."""
        ask = parse(body, chat, self._engine.defaults)
        if ask.model not in (None, self.name):
            raise BadRequestError(f"there is no model {ask.model!r} here, only {self.name!r}", 404)
        prompt = self._engine.prompt_ids(ask)
        left = self._engine.room - len(prompt)
        wanted = max(left, 1) if ask.max_tokens is None else ask.max_tokens
        if not prompt:
            raise BadRequestError("the prompt is empty")
        if wanted > left:
            raise BadRequestError(
                f"a prompt of {len(prompt)} tokens and an answer of {wanted} do not fit:"
                f" --max-length {self._engine.max_length} leaves"
                f" {self._engine.room} for both (less total-token + {SLACK}); ask for"
                " fewer tokens, or start the server with a larger --max-length"
            )
        return Job(ask, prompt, wanted)

    def answer(self, job: Job) -> Answer:
        """The empty answer to a job, to be filled with its steps."""
        kind = "chatcmpl" if job.ask.chat else "cmpl"
        longest = self._engine.settings.longest
        return Answer(
            job.ask,
            Names(f"{kind}-{uuid.uuid4().hex}", int(time.time()), self.name),
            len(job.prompt),
            Detokenizer(self._engine.decode, job.prompt),
            None if longest is None else Acceptance(longest),
        )

    def steps(self, job: Job, left: Callable[[], bool]) -> Generator[Step, None, None]:
        """The steps of an answer, once it is its turn; `left` is asked between them.

        The model rests while a step is being handled. Raises ClientLeftError.
        """
        stop = frozenset[int]() if job.ask.ignore_eos else self._engine.stop
        with self._turnstile.turn(left):
            self.totals.prompt_tokens += len(job.prompt)
            blocks = self._engine.blocks(job.prompt, job.ask.sampling, job.max_tokens)
            with closing(answer_steps(blocks, job.max_tokens, stop)) as steps:
                for step in steps:
                    self.totals.count(step)
                    yield step
                    if not step.finish and left():
                        raise ClientLeftError

    def models(self) -> dict[str, Any]:
        """`/v1/models`."""
        entry = {
            "id": self.name,
            "object": "model",
            "created": self._created,
            "owned_by": OWNER,
            "root": self._engine.settings.model,
            "max_model_len": self._engine.room,
        }
        return {"object": "list", "data": [entry]}

    def info(self) -> dict[str, Any]:
        """`/server_info`, under SGLang's names: what runs, and whether it speculates.

        SGLang counts a chain's steps up to the last draft, EAGLE's depth one less.
        """
        settings, on = self._engine.settings, not self._engine.settings.plain
        return {
            **self.versions,
            "model_path": settings.model,
            "served_model_name": self.name,
            "dtype": self._engine.dtype,
            "context_length": self._engine.room,
            "max_running_requests": 1,
            "speculative_algorithm": "EAGLE3" if on else None,
            "speculative_draft_model_path": settings.draft_model if on else None,
            "speculative_num_steps": settings.depth + 1 if on else None,
            "speculative_eagle_topk": settings.top_k if on else None,
            "speculative_num_draft_tokens": settings.total_token if on else None,
            "memory": self._engine.memory,
        }
