"""A simulated cluster on one machine, for root: hosts in namespaces, each with its own network, name, processes, /tmp.

n0 is the login host, n1 to nN are compute hosts. Each runs a real sshd; n0 runs slurmctld, the others slurmd. They
share one folder, like a parallel file system, and the programs of this machine. Faults are injected from outside: a
host crashes, its link goes silent. Several clusters can run at the same time, each with its own folder and network. A
cluster ends when the program that started it ends.

    python -m tests.helpers.simcluster shell --hosts 4       opens a shell on n0; leaving it ends the cluster
    python -m tests.helpers.simcluster crash n2              from another terminal; boot n2 restarts the host
    python -m tests.helpers.simcluster link n2 down          packets vanish; link n2 up restores the link
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.helpers import needs

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = Path(__file__).with_suffix(".sh")
# The shared folder of a user's cluster by default. Not below /tmp, because each host has its own /tmp.
DEFAULT_FOLDER = Path("/var/tmp/simcluster")

_PROGRAMS = ("ip", "ssh", "ssh-keygen", "sshd", "sbatch", "slurmctld", "slurmd", "pgrep")
# The command lines of ranks, for pgrep and pkill.
RANKS = "python.* -m train .*--run-dir"
_NONE: Mapping[str, str] = {}
_UP_WITHIN_S = 300
_TIMEOUT_S = 500  # only ends a command that would hang
_PIPED: dict[str, Any] = {
    "stdin": subprocess.DEVNULL,
    "stdout": subprocess.PIPE,
    "stderr": subprocess.STDOUT,
    "text": True,
}

_SSHD = """\
HostKey {state}/ssh/host_key
AuthorizedKeysFile {state}/ssh/authorized_keys
PermitRootLogin yes
StrictModes no
UsePAM no
UseDNS no
PidFile none
MaxStartups 100
"""

# Neither munge nor cgroups: authentication is not tested here, and a host in a namespace has no separate cgroups.
# Timeouts are Slurm's defaults or longer, so that a busy machine costs no host, message or job. Only credentials expire
# sooner, in 15 s instead of 120, because a job that is started again waits for that.
_SLURM = """\
ClusterName=sim
SlurmctldHost=n0
SlurmUser=root
AuthType=auth/none
CredType=cred/none
AuthInfo=cred_expire=15
StateSaveLocation=/run/slurmctld
SlurmdSpoolDir=/run/slurmd
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmctldLogFile={state}/log/slurmctld.log
SlurmdLogFile={state}/log/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
SchedulerParameters=sched_interval=1,bf_interval=1
SlurmdTimeout=300
MessageTimeout=60
TCPTimeout=20
BatchStartTimeout=300
KillWait=300
MailProg=/bin/true
SlurmdParameters=config_overrides
NodeName=n[1-{hosts}] CPUs={cpus} RealMemory=4000
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE
"""


def missing() -> str | None:
    """Return why this machine cannot run a cluster; None if it can."""
    if reason := needs.missing(*_PROGRAMS, root=True, path=_path()):
        return reason
    namespaces = ["unshare", "-n", "-u", "-i", "-m", "-p", "-f", "--mount-proc"]
    script = "ip link add br0 type bridge && ip link add v0 type veth peer name v1"
    done = subprocess.run(
        [*namespaces, "sh", "-c", script], env={**os.environ, "PATH": _path()}, capture_output=True, text=True
    )
    problem = done.stderr.strip() or f"exit status {done.returncode}"
    return f"this machine cannot create the namespaces of simulated hosts: {problem}" if done.returncode else None


def _path() -> str:
    """Return PATH with the commands of this environment and those for administrators."""
    return os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"], "/usr/sbin", "/sbin"])


class Cluster:
    """Hosts n0 to nN with a shared folder. Use it in a `with` statement.

    Args:
        folder: shared by all hosts, at the same path; must exist. Its .cluster/ has the cluster's files and logs.
        hosts: number of compute hosts.
        cpus: of each host. Hosts get this machine's cores in turn, and share them if there are too few.
        environment: of all commands. The cluster adds its variables.
    """

    def __init__(
        self, folder: Path, hosts: int = 4, cpus: int = 1, environment: Mapping[str, str] = os.environ
    ) -> None:
        """Store the settings; a `with` statement starts the hosts."""
        self.folder, self.cpus, self._variables = folder.resolve(), cpus, environment
        self.hosts = tuple(f"n{number}" for number in range(1, hosts + 1))
        self.state = self.folder / ".cluster"
        self._switch: subprocess.Popen | None = None

    def __enter__(self) -> Cluster:
        """Start all hosts; return when Slurm reports them idle. Raises RuntimeError if that takes too long."""
        shutil.rmtree(self.state, ignore_errors=True)
        (self.state / "log").mkdir(parents=True)
        self._write_files()
        # --pdeathsig and --kill-child: however this program ends, the switch ends, and with it all hosts.
        command = ["setpriv", "--pdeathsig", "KILL", "unshare", "-n", "-m", "-p", "-f", "--kill-child", "--mount-proc"]
        command += ["--propagation", "private", str(SCRIPT), "switch", str(len(self.hosts))]
        with (self.state / "log" / "switch.log").open("wb") as log:
            self._switch = subprocess.Popen(
                command, env=self._environment(), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        children = Path(f"/proc/{self._switch.pid}/task/{self._switch.pid}/children")
        end = time.monotonic() + _UP_WITHIN_S
        while not children.exists() or not (first := children.read_text().strip()):
            self._check_progress(end)
        (self.state / "switch.pid").write_text(first)
        while not self._idle():
            self._check_progress(end)
        return self

    def _check_progress(self, end: float) -> None:
        """Wait 50 ms. Raises RuntimeError if the cluster has ended or `end` has passed."""
        if (self._switch and self._switch.poll() is not None) or time.monotonic() > end:
            self.__exit__()
            raise RuntimeError(f"a host did not come up within {_UP_WITHIN_S} s: see {self.state / 'log'}")
        time.sleep(0.05)

    def _idle(self) -> bool:
        if not all((self.state / f"{host}.pid").exists() for host in ("n0", *self.hosts)):
            return False
        sinfo = self.on("n0", "sinfo", "-h", "-N", "-t", "idle", "-o", "%N")
        return sorted(sinfo.stdout.split()) == sorted(self.hosts)

    def __exit__(self, *_: object) -> None:
        """Kill every process of every host."""
        if self._switch:
            self._switch.kill()
            self._switch.wait()
            self._switch = None

    def _write_files(self) -> None:
        state, ssh = self.state, self.state / "ssh"
        ssh.mkdir()
        for key in ("id_ed25519", "host_key"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", ssh / key], check=True)
        (ssh / "authorized_keys").write_text((ssh / "id_ed25519.pub").read_text())
        host_key = (ssh / "host_key.pub").read_text().split()[:2]
        (ssh / "known_hosts").write_text("".join(f"{host} {' '.join(host_key)}\n" for host in ("n0", *self.hosts)))
        (state / "sshd_config").write_text(_SSHD.format(state=state))
        (state / "slurm.conf").write_text(_SLURM.format(state=state, hosts=len(self.hosts), cpus=self.cpus))
        addresses = [f"10.77.0.{10 + number} n{number}" for number in range(len(self.hosts) + 1)]
        (state / "hosts").write_text("\n".join(["127.0.0.1 localhost", *addresses]) + "\n")
        cores = sorted(os.sched_getaffinity(0))
        (state / "cpus.n0").write_text(",".join(map(str, cores)))
        for number, host in enumerate(self.hosts):
            cpus = {cores[(number * self.cpus + k) % len(cores)] for k in range(self.cpus)}
            (state / f"cpus.{host}").write_text(",".join(map(str, sorted(cpus))))

    def _environment(self) -> dict[str, str]:
        return {
            **self._variables,
            "PATH": _path(),
            "FOLDER": str(self.folder),
            "KIT": str(ROOT),
            "SLURM_CONF": str(self.state / "slurm.conf"),
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        }

    def _enter(self, host: str | None, command: Sequence[str]) -> list[str]:
        """Return the command line that runs `command` on a host; None: on the switch."""
        dies_with_parent = ["setpriv", "--pdeathsig", "KILL"]  # nsenter forks, and forwards no signals
        enter = ["nsenter", "-t", (self.state / "switch.pid").read_text(), "-a", "-w", *dies_with_parent]
        if host:
            # The PID of a host is valid in the switch's PID namespace, so nsenter must run there.
            enter += ["nsenter", "-t", (self.state / f"{host}.pid").read_text().strip(), "-a", "-w"]
            enter += dies_with_parent
            # nsenter as root may use every core; restrict it to the host's cores.
            enter += ["taskset", "-c", (self.state / f"cpus.{host}").read_text()]
        return [*enter, "env", "-C", str(ROOT), *command]

    def popen(self, host: str, *command: str, variables: Mapping[str, str] = _NONE) -> subprocess.Popen:
        """Start a command on a host, in the kit's folder. Killing the returned process kills the command."""
        return subprocess.Popen(self._enter(host, command), env={**self._environment(), **variables}, **_PIPED)

    def on(self, host: str, *command: str, variables: Mapping[str, str] = _NONE) -> subprocess.CompletedProcess:
        """Run a command on a host, in the kit's folder, and return when it has ended; stdout includes stderr."""
        environment = {**self._environment(), **variables}
        return subprocess.run(self._enter(host, command), env=environment, timeout=_TIMEOUT_S, **_PIPED)

    def queue(self) -> list[str]:
        """Return the IDs of the jobs in Slurm's queue."""
        return self.on("n0", "squeue", "-h", "-o", "%i").stdout.split()

    def processes(self, pattern: str, *hosts: str) -> list[str]:
        """Return process ID and command line of all processes on these hosts whose command line matches the pattern."""
        return [line for host in hosts for line in self.on(host, "pgrep", "-af", pattern).stdout.splitlines()]

    def shell(self) -> int:
        """Open an interactive shell on n0; return its exit status."""
        return subprocess.run(self._enter("n0", ["bash", "--norc"]), env=self._environment()).returncode

    def _on_switch(self, *command: str) -> None:
        subprocess.run(self._enter(None, command), env=self._environment(), check=True, stdin=subprocess.DEVNULL)

    def crash(self, host: str) -> None:
        """Crash a host: its link goes silent, then all its processes are killed."""
        # The link first: the kernel closes the connections of a dying process, a dead host does not. Packets that wait
        # to be sent would also keep the link alive for minutes.
        self._on_switch("ip", "link", "del", f"v{host[1:]}")
        pid = self.state / f"{host}.pid"
        self._on_switch("kill", "-9", pid.read_text().strip())
        pid.unlink()

    def boot(self, host: str) -> None:
        """Restart a crashed host, without its old processes; return when its sshd answers."""
        self._on_switch("setsid", "-f", str(SCRIPT), "boot", host)
        end = time.monotonic() + _UP_WITHIN_S
        while (
            not (self.state / f"{host}.pid").exists()
            or self.on("n0", "timeout", "1", "bash", "-c", f": </dev/tcp/{host}/22").returncode
        ):
            self._check_progress(end)

    def link(self, host: str, up: bool) -> None:
        """Take a host's link down or up. No peer is notified: packets vanish."""
        self._on_switch("ip", "link", "set", f"v{host[1:]}", "up" if up else "down")


