"""Bytes between the processes of a job: its secret, authenticated connections, groups of ranks over TCP."""


class PeerLost(Exception):
    """An exchange failed because another rank is gone: its failure is the cause, this one is a consequence."""


class RankUnresponsive(Exception):
    """A rank that others wait for does not answer, or makes no progress."""

    def __init__(self, message: str, rank: int | None = None, host: str | None = None) -> None:
        """Take the message, and the rank with its host if it is a single one."""
        super().__init__(message)
        self.rank, self.host = rank, host
