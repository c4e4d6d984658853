"""When the rounds of a launch end."""


def is_over(made: int, counting: int, enough: int | None, begin_s: float, now_s: float, end_s: float) -> bool:
    """Return whether no further round begins: enough of them count, or the next one would mostly be beyond the end.

    made: how many rounds were made, since begin_s. Times are in s since the launch of the job. Half of the next round
    may be beyond the end.
    """
    if enough is not None and counting >= enough:
        return True
    return now_s + (now_s - begin_s) / made / 2 >= end_s
