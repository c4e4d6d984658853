"""A fault of a rank that trains ends its job within a minute, as the timeouts add up to less.

No test measures the time itself. Ranks that still start get longer.
"""

import pytest

from train.launch.start.start_commands import SSH_OPTIONS
from train.launch.supervise import one_run
from train.transport import connections

MINUTE_S = 60


def test_a_silent_host_and_a_worker_of_a_strategy_that_hangs_are_dropped():
    options = dict(option.split("=") for option in SSH_OPTIONS)
    silent_s = int(options["ServerAliveInterval"]) * (int(options["ServerAliveCountMax"]) + 1)  # ssh_config(5)
    assert silent_s + one_run.END_WITHIN_S + int(options["ConnectTimeout"]) < MINUTE_S
    assert connections.LOOK_EVERY_S + connections.SILENCE_S < MINUTE_S


@pytest.mark.slow
def test_a_worker_of_parameter_servers_that_does_not_answer_or_makes_no_step_is_dropped():
    from train.distribution import parameter_servers as ps

    assert ps.ASK_EVERY_S + connections.SILENCE_S < MINUTE_S
    assert ps.step_limit_s(1.0) + ps.ASK_EVERY_S < MINUTE_S
