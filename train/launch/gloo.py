"""`horovodrun --gloo`, without its question what Horovod was built with.

To answer that one, horovodrun imports TensorFlow in a process of its own at every launch: five seconds, on the start
phase of every point. All else is Horovod's launcher as it is: rendezvous, ssh, the end of all ranks when one dies.
"""

from __future__ import annotations

import argparse
import os

from horovod.runner.common.util import hosts, secret, settings, timeout
from horovod.runner.driver import driver_service
from horovod.runner.gloo_run import gloo_run
from horovod.runner.util import network

_START_TIMEOUT_S = 300  # ranks that share cores take minutes to import TensorFlow; the default is 30


def main() -> None:
    """Start the ranks, wait for them, fail where one of them fails."""
    parser = argparse.ArgumentParser(prog="python -m train.launch.gloo", description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--hosts", required=True, help="host:slots,host:slots")
    parser.add_argument("--interface", help="the network interface that all hosts have; found out where not given")
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()
    os.environ.setdefault("HOROVOD_GLOO_TIMEOUT_SECONDS", str(_START_TIMEOUT_S))
    chosen = settings.Settings(
        key=secret.make_secret_key(),
        num_proc=arguments.ranks,
        hosts=arguments.hosts,
        start_timeout=timeout.Timeout(_START_TIMEOUT_S, message="Timed out waiting for {activity}."),
    )
    names, _ = hosts.parse_hosts_and_slots(arguments.hosts)
    interfaces = (
        [arguments.interface]
        if arguments.interface
        else driver_service.get_common_interfaces(chosen, names, network.filter_local_addresses(names))
    )
    gloo_run(chosen, interfaces, os.environ, network.get_driver_ip(interfaces), arguments.command)


if __name__ == "__main__":
    main()
