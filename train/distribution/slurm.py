"""How ranks that Slurm's srun started find each other for Gloo, without a Slurm plugin for MPI.

Rank 0 runs Horovod's rendezvous server, as horovodrun does on the host where it is called, and writes its address into
a file in a folder that all hosts see. Slurm's environment variables tell each rank its number.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from train.rank import placement
from train.record import protocol
from train.transport import rendezvous

_servers: list[Any] = []  # a server lives as long as its process
_written: list[Path] = []


def tasks_per_node(text: str) -> list[int]:
    """Return SLURM_STEP_TASKS_PER_NODE as one number per node: "2(x3),1" -> 2, 2, 2, 1."""
    runs = re.findall(r"(\d+)(?:\(x(\d+)\))?", text)
    return [int(tasks) for tasks, times in runs for _ in range(int(times or 1))]


def is_needed(variables: Mapping[str, str]) -> bool:
    """Return whether srun started this process, and no other launcher told it how to find the other ranks."""
    launchers = ("HOROVOD_RANK", "OMPI_COMM_WORLD_RANK")
    return "SLURM_STEP_NUM_TASKS" in variables and not any(name in variables for name in launchers)


def gloo_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that tell Horovod's Gloo which rank this is, from those of a Slurm step."""
    nodes = tasks_per_node(variables["SLURM_STEP_TASKS_PER_NODE"])
    node, local = int(variables["SLURM_NODEID"]), int(variables["SLURM_LOCALID"])
    across = [number for number, tasks in enumerate(nodes) if tasks > local]  # nodes that have such a local rank
    return {
        "HOROVOD_RANK": variables["SLURM_PROCID"],
        "HOROVOD_SIZE": variables["SLURM_STEP_NUM_TASKS"],
        "HOROVOD_LOCAL_RANK": str(local),
        "HOROVOD_LOCAL_SIZE": str(nodes[node]),
        "HOROVOD_CROSS_RANK": str(across.index(node)),
        "HOROVOD_CROSS_SIZE": str(len(across)),
        "HOROVOD_HOSTNAME": variables["SLURMD_NODENAME"],
        "HOROVOD_CONTROLLER": "gloo",
        "HOROVOD_CPU_OPERATIONS": "gloo",
    }


def set_gloo_variables(folder: Path) -> None:
    """Set all environment variables that Horovod's Gloo needs; call it before Horovod is imported.

    folder: one that all hosts see. Raises ConfigError if the file that rank 0 writes there does not appear.
    """
    variables = os.environ
    variables.update(gloo_variables(variables))
    step = [variables.get(f"SLURM_{name}", "0") for name in ("JOB_ID", "RESTART_COUNT", "STEP_ID")]
    path = folder.resolve() / f".rendezvous-{'.'.join(step)}"
    if variables["HOROVOD_RANK"] == "0":
        peers = variables.get(protocol.PEERS, variables.get("SLURM_SRUN_COMM_HOST", "")).split(",")
        folder.mkdir(parents=True, exist_ok=True)
        host = placement.address_towards(peers)
        rendezvous.write_file(path, f"{host} {_serve(variables, host)}")
        _written.append(path)
    hint = "it died, or the hosts do not share the folder; see rank 0's output, or give another folder: results=..."
    address, port = rendezvous.wait_for_file(path, hint).split()
    variables["HOROVOD_GLOO_RENDEZVOUS_ADDR"], variables["HOROVOD_GLOO_RENDEZVOUS_PORT"] = address, port


def remove_files() -> None:
    """Remove the file that this process wrote for the others, once all have joined."""
    while _written:
        _written.pop().unlink(missing_ok=True)


def _serve(variables: Mapping[str, str], host: str) -> int:
    """Start Horovod's rendezvous server in a thread of this process, and return its port."""
    from horovod.runner.common.util.hosts import HostInfo, get_host_assignments
    from horovod.runner.http.http_server import RendezvousServer

    nodes = tasks_per_node(variables["SLURM_STEP_TASKS_PER_NODE"])
    rendezvous.prepare_server(sum(nodes), host)
    plan = get_host_assignments([HostInfo(f"node{number}", tasks) for number, tasks in enumerate(nodes)], sum(nodes))
    server = RendezvousServer()
    port = server.start()
    server.init(plan)
    _servers.append(server)
    return port
