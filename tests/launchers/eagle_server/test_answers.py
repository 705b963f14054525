"""What a client is told: tokens, steps, drafts, ends, counters."""

import asyncio

import httpx
import msgspec
import pytest

from bench_client.run.server_facts import parse_counters
from bench_client.wire.payload import PATHS
from bench_client.wire.transport import OutgoingRequest
from server_launchers.eagle_server.service import Service

from .asking import ask, exchange
from .conftest import Start
from .double import BEHIND, END, SECOND_END, EaModel, engine

TEXT = "verify 海水 and go on"  # 23 bytes, so 23 tokens
STEPS = "vllm:spec_decode_num_drafts_total"
ACCEPTED = "vllm:spec_decode_num_accepted_tokens_total"


def counters(url: str) -> dict[str, float]:
    return parse_counters(httpx.get(url + "/metrics").text)


def test_a_streamed_chat_has_every_token_every_step_and_every_accepted_draft(start: Start) -> None:
    ea = EaModel(TEXT)
    url = start(ea)
    answer = ask(url)
    assert answer.failure is None
    assert (answer.text, answer.finish_reason) == (TEXT, "stop")
    assert answer.token_ids == (*TEXT.encode(), END)
    assert answer.token_count_source == "token_ids"
    assert answer.events.tokens == (1, 4, 2, 1, 4, 2, 1, 4, 2, 1, 2)
    assert ea.prompts == [list(b"<user>hi<assistant>")]
    assert answer.input_tokens == len("<user>hi<assistant>")
    assert answer.accept is not None
    assert answer.accept.verify_steps == 11 == ea.steps
    # The last step accepted two drafts more than the answer shows.
    assert (answer.accept.tokens, answer.accept.accepted_tokens) == (26, 15)
    assert answer.accept.draft_tokens == 11 * 4
    assert answer.accept.histogram == (4, 3, 0, 4, 0)


def test_counters_grow_by_what_the_answers_report(start: Start) -> None:
    url = start(EaModel(TEXT))
    before = counters(url)
    answers = [ask(url), ask(url, max_tokens=9)]
    after = counters(url)
    grown = {name: value - before[name] for name, value in after.items()}
    accepts = [answer.accept for answer in answers if answer.accept]
    assert len(accepts) == 2
    assert grown[STEPS] == sum(each.verify_steps for each in accepts)
    assert grown[ACCEPTED] == sum(each.accepted_tokens or 0 for each in accepts)
    assert grown["vllm:spec_decode_num_draft_tokens_total"] == 4 * grown[STEPS]
    assert grown["vllm:generation_tokens_total"] == len(TEXT.encode()) + 1 + 9
    assert grown["vllm:prompt_tokens_total"] == 2 * len("<user>hi<assistant>")
    assert grown["vllm:request_success_total"] == 2
    position = 'vllm:spec_decode_num_accepted_tokens_per_pos_total{position="%d"}'
    assert sum(grown[position % at] for at in range(4)) == grown[ACCEPTED]


def test_a_step_is_counted_before_it_is_sent() -> None:
    service = Service(engine(EaModel(TEXT)), "m", {})
    job = service.job(b'{"prompt": "hi", "temperature": 0, "max_tokens": 6}', chat=False)
    tokens = finished = 0
    for step in service.steps(job, lambda: False):
        tokens += len(step.token_ids)
        finished += step.finish is not None
        assert service.totals.generation_tokens == tokens
        assert service.totals.finished.total() == finished
    assert (tokens, finished) == (6, 1)


def test_no_event_brings_half_a_character_and_steps_without_text_have_an_event(
    start: Start,
) -> None:
    url = start(EaModel("海水很咸", sizes=(1, 2)))
    answer = ask(url)
    assert answer.text == "海水很咸"
    assert answer.events.tokens == (1, 2, 1, 2, 1, 2, 1, 2, 1)
    body = {"messages": [{"role": "user", "content": "x"}], "stream": True, "temperature": 0}
    lines = httpx.post(url + PATHS["chat"], json=body).text.split("\n\n")
    events = [msgspec.json.decode(line[6:]) for line in lines if line.startswith("data: {")]
    deltas = [event["choices"][0]["delta"] for event in events]
    assert [delta["content"] for delta in deltas] == ["", "海", "", "水", "", "很", "", "咸", ""]
    assert [delta.get("role") for delta in deltas] == ["assistant", *[None] * 8]
    assert not any("usage" in event or "token_ids" in event["choices"][0] for event in events)
    assert lines[-2] == "data: [DONE]"


