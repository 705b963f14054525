import json
import os
import socket
import sys
from pathlib import Path

import pytest
from msgspec import structs

from server_launchers import doctor, doctor_models
from server_launchers import presets as presets_module
from server_launchers.finding import Row
from server_launchers.gpu import Gpu, gpus
from server_launchers.ports import holder, is_free, listeners
from server_launchers.presets import Presets, load

L40 = Gpu(name="NVIDIA L40", driver="580.65", used=0, total=45 * 2**30)
T4 = structs.replace(L40, name="Tesla T4", total=15 * 2**30)
HERE = {"engine_python": sys.executable}
HUB = ("HF_HOME", "HF_HUB_CACHE", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_TOKEN_PATH")


@pytest.fixture
def presets(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Presets:
    """The shipped ones, on a machine with no GPU, no token and nothing downloaded."""
    for name in (*HUB, *doctor_models.OFFLINE, "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setattr(presets_module, "USERS", tmp_path / "none.toml")
    monkeypatch.setattr(doctor, "gpus", tuple)
    monkeypatch.chdir(tmp_path)
    return load()


def found(rows: tuple[Row, ...]) -> dict[str, Row]:
    return {row.name: row for row in rows}


def model(rows: tuple[Row, ...], name: str) -> Row:
    weights = (row for row in rows if row.name in {"model", "draft model"})
    (row,) = (row for row in weights if row.detail.startswith(name))
    return row


def python(path: Path, torch: str = "2.13.0+cu130", **versions: str) -> dict[str, object]:
    """The options that name a Python with these packages, and a CUDA build of torch."""
    site = path / "site"
    (site / "torch").mkdir(parents=True)
    (site / "torch" / "__init__.py").touch()
    (site / "torch" / "version.py").write_text(f"cuda = '{torch[-3:-1]}.{torch[-1]}'\n")
    # As in PyPI's wheels, whose metadata does not say which CUDA.
    for name, version in {"torch": torch.partition("+")[0], **versions}.items():
        (site / name).mkdir(exist_ok=True)
        (site / name / "__init__.py").touch()
        info = site / f"{name}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    program = path / "python"
    program.write_text(f'#!/bin/sh\nPYTHONPATH={site} exec {sys.executable} -S "$@"\n')
    program.chmod(0o755)
    return {"engine_python": str(program)}


def test_every_finding_has_a_row(presets: Presets, tmp_path: Path) -> None:
    rows = doctor.rows(presets, tmp_path / "results", overrides=HERE)
    names = found(rows)
    assert list(names)[:4] == ["vllm", "sglang", "transformers", "eagle"]
    assert {"port 8000", "port 30000", "memory", "disk for results"} <= set(names)
    missing = names["eagle"]
    assert missing.status == "missing"
    assert missing.detail == f"not in {sys.executable}"
    assert "SafeAILab/EAGLE" in missing.advice
    assert all(row.advice for row in rows if row.status != "ok")
    assert model(rows, "Qwen/Qwen3-8B").status == "missing"
    assert model(rows, "AngelSlim/Qwen3-8B_eagle3").status == "missing"
    assert names["draft model"].detail.startswith("AngelSlim/Qwen3-8B_eagle3")
    assert names["Hugging Face token"].status == "optional"  # nothing that is asked is gated


def test_gpu_rows(presets: Presets, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "gpus", lambda: (L40, structs.replace(L40, used=20 * 2**30)))
    rows = found(doctor.rows(presets, tmp_path))
    assert rows["GPU 0"].status == "ok"
    assert rows["GPU 0"].detail == "NVIDIA L40, 0.0 of 45.0 GiB used, driver 580.65"
    assert rows["GPU 1"].status == "warning"
    assert "nvidia-smi" in rows["GPU 1"].advice
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    hidden = found(doctor.rows(presets, tmp_path))["GPU 1"]
    assert hidden.status == "ok"
    assert hidden.detail.endswith("hidden by CUDA_VISIBLE_DEVICES")


def test_a_gpu_that_is_smaller_than_the_weights(
    presets: Presets, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "gpus", lambda: (T4,))
    row = found(doctor.rows(presets, tmp_path, ["sglang"]))["GPU 0"]
    assert (row.status, row.stops) == ("warning", True)
    assert row.advice == "the weights of Qwen/Qwen3-8B alone are 15.3 GiB"
    monkeypatch.setattr(doctor, "gpus", lambda: (T4, T4))  # both together could hold them
    row = found(doctor.rows(presets, tmp_path, ["sglang"]))["GPU 1"]
    assert (row.status, row.stops) == ("warning", False)
    small = cached(tmp_path, "some/model", 2**20)
    row = found(doctor.rows(presets, tmp_path, ["sglang"], {"model": small}))["GPU 0"]
    assert row.status == "ok"


def test_no_gpu_is_a_finding_not_an_error(presets: Presets, tmp_path: Path) -> None:
    row = found(doctor.rows(presets, tmp_path))["GPU"]
    assert (row.status, row.detail, row.stops) == ("missing", "none seen by NVML", False)
    assert isinstance(gpus(), tuple)


def test_a_python_that_does_not_run(presets: Presets, tmp_path: Path) -> None:
    row = found(doctor.rows(presets, tmp_path, overrides={"engine_python": "/no/python"}))["vllm"]
    assert row.status == "missing"
    assert "/no/python does not run" in row.detail


@pytest.mark.parametrize(
    ("driver", "torch", "advice"),
    [
        ("470.82.01", "2.13.0+cu130", "driver 470.82.01 is too old for CUDA 13: update it to 580 "),
        ("575.57", "2.13.0+cu130", "driver 575.57 is too old for CUDA 13"),
        ("580.65", "2.13.0+cu130", ""),
        ("535.10", "2.9.0+cu126", ""),  # minor versions of a CUDA run with all its drivers
        ("515.10", "2.9.0+cu126", "driver 515.10 is too old for CUDA 12: update it to 525 "),
        ("590.1", "3.0.0+cu140", ""),  # of which nothing is known
    ],
)
def test_a_driver_older_than_torchs_cuda(
    presets: Presets,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    driver: str,
    torch: str,
    advice: str,
) -> None:
    monkeypatch.setattr(doctor, "gpus", lambda: (structs.replace(L40, driver=driver),))
    given = python(tmp_path / "vllm", torch, vllm="0.32.0")
    row = found(doctor.rows(presets, tmp_path, ["vllm"], given))["vllm"]
    assert row.detail.startswith("0.32.0, torch ")
    assert row.stops == bool(advice)
    assert row.advice.startswith(advice)


def test_the_launchers_own_version_checks(presets: Presets, tmp_path: Path) -> None:
    old = python(tmp_path / "old", transformers="4.53.3", eagle="1.0")
    new = python(tmp_path / "new", transformers="5.19.0", eagle="1.0")
    servers = ["transformers", "transformers-eagle3"]
    plain, eagle = doctor.rows(presets, tmp_path, servers, old)[:2]
    assert plain.stops
    assert "4.53.3 streams no token counts: 5.5 or later is needed" in plain.advice
    assert eagle.status == "ok"
    assert "transformers 4.53.3, torch" in eagle.detail
    plain, eagle = doctor.rows(presets, tmp_path, servers, new)[:2]
    assert plain.status == "ok"
    assert eagle.stops
    assert eagle.advice == "EAGLE's code runs with transformers 4.53 to 4.57"
    assert "transformers 5.19.0, torch" in eagle.detail


def cached(home: Path, name: str, size: int, shards: int = 1) -> str:
    """A repository in the download cache, sparse on the disk."""
    repo = home / "hf" / "hub" / f"models--{name.replace('/', '--')}"
    snapshot = repo / "snapshots" / ("a" * 40)
    snapshot.mkdir(parents=True)
    (repo / "refs").mkdir()
    (repo / "refs" / "main").write_text("a" * 40)
    names = [f"model-{n}.safetensors" for n in range(shards)]
    index = {"weight_map": {f"layer{n}": name for n, name in enumerate(names)}}
    (snapshot / "model.safetensors.index.json").write_text(json.dumps(index))
    for each in names:
        with (snapshot / each).open("wb") as file:
            os.truncate(file.fileno(), size // shards)
    return name


def test_models_in_the_cache(presets: Presets, tmp_path: Path) -> None:
    name = cached(tmp_path, "Qwen/Qwen3-8B", 15 * 2**30, shards=3)
    row = model(doctor.rows(presets, tmp_path, ["vllm"]), name)
    assert (row.status, row.detail) == (
        "ok",
        "Qwen/Qwen3-8B: 15.0 GiB of weights in the cache of downloads",
    )
    next((tmp_path / "hf").rglob("model-1.safetensors")).unlink()
    row = model(doctor.rows(presets, tmp_path, ["vllm"]), name)
    assert row.status == "warning"
    assert "1 of 3 of its files are not in" in row.detail


@pytest.mark.parametrize(
    ("head", "amiss"),
    [
        ({"hidden_size": 4096}, True),
        ({"hidden_size": 4096, "target_hidden_size": 2560}, False),
        ({"hidden_size": 2560}, False),
        ({}, False),
        ([], False),
    ],
)
def test_a_head_of_another_model(
    presets: Presets, tmp_path: Path, head: object, *, amiss: bool
) -> None:
    configs = {"own/model": {"hidden_size": 2560}, "own/head": head}
    for name, config in configs.items():
        cached(tmp_path, name, 2**20)
        (weights,) = (tmp_path / "hf").rglob(f"models--{name.replace('/', '--')}/**/*.json")
        weights.with_name("config.json").write_text(json.dumps(config))
    given = {"model": "own/model", "draft_model": "own/head"}
    rows = found(doctor.rows(presets, tmp_path, ["vllm-eagle3"], given))
    assert ("head" in rows) == amiss
    if amiss:
        assert rows["head"].stops
        assert rows["head"].detail == (
            "own/head: its hidden size is 4096, that of own/model is 2560"
        )


def test_models_that_cannot_be_fetched(
    presets: Presets, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look(name: str) -> tuple[Row, ...]:
        return doctor.rows(presets, tmp_path, ["vllm"], {"model": name})

    gated = model(look("llama-3.1-8b"), "meta-llama/Llama-3.1-8B-Instruct")
    assert gated.stops
    assert "accept its licence at huggingface.co/meta-llama/Llama-3.1-8B-Instruct" in gated.advice
    assert found(look("llama-3.1-8b"))["Hugging Face token"].status == "missing"
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    rows = look("llama-3.1-8b")
    assert not model(rows, "meta-llama").stops
    assert found(rows)["Hugging Face token"].detail == "from HF_TOKEN"
    assert "hf_secret" not in str(rows)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert model(look("some/model"), "some/model").stops
    assert model(look("./nowhere"), "./nowhere").advice.startswith("no such folder")


def test_a_port_in_use_names_its_holder(presets: Presets, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        engines = {"sglang": {"port": port}}
        row = found(doctor.rows(structs.replace(presets, engines=engines), tmp_path))[
            f"port {port}"
        ]
    assert (row.status, row.stops) == ("warning", True)
    assert row.detail.startswith("in use by pid ")


@pytest.mark.parametrize(
    ("engines", "told"),
    [
        ({"vllm": {"port": "abc"}}, "server vllm: port: Expected `int`, got `str`"),
        ({"vllm": {"port": 99999}}, "server vllm: port: Expected `int` <= 65535"),
    ],
)
def test_a_preset_that_cannot_be_is_a_line(
    presets: Presets, tmp_path: Path, engines: dict[str, dict[str, object]], told: str
) -> None:
    rows = found(doctor.rows(structs.replace(presets, engines=engines), tmp_path))
    assert rows["server vllm"].detail == told
    assert rows["server vllm"].stops


def test_an_address_that_cannot_be_listened_on_is_a_line(presets: Presets, tmp_path: Path) -> None:
    engines = {"vllm": {"host": "192.0.2.77"}}
    rows = doctor.rows(structs.replace(presets, engines=engines), tmp_path, ["vllm"])
    row = found(rows)["port 8000"]
    assert row.stops
    assert "cannot listen on 192.0.2.77: " in row.detail


def test_a_named_server_is_all_that_is_looked_at(presets: Presets, tmp_path: Path) -> None:
    names = found(doctor.rows(presets, tmp_path, ["sim"]))
    assert not {"vllm", "sglang", "transformers", "eagle", "model", "port 30000"} & set(names)
    assert not {"GPU", "Hugging Face token", "disk for weights"} & set(names)
    assert "port 8000" in names
    unknown = found(doctor.rows(presets, tmp_path, ["vlm"]))["server vlm"]
    assert unknown.stops
    assert unknown.detail == "no server preset vlm: did you mean vllm?"


def test_little_disk_is_a_warning(
    presets: Presets, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "RESULTS_GIB", 10**9)
    row = found(doctor.rows(presets, tmp_path / "not" / "yet"))["disk for results"]
    assert row.status == "warning"


def test_listeners_mind_the_address() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.2", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert is_free("127.0.0.1", port)
        assert not is_free("127.0.0.2", port)
        assert not is_free("0.0.0.0", port)
        assert listeners("127.0.0.1", port) == set()
        assert len(listeners("127.0.0.2", port)) == 1
        assert holder("127.0.0.1", port) == "a process of another user or container"


def test_an_address_of_another_machine_is_an_error() -> None:
    with pytest.raises(OSError, match="assign requested address"):
        is_free("192.0.2.77", 8000)