def main() -> int:
    """Open a shell on a new cluster, or inject a fault into a running one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=DEFAULT_FOLDER, help="shared by all hosts")
    actions = parser.add_subparsers(dest="action", required=True)
    shell = actions.add_parser("shell", help="start a cluster, open a shell on its login host n0")
    shell.add_argument("--hosts", type=int, default=4)
    shell.add_argument("--cpus", type=int, default=1, help="of each host")
    for name in ("crash", "boot"):
        actions.add_parser(name).add_argument("host")
    link = actions.add_parser("link")
    link.add_argument("host")
    link.add_argument("state", choices=("up", "down"))
    args = parser.parse_args()
    if reason := missing():
        print(f"error: {reason}", file=sys.stderr)
        return 2
    if args.action == "shell":
        args.folder.mkdir(parents=True, exist_ok=True)
        with Cluster(args.folder, args.hosts, args.cpus) as cluster:
            print(f"hosts: {' '.join(cluster.hosts)}; shared folder: {args.folder}; `sinfo` shows the state of Slurm")
            return cluster.shell()
    hosts = sum(1 for _ in (args.folder / ".cluster").glob("cpus.*")) - 1
    cluster = Cluster(args.folder, hosts)
    if args.action in ("crash", "boot"):
        getattr(cluster, args.action)(args.host)
    else:
        cluster.link(args.host, args.state == "up")
    return 0


if __name__ == "__main__":
    sys.exit(main())
