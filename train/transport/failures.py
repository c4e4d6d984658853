"""What an exchange between ranks raises where another rank is the cause."""


class PeerLost(Exception):
    """An exchange failed because another rank is gone: its failure is the cause, this one a consequence."""


class RankUnresponsive(Exception):
    """A rank that others wait for does not answer, or does not get on with its work."""
