import msgspec

from bench_client.records import Client, Clock
from bench_client.run.blocks import Block, blocks, joined, plan_of
from tests.factories import header, plan, planned


def test_one_repeat_runs_each_arm_once() -> None:
    assert blocks(2, 1) == [Block(0, (0,)), Block(1, (0,))]


def test_repeats_go_abba_and_share_launches() -> None:
    assert blocks(2, 4) == [
        Block(0, (0,)),
        Block(1, (0, 1)),
        Block(0, (1, 2)),
        Block(1, (2, 3)),
        Block(0, (3,)),
    ]
    assert blocks(1, 3) == [Block(0, (0, 1, 2))]
    three = blocks(3, 2)
    assert [block.arm for block in three] == [0, 1, 2, 1, 0]


def test_the_parts_of_a_plan_are_the_plan() -> None:
    whole = plan(requests=tuple(planned(id=f"r{r}", repeat=r) for r in range(3)))
    parts = [request for part in ((1,), (0, 2)) for request in plan_of(whole, part).requests]
    assert sorted(request.id for request in parts) == ["r0", "r1", "r2"]


def test_blocks_of_an_arm_add_up() -> None:
    def block(began: int, before: float, after: float, log: str, lag: float) -> object:
        server = msgspec.structs.replace(
            header().server,
            log="server.log",
            counters_before={"steps": before},
            counters_after={"steps": after},
            log_windows=((log, 10, 20),),
        )
        client = Client(
            python="3",
            transport="wire",
            cpu_s=1.5,
            loop_lag_ms_max=lag,
            clock=Clock(step_ns=int(lag), checks=1),
        )
        return header(
            server=server, client=client, began_unix_ns=began, duration_ns=100, ended="complete"
        )

    first = block(1000, 3, 10, "server.log", 7.0)
    second = block(5000, 2, 6, "server-2.log", 5.0)
    found = joined(first, second)
    assert found.began_unix_ns == 1000
    assert found.duration_ns == 200
    assert found.server.counters_before == {"steps": 3}
    assert found.server.counters_after == {"steps": 14}
    assert [window[0] for window in found.server.log_windows] == ["server.log", "server-2.log"]
    assert found.client.cpu_s == 3.0
    assert found.client.loop_lag_ms_max == 7.0
    assert found.client.clock.step_ns == 7