@pytest.mark.parametrize("max_tokens", [1, 2, 5, 6, 7, 8, 24])
def test_max_tokens_is_exact(start: Start, max_tokens: int) -> None:
    answer = ask(start(EaModel(TEXT * 9)), max_tokens=max_tokens)
    assert answer.token_ids == tuple((TEXT * 9).encode()[:max_tokens])
    assert (answer.output_tokens, answer.finish_reason) == (max_tokens, "length")


def test_any_end_token_of_the_model_ends_the_answer(start: Start) -> None:
    ea = EaModel("ab", sizes=(4,), end=SECOND_END)
    answer = ask(start(ea))
    assert (answer.token_ids, answer.finish_reason) == ((*b"ab", SECOND_END), "stop")
    assert (answer.text, ea.closed) == ("ab", 1)


def test_ignore_eos_goes_on_behind_the_end(start: Start) -> None:
    answer = ask(start(EaModel("ab")), ignore_eos=True, max_tokens=12)
    assert answer.token_ids == (*b"ab", END, *BEHIND[:9])
    assert (answer.text, answer.finish_reason) == ("abbehind th", "length")


def test_one_seed_gives_one_answer_and_another_another(start: Start) -> None:
    url = start(EaModel())
    seeds = [ask(url, temperature=0.8, seed=seed, max_tokens=40).text for seed in (1, 2, 1)]
    assert seeds[0] == seeds[2] != seeds[1]


def test_a_plain_server_sends_a_token_an_event_and_says_nothing_of_speculation(
    start: Start,
) -> None:
    url = start(EaModel(TEXT), plain=True)
    answer = ask(url)
    assert answer.token_ids == (*TEXT.encode(), END)
    assert set(answer.events.tokens) == {1}
    assert answer.accept is None
    assert not [name for name in counters(url) if "spec_decode" in name]
    assert httpx.get(url + "/server_info").json()["speculative_algorithm"] is None


def test_an_answer_in_one_piece(start: Start) -> None:
    url = start(EaModel(TEXT))
    body = {"messages": [{"role": "user", "content": "hi"}], "temperature": 0}
    body["return_token_ids"] = True
    answer = httpx.post(url + PATHS["chat"], json=body).json()
    choice = answer["choices"][0]
    assert answer["object"] == "chat.completion"
    assert choice["message"] == {"role": "assistant", "content": TEXT}
    assert choice["finish_reason"] == "stop"
    assert choice["token_ids"] == [*TEXT.encode(), END]
    assert answer["usage"] == {"prompt_tokens": 19, "total_tokens": 43, "completion_tokens": 24}
    summary = answer["metrics"]["speculative_decoding"]
    assert (summary["num_spec_steps"], summary["num_spec_tokens"]) == (11, 4)
    assert summary["mean_acceptance_length"] == pytest.approx(26 / 11)


def test_completions_streamed_and_whole_take_text_and_token_ids(start: Start) -> None:
    ea = EaModel(TEXT)
    url = start(ea)
    body = {"model": "m", "prompt": "ab", "max_tokens": 3, "temperature": 0}
    whole = httpx.post(url + PATHS["completions"], json=body).json()
    assert (whole["object"], whole["choices"][0]["text"]) == ("text_completion", "ver")
    streamed = {**body, "prompt": list(b"ab"), "stream": True, "return_token_ids": True}
    sent = OutgoingRequest("r", PATHS["completions"], msgspec.json.encode(streamed))
    answer = asyncio.run(exchange(url, sent))[0]
    assert (answer.text, answer.output_tokens, answer.finish_reason) == ("ver", 3, "length")
    assert ea.prompts == [[258, *b"ab"], list(b"ab")]  # the tokenizer's own first token, and none


def test_the_chat_template_gets_its_arguments(start: Start) -> None:
    ea = EaModel("a")
    ask(start(ea), extra_body={"chat_template_kwargs": {"loud": True}})
    assert ea.prompts == [list(b"<USER>HI<ASSISTANT>")]
