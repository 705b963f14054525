"""The compose files start what the presets say, on pinned images, and check it without load."""

import re
import subprocess
import sys
from typing import Any

import pytest
from msgspec import structs

from server_launchers.launch import command
from server_launchers.presets import SHIPPED, parse
from server_launchers.resolve import resolve
from server_launchers.settings import LaunchCommand
from tests.conftest import StartSim, free_port
from tests.docker.compose import FILES, dockerfile, load, words

NO_TOKEN = "SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION"
PRESETS = parse(SHIPPED.read_text("utf-8"), SHIPPED.name)
ENGINES = [path.name.split(".")[1] for path in FILES]
# (compose file, service, server preset, concurrency)
ARMS = [
    *(("sglang", arm, arm, n) for arm in ("sglang", "sglang-eagle3") for n in (1, 2)),
    *(("vllm", arm, arm, n) for arm in ("vllm", "vllm-eagle3") for n in (1, 2)),
    ("transformers", "transformers", "transformers", 1),
    ("transformers", "transformers-batched", "transformers", 2),
    ("transformers", "transformers-eagle3", "transformers-eagle3", 1),
    ("transformers", "eagle-plain", "eagle-plain", 1),
]


def servers(name: str, **env: str) -> dict[str, Any]:
    services: dict[str, Any] = load(name, **env)["services"]
    return {service: given for service, given in services.items() if service != "client"}


def engine_version(service: dict[str, Any]) -> str:
    """What the image has: its tag says, or the Dockerfile that it is built from."""
    if "build" not in service:
        tag = re.fullmatch(r"[\w-]+/[\w-]+:v(\d+\.\d+\.\d+)", service["image"])
        assert tag, service["image"]
        return tag[1]
    target = service["build"]["target"]
    _, _, stage = dockerfile("transformers").partition(f" AS {target}\n")
    pin = re.search(r"transformers(?:\[serving\])?==([\d.]+)", stage)
    assert pin
    return pin[1]


def preset(name: str, concurrency: int, version: str) -> LaunchCommand:
    overrides = {"host": "0.0.0.0", "concurrency": concurrency}
    settings = resolve(name, PRESETS, overrides, device="cuda")
    return command(structs.replace(settings, engine_version=version))


@pytest.mark.parametrize(("file", "service", "name", "concurrency"), ARMS)
def test_an_arm_is_started_as_its_preset_says(
    file: str, service: str, name: str, concurrency: int
) -> None:
    given = servers(file, CONCURRENCY=str(concurrency))[service]
    asked = preset(name, concurrency, engine_version(given))
    assert [*words(given.get("entrypoint", [])), *words(given["command"])] == list(asked.argv)
    environment = {name: value for name, value in given["environment"].items() if value}
    environment.pop(NO_TOKEN, None)  # the health check's, which the launchers do without
    assert environment == asked.env


def test_every_shipped_arm_has_its_service() -> None:
    here = {(file, service) for file in ENGINES for service in servers(file)}
    assert {(file, service) for file, service, _, _ in ARMS} == here
    shipped = {name for name, table in PRESETS.servers.items() if table["engine"] != "sim"}
    assert {name for _, _, name, _ in ARMS} == shipped


@pytest.mark.parametrize("file", ENGINES)
def test_the_client_is_not_process_1(file: str) -> None:
    """Which would not hear SIGTERM before it asks for it: `docker stop` would end in SIGKILL."""
    assert load(file)["services"]["client"]["init"] is True


@pytest.mark.parametrize("file", ENGINES)
def test_one_profile_starts_one_arm(file: str) -> None:
    profiles = [service["profiles"] for service in load(file)["services"].values()]
    assert all(len(each) == 1 for each in profiles)
    names = [name for (name,) in profiles]
    assert len(set(names)) == len(names)
    assert {"plain", "eagle3", "client"} <= set(names)


@pytest.mark.parametrize("file", ENGINES)
@pytest.mark.parametrize("concurrency", ["1", "2"])
def test_the_client_measures_that_server(file: str, concurrency: str) -> None:
    client = load(file, CONCURRENCY=concurrency)["services"]["client"]
    asked = preset(file, 1, engine_version(servers(file)[file]))
    port = asked.url.rpartition(":")[2]
    assert words(client["entrypoint"]) == [
        *("bench-client", "run", "--url", f"http://server:{port}"),
        *("--model", asked.served_model_name, "--concurrency", concurrency),
    ]
    for service in servers(file).values():
        assert service["networks"]["default"]["aliases"] == ["server"]
        assert service["ports"] == [f"127.0.0.1:{port}:{port}"]
        assert f"http://127.0.0.1:{port}/" in service["healthcheck"]["test"][-1]


@pytest.mark.parametrize("file", ENGINES)
def test_a_server_has_a_gpu_and_the_cache_of_weights(file: str) -> None:
    found = load(file, GPU="3")
    assert found["volumes"]["models"]["name"] == "bench-client-models"
    for name, service in found["services"].items():
        if name == "client":
            assert "deploy" not in service
            continue
        (device,) = service["deploy"]["resources"]["reservations"]["devices"]
        assert device == {"driver": "nvidia", "device_ids": ["3"], "capabilities": ["gpu"]}
        assert "models:/root/.cache/huggingface" in service["volumes"]


@pytest.mark.parametrize("file", ENGINES)
def test_a_health_check_asks_without_generating(file: str, start_sim: StartSim) -> None:
    """The check itself, against a server that is up, and one that is not."""
    url = start_sim("--fixed", "5:1")
    for service in servers(file).values():
        kind, python, flag, script = service["healthcheck"]["test"]
        assert (kind, python, flag) == ("CMD", "python3", "-c")
        asked = re.search(r'"(http://127\.0\.0\.1:\d+)(/[\w/]+)"', script)
        assert asked
        assert asked[2] in {"/v1/models", "/health"}  # all versions in README.md have these
        if file == "sglang":  # whose /v1/models comes early, and whose /health generates a token
            assert asked[2] == "/health"
            assert service["environment"][NO_TOKEN] == "0"
        assert _code(script.replace(asked[1], url)) == 0
        assert _code(script.replace(asked[1], f"http://127.0.0.1:{free_port()}")) != 0
        assert _code(script.replace(asked[1], f"{url}/no")) != 0


def _code(script: str) -> int:
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    return done.returncode
