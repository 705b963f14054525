"""What one event of a stream says, whatever the API."""

from typing import Annotated, TypeVar

from msgspec import Meta, Struct

from bench_client.records import Accept, Failure

T = TypeVar("T")
Count = Annotated[int, Meta(ge=0)]


class Chunk(Struct, frozen=True, kw_only=True, gc=False):
    """What one event says, whatever the API. Null is unsaid.

    `text` and `token_ids` are new with this event, `total_tokens` is the server's count of output
    tokens so far, `trailing` marks an event after the answer (usage, metrics). `accept.tokens` is
    null where the server leaves it to be told from the number of output tokens.
    """

    text: str = ""
    token_ids: list[int] | None = None
    total_tokens: Count | None = None
    trailing: bool = False
    finish_reason: str | None = None
    failure: Failure | None = None
    input_tokens: int | None = None
    cached_tokens: int | None = None
    accept: Accept | None = None


class SglangSpeculation(Struct, frozen=True, kw_only=True):
    """SGLang's counts of one request, under the names of 0.5.3 to 0.5.23."""

    spec_verify_ct: Count | None = None
    spec_num_correct_drafts: Count | None = None
    spec_accepted_drafts: Count | None = None
    spec_accept_token_num: Count | None = None
    spec_num_proposed_drafts: Count | None = None
    spec_proposed_drafts: Count | None = None
    spec_draft_token_num: Count | None = None
    spec_correct_drafts_histogram: list[int] | None = None
    spec_accept_histogram: list[int] | None = None

    def accept(self, source: str) -> Accept | None:
        """The same as records name it; null if the request had no verify step."""
        if not self.spec_verify_ct:
            return None
        return Accept(
            source=source,
            verify_steps=self.spec_verify_ct,
            accepted_tokens=first_known(
                self.spec_num_correct_drafts, self.spec_accepted_drafts, self.spec_accept_token_num
            ),
            draft_tokens=first_known(
                self.spec_num_proposed_drafts, self.spec_proposed_drafts, self.spec_draft_token_num
            ),
            histogram=tuple(self.spec_correct_drafts_histogram or self.spec_accept_histogram or ()),
        )


def first_known(*values: T | None) -> T | None:
    """The first that is not null."""
    return next((value for value in values if value is not None), None)


def last_known(values: list[T | None]) -> T | None:
    """The last that is not null."""
    return first_known(*reversed(values))
