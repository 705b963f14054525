"""Which GPUs are a server's own, and whether it gave their memory back."""

import itertools
import os

import pytest
from msgspec import structs

from server_launchers import gpu
from server_launchers.gpu import GIB, Gpu, MemoryWatch, visible

CARDS = tuple(
    Gpu(name="L40", driver="580.65", used=0, total=45 * GIB, uuid=f"GPU-{letter}123")
    for letter in "abcd"
)


def using(**used: int) -> tuple[Gpu, ...]:
    """The cards, with so many GiB in use on those named: `a=20`."""
    return tuple(structs.replace(card, used=used.get(card.uuid[4], 0) * GIB) for card in CARDS)


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (None, {0, 1, 2, 3}),
        ("2", {2}),
        ("3, 0", {0, 3}),
        ("GPU-b123", {1}),
        ("GPU-b", {1}),
        ("GPU-c1,0", {0, 2}),
        ("", set()),
        ("-1", set()),
        ("MIG-7c0a", {0, 1, 2, 3}),
    ],
)
def test_cuda_visible_devices(wanted: str | None, found: set[int]) -> None:
    assert visible(CARDS, wanted) == found


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Gpu, ...]]:
    """What NVML says, one answer a call; the last one for good."""
    told: list[tuple[Gpu, ...]] = []
    calls = itertools.count()
    monkeypatch.setattr(gpu, "gpus", lambda: told[min(next(calls), len(told) - 1)])
    return told


def test_another_users_gpu_is_none_of_its_business(answers: list[tuple[Gpu, ...]]) -> None:
    answers += [using(), using(b=20)]
    assert MemoryWatch("0").held() == []


def test_what_did_not_come_back_is_named_with_its_gpu(answers: list[tuple[Gpu, ...]]) -> None:
    left = structs.replace(using(c=20)[2], pids=(os.getpid(), 2**22 + 1))
    answers += [using(), (*using()[:2], left, using()[3])]
    (line,) = MemoryWatch("GPU-c,GPU-d").held()
    assert line.startswith(f"GPU 2 has 20.0 GiB more in use than before, by pid {os.getpid()} (")
    assert line.endswith(f"), pid {2**22 + 1}")


def test_the_gpus_it_computed_on_are_its_own_whatever_is_visible(
    answers: list[tuple[Gpu, ...]],
) -> None:
    seen = (using()[0], structs.replace(CARDS[1], used=30 * GIB, pids=(17, 99)), *using()[2:])
    answers += [using(), seen, using(a=20)]
    watch = MemoryWatch(None)
    watch.look({17, 18})
    assert watch.held() == []  # that on the first is another's
    answers.append(using(b=1))
    assert len(watch.held()) == 1


def test_what_a_driver_keeps_is_no_leak(answers: list[tuple[Gpu, ...]]) -> None:
    kept = structs.replace(CARDS[0], used=gpu.SLACK)
    answers += [CARDS[:1], (kept,)]
    assert MemoryWatch(None).held() == []


def test_no_gpu_holds_nothing(answers: list[tuple[Gpu, ...]]) -> None:
    answers.append(())
    watch = MemoryWatch("0")
    watch.look({1})
    assert watch.held() == []
