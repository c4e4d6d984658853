"""A fault of ranks that train ends their job within a minute: the limits that this rests on, added up.

No test measures how long it took. Ranks that are still starting are waited for longer.
"""

import pytest

from train.launch.start.commands import SSH_OPTIONS
from train.launch.supervise import one_run
from train.transport import connections

MINUTE_S = 60


def test_a_silent_host_is_dropped_and_then_asked_what_is_left_there_and_a_strategys_worker_that_hangs_is_dropped():
    of_ssh = dict(option.split("=") for option in SSH_OPTIONS)
    silent_s = int(of_ssh["ServerAliveInterval"]) * (int(of_ssh["ServerAliveCountMax"]) + 1)  # ssh_config(5)
    assert silent_s + one_run.GRACE_S + int(of_ssh["ConnectTimeout"]) < MINUTE_S
    assert connections.LOOK_EVERY_S + connections.SILENCE_S < MINUTE_S


@pytest.mark.slow
def test_a_worker_of_parameter_servers_that_does_not_answer_or_makes_no_step_is_dropped():
    from train.distribution import parameter_servers as ps

    assert ps.ASK_EVERY_S + connections.SILENCE_S < MINUTE_S
    assert ps.step_limit_s(1.0) + ps.ASK_EVERY_S < MINUTE_S
