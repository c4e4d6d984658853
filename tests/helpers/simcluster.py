"""A real cluster on one machine, as root: hosts in namespaces, each with its own network, name, processes and /tmp.

n0 is where one logs in, n1 to nN compute; each runs a real sshd, the computing ones Slurm. They share one folder, as a
parallel file system does, and the programs of this machine. Faults are injected from outside: a host crashes, its link
goes silent, all links become slow. Any number of clusters can be up at once: each has a folder and a network of its
own. A cluster dies with the program that made it.

    python tests/helpers/simcluster.py shell --hosts 4       a shell on n0; its end ends the cluster
    python tests/helpers/simcluster.py crash n2              from another terminal; boot n2 brings it back
    python tests/helpers/simcluster.py link n2 down          no packet passes; link n2 up mends it
    python tests/helpers/simcluster.py rate 100              every link carries 100 Mbit/s; rate none: as it was
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = Path(__file__).with_suffix(".sh")
# Where a user's cluster stands, unless told otherwise. Not below /tmp: there each host has its own.
DEFAULT_FOLDER = Path("/var/tmp/simcluster")

_PACKAGES = {  # command -> Debian package
    "ip": "iproute2",
    "unshare": "util-linux",
    "sshd": "openssh-server",
    "ssh": "openssh-client",
    "slurmctld": "slurmctld",
    "slurmd": "slurmd",
    "sbatch": "slurm-client",
}
_UP_WITHIN_S = 90

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

# Passwords and keys are not what is tested here, nor cgroups, which a host in a namespace does not own.
_SLURM = """\
ClusterName=sim
SlurmctldHost=n0
SlurmUser=root
AuthType=auth/none
CredType=cred/none
AuthInfo=cred_expire=5
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
SlurmdTimeout=5
KillWait=2
MailProg=/bin/true
SlurmdParameters=config_overrides
NodeName=n[1-{hosts}] CPUs={cpus} RealMemory=4000
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE
"""


def missing() -> str | None:
    """Why this machine cannot make a cluster, and what would mend it; None where it can."""
    if os.geteuid() != 0:
        return "hosts in namespaces need root"
    absent = sorted({package for command, package in _PACKAGES.items() if not shutil.which(command, path=_path())})
    if absent:
        return f"hosts in namespaces need Debian packages: apt install --no-install-recommends {' '.join(absent)}"
    probe = "ip link add br0 type bridge && ip link add v0 type veth peer name v1"
    tried = subprocess.run(
        ["unshare", "-n", "-u", "-i", "-m", "-p", "-f", "--mount-proc", "sh", "-c", probe],
        capture_output=True,
        text=True,
    )
    if tried.returncode:
        return f"this machine cannot make hosts in namespaces: {tried.stderr.strip()}"
    return None


def _path() -> str:
    """The commands of this environment and of the system's administrator."""
    return os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"], "/usr/sbin", "/sbin"])


