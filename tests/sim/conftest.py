"""Servers that all tests here share."""

from collections.abc import Iterator

import pytest

from .running import FAST, Running, sim


@pytest.fixture(scope="session")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with sim(tmp_path_factory.mktemp("plain"), *FAST) as running:
        yield running


@pytest.fixture(scope="session")
def speculative(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("speculative")
    with sim(folder, *FAST, "--draft-model", "sim-eagle3") as running:
        yield running


@pytest.fixture(scope="session")
def sglang(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("sglang")
    arguments = (*FAST, "--draft-model", "sim-eagle3", "--flavour", "sglang")
    with sim(folder, *arguments) as running:
        yield running
