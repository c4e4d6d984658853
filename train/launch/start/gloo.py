"""`horovodrun --gloo` without two of its checks: what Horovod was built with, and which interface all hosts share.

For the first, horovodrun imports TensorFlow in a separate process at every launch, which adds five seconds to the
start phase of every point. For the second it starts a service on every host; here each rank finds which of its
interfaces leads to the others. All else is Horovod's launcher: rendezvous, ssh, ending all ranks when one dies.
"""

from __future__ import annotations

import argparse

from horovod.runner.common.util import hosts, secret, settings, timeout
from horovod.runner.gloo_run import gloo_run
from horovod.runner.util import network, remote

from train.launch.start.commands import ssh_prefix
from train.rank import placement, variables
from train.transport import rendezvous_server

_START_TIMEOUT_S = 300  # Horovod's default is 30


def main() -> None:
    """Start the ranks, wait for them, fail if one of them fails."""
    parser = argparse.ArgumentParser(prog="python -m train.launch.start.gloo", description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--hosts", required=True, help="host:slots,host:slots")
    parser.add_argument("--interface", help="of the network between the hosts; else each rank finds it")
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()
    chosen = settings.Settings(
        key=secret.make_secret_key(),
        num_proc=arguments.ranks,
        hosts=arguments.hosts,
        start_timeout=timeout.Timeout(_START_TIMEOUT_S, message="Timed out waiting for {activity}."),
    )
    names, _ = hosts.parse_hosts_and_slots(arguments.hosts)
    # Horovod has no setting for these: without them it takes minutes until a host that stops answering is noticed.
    remote.SSH_COMMAND_PREFIX = ssh_prefix()
    interface = arguments.interface or placement.interface_towards(names)
    # Ranks in separate networks are called localhost too, but reach the launcher only over the interface.
    address = network.get_driver_ip([interface]) if arguments.interface else placement.address_towards(names)
    rendezvous_server.allow_for(arguments.ranks, address)
    gloo_run(chosen, [interface], variables.for_other_hosts(), address, arguments.command)


if __name__ == "__main__":
    main()
