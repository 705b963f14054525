import socket
import sys
from pathlib import Path

import pytest
from msgspec import structs

from server_launchers import doctor
from server_launchers import presets as presets_module
from server_launchers.gpu import Gpu, gpus
from server_launchers.ports import holder, is_free, listeners
from server_launchers.presets import Presets, load

L40 = Gpu(name="NVIDIA L40", driver="580.65", used=0, total=45 * 2**30)


@pytest.fixture
def presets(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Presets:
    monkeypatch.setattr(presets_module, "USERS", tmp_path / "none.toml")
    return load()


def found(rows: tuple[doctor.Row, ...]) -> dict[str, doctor.Row]:
    return {row.name: row for row in rows}


def test_every_finding_has_a_row(presets: Presets, tmp_path: Path) -> None:
    rows = found(doctor.rows(presets, tmp_path / "results", sys.executable))
    assert list(rows)[:4] == ["vllm", "sglang", "transformers", "eagle"]
    assert {"port 8000", "port 30000", "memory", "disk for results"} <= set(rows)
    missing = rows["eagle"]
    assert missing.status == "missing"
    assert missing.detail == f"not in {sys.executable}"
    assert "SafeAILab/EAGLE" in missing.advice
    assert all(row.advice for row in rows.values() if row.status != "ok")


def test_gpu_rows(presets: Presets, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "gpus", lambda: (L40, structs.replace(L40, used=20 * 2**30)))
    rows = found(doctor.rows(presets, tmp_path))
    assert rows["GPU 0"].status == "ok"
    assert rows["GPU 0"].detail == "NVIDIA L40, 0.0 of 45.0 GiB used, driver 580.65"
    assert rows["GPU 1"].status == "warning"
    assert "nvidia-smi" in rows["GPU 1"].advice


def test_no_gpu_is_a_finding_not_an_error(
    presets: Presets, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "gpus", tuple)
    row = found(doctor.rows(presets, tmp_path))["GPU"]
    assert (row.status, row.detail) == ("missing", "none seen by NVML")
    assert isinstance(gpus(), tuple)


def test_a_python_that_does_not_run(presets: Presets, tmp_path: Path) -> None:
    row = found(doctor.rows(presets, tmp_path, "/no/python"))["vllm"]
    assert row.status == "missing"
    assert "/no/python does not run" in row.detail


def test_a_port_in_use_names_its_holder(presets: Presets, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        engines = {"sglang": {"port": port}}
        row = found(doctor.rows(structs.replace(presets, engines=engines), tmp_path))[
            f"port {port}"
        ]
    assert row.status == "warning"
    assert row.detail.startswith("in use by pid ")


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
