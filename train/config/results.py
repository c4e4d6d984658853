"""The folder of the records: every command that measures tries there, before it measures, what a launch does.

Some file systems refuse hard links, modes, locks or more, as exFAT, SMB, FUSE and some of clusters. Then something else
is done that loses nothing, or nothing is measured.
"""

import errno
import fcntl
import grp
import os
import pwd
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from record import run_files as files
from train.config.checks import ConfigError


def check_results(results: Path, trust_others: bool = False) -> list[str]:
    """Make the results folder, and let nobody else write to what this process writes from now on; return warnings.

    Raises ConfigError if no record could be written in it, or another user could exchange what is in it: a program
    would then run as this user. trust_others: system.trust_others of the configuration.
    """
    os.umask(os.umask(0) | 0o022)
    try:
        files.make_folder(results)
    except OSError as error:
        why = "a file" if results.is_file() else error.strerror
        raise ConfigError(f"results={results}: {why}; give a folder for records, as RESULTS=/data/results") from error
    if not trust_others and (who := _other_writers(results)):
        raise ConfigError(
            f"results={results}: {who} may write there, and could exchange a command before it runs as you; "
            f"chmod go-w {results}, take another folder (RESULTS=), or ARGS=system.trust_others=true"
        )
    probe = results / f".probe-{secrets.token_hex(4)}"
    try:
        probe.mkdir(mode=0o700)
        private = _tried(probe / "file")
        lasting, locked = _synchronizes(probe), _locks(probe / "file")
    except OSError as error:
        raise ConfigError(
            f"results={results}: {error.strerror}, on {file_system(results)}, and a launch needs it there; "
            "take a folder in another file system, as RESULTS=/data/results"
        ) from error
    finally:
        with suppress(OSError):
            (probe / "file").unlink(missing_ok=True)
            probe.rmdir()
    if not private and not trust_others:
        raise ConfigError(
            f"results={results}: {file_system(results)} keeps no permissions, so every user of this host could read "
            "the secret of a job; mount it with umask=077, take another folder (RESULTS=), or "
            "ARGS=system.trust_others=true"
        )
    lacks = [] if lasting else ["has no fsync: a power cut may lose what was measured in the seconds before"]
    lacks += [] if locked else ["has no locks: start no two launches there at the same moment"]
    return [f"results={results}: {file_system(results)} {what}" for what in lacks]


def _tried(path: Path) -> bool:
    """Do with a file what launches do; return whether no other user may read one that is private.

    Raises OSError, whose `strerror` says what is not possible.
    """
    with _operation("write a file"):
        files.write_file(path, b"once")
    with _operation("keep a file that exists"), suppress(FileExistsError):
        files.write_file(path, b"twice")
    with _operation("add to a file"):
        files.append(path, b" more")
    with _operation("read what was written"):
        if (content := path.read_bytes()) != b"once more":
            raise OSError(errno.EIO, f"{content!r}, not 'once more'")
    with _operation("replace a file"):
        files.write_file(path, b"again", mode=0o600, replace=True)
    return not (path.stat().st_mode & 0o077)


@contextmanager
def _operation(name: str) -> Iterator[None]:
    """Name in an OSError what was done."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, f"cannot {name}: {error.strerror}") from error


def _synchronizes(folder: Path) -> bool:
    """Return whether a file system can be asked to write to its disk. Raises OSError if it cannot write."""
    descriptor = os.open(folder / "file", os.O_RDWR)
    try:
        os.fsync(descriptor)
    except OSError:  # `whole_file` has tried it, too: it is lacking
        return False
    finally:
        os.close(descriptor)
    return True


def _locks(path: Path) -> bool:
    """Return whether a file can be locked. Raises OSError if it cannot be removed."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        with _operation("remove a file"):
            path.unlink()
    return True


def file_system(path: Path) -> str:
    """Return the kind of file system that a path is on, and where it is mounted: "exfat (/media/disk)"."""
    absolute = path.resolve()
    mounts = [part for part in psutil.disk_partitions(all=True) if absolute.is_relative_to(part.mountpoint)]
    mount = max(mounts, key=lambda part: len(part.mountpoint), default=None)
    return f"{mount.fstype} ({mount.mountpoint})" if mount else "a file system that /proc/mounts does not name"


def _other_writers(folder: Path) -> str:
    """Return who else may exchange files in a folder by its mode, as OpenSSH's StrictModes looks at it; "" if nobody.

    In a folder with the sticky bit only the owner of a file may exchange it. A private group has no other user.
    """
    status = folder.stat()
    if status.st_mode & stat.S_ISVTX or not status.st_mode & 0o022:
        return ""
    if status.st_mode & 0o002:
        return "everyone"
    with suppress(KeyError):
        group, user = grp.getgrgid(status.st_gid), pwd.getpwuid(os.getuid())
        if group.gr_name == user.pw_name and not {*group.gr_mem} - {user.pw_name}:
            return ""
    return f"the group {status.st_gid}"
