"""What a server streams before it has generated anything, found by asking it for one token.

`transformers serve` parses the end of the prompt as the beginning of the answer, which the chat
template may have written (`<think>`), and streams that text ahead of the first token. Taken for a
token, it would make the time to the first one nearly zero.
"""

import msgspec

from bench_client.records import Plan
from bench_client.run.runner import Encode
from bench_client.wire.response import read_response
from bench_client.wire.transport import Transport


async def preamble_events(plan: Plan, transport: Transport, encode: Encode) -> int:
    """How many events of text come before the first token's; 0 where the server fails."""
    request = (*plan.warmup, *plan.requests)[0]
    raw = await transport.exchange(encode(msgspec.structs.replace(request, max_tokens=1)))
    answer = read_response(raw, plan.api)
    if answer.failure or answer.output_tokens is None:
        return 0
    return max(0, len(answer.events.at_ns) - answer.output_tokens)
