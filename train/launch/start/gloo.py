"""`horovodrun --gloo` without two of its checks: of the features of Horovod, and of the interface that hosts share.

For the first, horovodrun imports TensorFlow in a separate process at every launch, which adds five seconds to the
start phase of every point. For the second it starts a service on every host; here each rank finds its
interface towards the others. Everything else is Horovod's launcher: rendezvous, ssh, ending all ranks when one dies.

With --elastic it is Horovod's elastic launcher: a host that dies is removed, one that comes back is added.
"""

import argparse
import logging
import socket
import subprocess
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self

from horovod.runner import gloo_run
from horovod.runner.common.util import hosts, secret, settings, timeout
from horovod.runner.elastic.discovery import HostDiscovery
from horovod.runner.elastic.driver import ElasticDriver
from horovod.runner.elastic.rendezvous import PUT_WORKER_ADDRESSES, create_rendezvous_handler
from horovod.runner.elastic.settings import ElasticSettings
from horovod.runner.http.http_server import RendezvousHandler
from horovod.runner.util import network, remote

from record import protocol
from train.launch.start.commands import ssh_prefix
from train.rank import placement, process
from train.transport import rendezvous

_START_TIMEOUT_S = 300  # Horovod's default is 30
_PROBE_S = 1.0
# A host is removed from the list only long after training has continued without it (ssh and Gloo give it up within
# 15 s): Horovod tells rank 0 of every change of the list and waits meanwhile, and rank 0 may be on that host.
MISSES = 12  # probes without an answer, two seconds apart
# For how long a host is left out after a failure of one of its ranks: longer at each failure, between these values.
_COOLDOWN_S = (12, 60)


class Answering(HostDiscovery):
    """The hosts whose sshd could be reached recently."""

    def __init__(self, slots: Mapping[str, int]) -> None:
        """Take the ranks of each host."""
        self._slots, self._misses = dict(slots), dict.fromkeys(slots, 0)
        self._addresses = {host: sshd_address(host) for host in slots}

    def find_available_hosts_and_slots(self) -> dict[str, int]:
        """Return the hosts that answered one of the last probes, with their slots."""
        with ThreadPoolExecutor(len(self._slots)) as pool:
            for host, answers in zip(self._addresses, pool.map(is_answering, self._addresses.values()), strict=True):
                self._misses[host] = 0 if answers else self._misses[host] + 1
        return {host: slots for host, slots in self._slots.items() if self._misses[host] < MISSES}


class Driver(ElasticDriver):
    """Horovod's driver, which tells rank 0 of changed hosts by a file that only this user can write.

    Horovod's own driver would send a pickle, with a key from the store, where anyone can read it.
    """

    folder: Path  # of the run

    def get_worker_client(self, slot_info: hosts.SlotInfo) -> Self:
        """Return this driver, which tells rank 0 itself."""
        return self

    def notify_hosts_updated(self, timestamp: int, change: int) -> None:
        """Tell rank 0 of the change, by a file."""
        hosts_change = protocol.HostsChange(timestamp, int(change))
        protocol.write_message(protocol.hosts_change_path(self.folder), hosts_change)


def without_pickles(driver: ElasticDriver) -> type[RendezvousHandler]:
    """Return the handler of requests to the store of an elastic job, without those that Horovod would unpickle."""
    handler: type[RendezvousHandler] = create_rendezvous_handler(driver)

    class WithoutPickles(handler):  # type: ignore[valid-type, misc]
        def _put_value(self, scope: str, key: str, value: bytes) -> None:
            if scope != PUT_WORKER_ADDRESSES:
                super()._put_value(scope, key, value)

    return WithoutPickles


def sshd_address(host: str) -> tuple[str, int]:
    """Return address and port of a host's sshd, as the user's ssh would find them."""
    output = subprocess.run(["ssh", "-G", host], check=True, capture_output=True, text=True).stdout
    settings = dict(line.split(maxsplit=1) for line in output.splitlines() if " " in line)
    return settings["hostname"], int(settings["port"])


def is_answering(address: tuple[str, int]) -> bool:
    """Return whether a process listens at this address."""
    try:
        with socket.create_connection(address, timeout=_PROBE_S):
            return True
    except OSError:
        return False


def main() -> None:
    """Start the ranks and wait for them; fail if one fails, or if elastic when none is left or training fails."""
    parser = argparse.ArgumentParser(prog="python -m train.launch.start.gloo", description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, required=True, help="if elastic, at the start, and at most")
    parser.add_argument("--hosts", required=True, help="host:slots,host:slots")
    parser.add_argument("--elastic", type=Path, metavar="FOLDER", help="of the run: continue with the hosts that live")
    parser.add_argument("--interface", help="of the network between the hosts; else each rank finds it")
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()
    # Horovod has no setting for the ssh command. Without these options a lost host would be noticed after minutes.
    remote.SSH_COMMAND_PREFIX = ssh_prefix()
    names, slots = hosts.parse_hosts_and_slots(arguments.hosts)
    interface = arguments.interface or placement.interface_towards(names)
    # Ranks in separate networks are called localhost too, but reach the launcher only over the interface.
    over_interface = arguments.interface or arguments.elastic
    address = network.get_driver_ip([interface]) if over_interface else placement.address_towards(names)
    rendezvous.prepare_server(arguments.ranks, address)
    common = {
        "num_proc": arguments.ranks,
        "key": secret.make_secret_key(),
        "start_timeout": timeout.Timeout(_START_TIMEOUT_S, message="Timed out waiting for {activity}."),
    }
    if not arguments.elastic:
        chosen = settings.Settings(hosts=arguments.hosts, **common)
        gloo_run.gloo_run(chosen, [interface], process.variables_for_other_hosts(), address, arguments.command)
        return
    # launcher.log shows which hosts are lost and which return.
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    Driver.folder = arguments.elastic
    gloo_run.ElasticDriver, gloo_run.create_rendezvous_handler = Driver, without_pickles
    elastic = ElasticSettings(
        discovery=Answering(slots),
        min_num_proc=1,
        max_num_proc=arguments.ranks,
        elastic_timeout=_START_TIMEOUT_S,
        reset_limit=None,
        cooldown_range=_COOLDOWN_S,
        nics=[interface],
        **common,
    )
    gloo_run.gloo_run_elastic(elastic, process.variables_for_other_hosts(), arguments.command, None)


if __name__ == "__main__":
    main()
