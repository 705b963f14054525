"""The Dockerfiles: linted, pinned, and with all that their builds need."""

import re
import shutil
import subprocess
import tomllib

import pytest

from tests.docker.compose import DOCKER, dockerfile
from tests.gpu_node.matrix import environment

ROOT = DOCKER.parent
NAMES = sorted(path.name.removesuffix(".Dockerfile") for path in DOCKER.glob("*.Dockerfile"))


@pytest.mark.parametrize("name", NAMES)
def test_hadolint(name: str) -> None:
    linter = shutil.which("hadolint", path=environment()["PATH"])
    assert linter, "hadolint is missing: pip install -e '.[dev]'"
    path = DOCKER / f"{name}.Dockerfile"
    done = subprocess.run([linter, path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name", NAMES)
def test_what_is_copied_exists_and_is_not_ignored(name: str) -> None:
    ignored = (DOCKER / f"{name}.Dockerfile.dockerignore").read_text().splitlines()
    assert ignored[0] == "*"
    allowed = {line[1:] for line in ignored if line.startswith("!")}
    assert copied(name) == allowed
    assert all((ROOT / path).exists() for path in allowed)


def copied(name: str) -> set[str]:
    """What the build takes from the clone."""
    lines = re.findall(r"^COPY (?!--from)(.+)$", dockerfile(name), re.MULTILINE)
    return {source for line in lines for source in line.split()[:-1]}


def test_the_client_image_has_all_that_its_package_is_built_from() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    needed = {"pyproject.toml", "constraints.txt", project["project"]["readme"]}
    needed |= set(project["project"]["license-files"])
    needed |= set(wheel["packages"]) | set(wheel.get("force-include", {}))
    assert needed == copied("client")
    assert "--constraint constraints.txt" in dockerfile("client")


def test_the_client_runs_as_nobody_special() -> None:
    _, _, final = dockerfile("client").rpartition("\nFROM ")
    assert re.search(r"^USER [1-9]\d*$", final, re.MULTILINE)
    owned = re.search(r"install --directory --owner bench (.+)$", final, re.MULTILINE)
    assert owned
    assert owned[1].split() == ["/work", "/work/results"]  # `launch` writes its log to the first
    assert 'ENTRYPOINT ["bench-client"]' in final


@pytest.mark.parametrize("name", NAMES)
def test_every_version_is_pinned(name: str) -> None:
    text = dockerfile(name)
    images = re.findall(r"^(?:FROM |ARG \w+=)([\w./-]+(?::[\w.-]+)?)(?: |$)", text, re.MULTILINE)
    assert images
    assert all(re.search(r":\d+\.\d+\.\d+-", image) for image in images)
    for line in re.findall(r"pip install (.+)", text):
        packages = [word.strip("'") for word in line.split() if not word.startswith("-")]
        loose = [word for word in packages if "==" not in word]
        assert name == "client" or not loose, loose
    for source in re.findall(r"https://\S+", text):
        assert re.search(r"#[0-9a-f]{40}$", source)
