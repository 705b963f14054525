"""What a run is asked to do, and who is told how it goes."""

from pathlib import Path
from typing import Protocol

from msgspec import Struct

from bench_client.records import RequestRecord
from bench_client.run.transports import Kind, TransportSpec
from bench_client.wire.paced import Pacing
from bench_client.wire.transport import Limits
from server_launchers.settings import LaunchCommand


class Arm(Struct, frozen=True, kw_only=True):
    """A server to launch by `command`, or one that runs already at `url`."""

    name: str
    command: LaunchCommand | None = None
    url: str | None = None
    served_model_name: str | None = None
    model: str | None = None
    draft_model: str | None = None
    simulated: bool = False


class RunOptions(Struct, frozen=True, kw_only=True):
    """What all arms of an experiment share beside the plan.

    `ray` is the address of the cluster that the workers run on; null: this machine. `secrets` are
    values that nothing kept or shown may quote.
    """

    results: Path
    argv: tuple[str, ...] = ()
    headers: dict[str, str] = {}
    secrets: tuple[str, ...] = ()
    transport: Kind = "wire"
    limits: Limits = Limits()
    ca: str | None = None
    insecure: bool = False
    pacing: Pacing = Pacing()
    workers: int = 1
    ray: str | None = None
    calibrate: bool = True
    save_text: bool = False

    def transport_to(self, url: str) -> TransportSpec:
        """What carries requests to a server."""
        return TransportSpec(
            url=url,
            kind=self.transport,
            headers=self.headers,
            limits=self.limits,
            ca=self.ca,
            insecure=self.insecure,
            pacing=self.pacing,
        )


class Observer(Protocol):
    """Told how a run goes, so that it can be shown."""

    def phase(self, text: str) -> None:
        """What is being waited for."""

    def begin(self, arm: str, total: int) -> None:
        """The clock starts."""

    def record(self, record: RequestRecord) -> None:
        """A request has ended."""

    def interrupted(self) -> None:
        """A signal ends the run; the records so far are kept."""
