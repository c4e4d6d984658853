"""`horovodrun --gloo` without two of its checks: of the features of Horovod, and of the interface that hosts share.

For the first, horovodrun imports TensorFlow in a separate process at every launch, which adds five seconds to the
start phase of every point. For the second it starts a service on every host; here each rank finds its
interface towards the others. Everything else is Horovod's launcher: rendezvous, ssh, ending all ranks when one dies.
"""

import argparse

from horovod.runner import gloo_run
from horovod.runner.common.util import hosts, secret, settings, timeout
from horovod.runner.util import network, remote

from train.launch.start.start_commands import ssh_prefix
from train.rank import placement, process
from train.transport import rendezvous

_START_TIMEOUT_S = 300  # Horovod's default is 30


def main() -> None:
    """Start the ranks and wait for them; fail if one fails."""
    parser = argparse.ArgumentParser(prog="python -m train.launch.start.gloo", description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--hosts", required=True, help="host:slots,host:slots")
    parser.add_argument("--interface", help="of the network between the hosts; else each rank finds it")
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()
    # Horovod has no setting for the ssh command. Without these options a lost host would be noticed after minutes.
    remote.SSH_COMMAND_PREFIX = ssh_prefix()
    names, _ = hosts.parse_hosts_and_slots(arguments.hosts)
    interface = arguments.interface or placement.interface_towards(names)
    # Ranks in separate networks are called localhost too, but reach the launcher only over the interface.
    address = network.get_driver_ip([interface]) if arguments.interface else placement.address_towards(names)
    rendezvous.prepare_server(arguments.ranks, address)
    chosen = settings.Settings(
        num_proc=arguments.ranks,
        hosts=arguments.hosts,
        key=secret.make_secret_key(),
        start_timeout=timeout.Timeout(_START_TIMEOUT_S, message="Timed out waiting for {activity}."),
    )
    gloo_run.gloo_run(chosen, [interface], process.variables_for_other_hosts(), address, arguments.command)


if __name__ == "__main__":
    main()