class Cluster:
    """Hosts n0 to nN around one folder, which all of them see; it must exist. Use it in a `with` statement.

    Args:
        folder: shared by all hosts, at the same path. Its .cluster/ holds the cluster's own files and logs.
        hosts: how many compute.
        cpus: of each host. Hosts take this machine's cores in turn; where there are too few, they share them.
    """

    def __init__(self, folder: Path, hosts: int = 4, cpus: int = 1) -> None:
        """Only keep what is asked for: `start` makes it."""
        self.folder, self.cpus = folder.resolve(), cpus
        self.hosts = tuple(f"n{number}" for number in range(1, hosts + 1))
        self.state = self.folder / ".cluster"
        self._outer: subprocess.Popen | None = None

    def __enter__(self) -> Cluster:
        """Start it."""
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop it."""
        self.stop()

    def start(self) -> None:
        """Bring all hosts up; return when Slurm calls them idle. Raises RuntimeError where that takes too long."""
        shutil.rmtree(self.state, ignore_errors=True)
        (self.state / "log").mkdir(parents=True)
        self._write_files()
        # --pdeathsig and --kill-child: however this program ends, the switch ends, and with it everything inside.
        command = ["setpriv", "--pdeathsig", "KILL", "unshare", "-n", "-m", "-p", "-f", "--kill-child", "--mount-proc"]
        command += ["--propagation", "private", str(SCRIPT), "switch", str(len(self.hosts))]
        with (self.state / "log" / "switch.log").open("wb") as log:
            self._outer = subprocess.Popen(
                command, env=self._environment(), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        children = Path(f"/proc/{self._outer.pid}/task/{self._outer.pid}/children")
        end = time.monotonic() + _UP_WITHIN_S
        while not children.exists() or not (first := children.read_text().strip()):
            self._still_coming(end)
        (self.state / "switch.pid").write_text(first)
        while not self._idle():
            self._still_coming(end)

    def _still_coming(self, end: float) -> None:
        if (self._outer and self._outer.poll() is not None) or time.monotonic() > end:
            self.stop()
            raise RuntimeError(f"a host did not come up within {_UP_WITHIN_S} s: see {self.state / 'log'}")
        time.sleep(0.05)

    def _idle(self) -> bool:
        if not all((self.state / f"{host}.pid").exists() for host in ("n0", *self.hosts)):
            return False
        seen = self.on("n0", "sinfo", "-h", "-N", "-t", "idle", "-o", "%N")
        return sorted(seen.stdout.split()) == sorted(self.hosts)

    def stop(self) -> None:
        """End every process of every host."""
        if self._outer:
            self._outer.kill()
            self._outer.wait()
            self._outer = None

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
            own = {cores[(number * self.cpus + k) % len(cores)] for k in range(self.cpus)}
            (state / f"cpus.{host}").write_text(",".join(map(str, sorted(own))))

    def _environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "PATH": _path(),
            "FOLDER": str(self.folder),
            "KIT": str(ROOT),
            "SLURM_CONF": str(self.state / "slurm.conf"),
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        }

    def _enter(self, host: str | None, command: Sequence[str]) -> list[str]:
        """The command line that runs `command` on a host, or on the switch."""
        dies_with_parent = ["setpriv", "--pdeathsig", "KILL"]  # nsenter forks, and passes no signal on
        entered = ["nsenter", "-t", (self.state / "switch.pid").read_text(), "-a", "-w", *dies_with_parent]
        if host:
            # The host's process number is the switch's: the switch's own /proc must be asked.
            entered += ["nsenter", "-t", (self.state / f"{host}.pid").read_text().strip(), "-a", "-w"]
            entered += dies_with_parent
            # nsenter as root sees every core: the host has its own.
            entered += ["taskset", "-c", (self.state / f"cpus.{host}").read_text()]
        return [*entered, "env", "-C", str(ROOT), *command]

    def popen(self, host: str, *command: str) -> subprocess.Popen:
        """Start a command on a host, in the kit's folder. Killing it from here kills it there."""
        return subprocess.Popen(
            self._enter(host, command),
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def on(self, host: str, *command: str, timeout: float = 240) -> subprocess.CompletedProcess:
        """Run a command on a host, in the kit's folder, to its end; stdout holds what it prints, errors too."""
        return subprocess.run(
            self._enter(host, command),
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout,
        )

    def shell(self) -> int:
        """A shell for a person on n0."""
        return subprocess.run(self._enter("n0", ["bash", "--norc"]), env=self._environment()).returncode

    def _on_switch(self, *command: str) -> None:
        subprocess.run(self._enter(None, command), env=self._environment(), check=True, stdin=subprocess.DEVNULL)

    def crash(self, host: str) -> None:
        """Pull a host's plug: it falls silent, then all its processes are gone."""
        # The cable first: a dying process would say goodbye to its peers, a dead host does not, and goodbyes that
        # wait to be sent would keep the cable for minutes. Without them it goes with the host, at any moment.
        self._on_switch("ip", "link", "del", f"v{host[1:]}")
        pid = self.state / f"{host}.pid"
        self._on_switch("kill", "-9", pid.read_text().strip())
        pid.unlink()

    def boot(self, host: str) -> None:
        """Bring a crashed host back, empty; return when its sshd can be reached."""
        self._on_switch("setsid", "-f", str(SCRIPT), "boot", host)
        end = time.monotonic() + _UP_WITHIN_S
        while (
            not (self.state / f"{host}.pid").exists()
            or self.on("n0", "timeout", "1", "bash", "-c", f": </dev/tcp/{host}/22").returncode
        ):
            self._still_coming(end)

    def link(self, host: str, up: bool) -> None:
        """Cut a host's cable, or mend it. Nobody is told: packets vanish."""
        self._on_switch("ip", "link", "set", f"v{host[1:]}", "up" if up else "down")

    def rate(self, mbit_per_s: float | None) -> None:
        """Limit what every host's link carries, in each direction; None: no limit."""
        if mbit_per_s is None:
            rule = ["del", "dev", "{}", "root"]
        else:
            rule = ["replace", "dev", "{}", "root", "tbf", "rate", f"{mbit_per_s}mbit"]
            rule += ["burst", "128kb", "latency", "50ms"]
        for host in ("n0", *self.hosts):
            self._on_switch("tc", "qdisc", *(word.format(f"v{host[1:]}") for word in rule))
            done = self.on(host, "tc", "qdisc", *(word.format("eth0") for word in rule))
            if done.returncode:
                raise RuntimeError(f"{host}: {done.stdout}")


def main() -> int:
    """A cluster for a person: a shell on it, and its faults from another terminal."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=DEFAULT_FOLDER, help="what the hosts share")
    actions = parser.add_subparsers(dest="action", required=True)
    shell = actions.add_parser("shell", help="make a cluster, open a shell on its login host n0")
    shell.add_argument("--hosts", type=int, default=4)
    shell.add_argument("--cpus", type=int, default=1, help="of each host")
    for name in ("crash", "boot"):
        actions.add_parser(name).add_argument("host")
    link = actions.add_parser("link")
    link.add_argument("host")
    link.add_argument("state", choices=("up", "down"))
    actions.add_parser("rate").add_argument("mbit_per_s", type=lambda text: None if text == "none" else float(text))
    asked = parser.parse_args()
    if reason := missing():
        print(f"error: {reason}", file=sys.stderr)
        return 2
    if asked.action == "shell":
        asked.folder.mkdir(parents=True, exist_ok=True)
        with Cluster(asked.folder, asked.hosts, asked.cpus) as cluster:
            print(f"hosts: {' '.join(cluster.hosts)}; all of them see {asked.folder}; `sinfo` shows Slurm's view")
            return cluster.shell()
    hosts = sum(1 for _ in (asked.folder / ".cluster").glob("cpus.*")) - 1
    cluster = Cluster(asked.folder, hosts)
    if asked.action in ("crash", "boot"):
        getattr(cluster, asked.action)(asked.host)
    elif asked.action == "link":
        cluster.link(asked.host, asked.state == "up")
    else:
        cluster.rate(asked.mbit_per_s)
    return 0


if __name__ == "__main__":
    sys.exit(main())
